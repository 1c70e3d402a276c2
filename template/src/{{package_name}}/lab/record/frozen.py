# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Code that runs from a snapshot: LAB_FROZEN names the directory into which a run's code was materialised."""

import os
from pathlib import Path

from ..errors import Refused
from ..project import LAB, PACKAGE
from .files import read_json

LABEL = ".lab-snapshot.json"  # lies in the frozen directory: the `code` section of the record it was made from


def directory() -> Path | None:
    """Where the frozen code lies, or None when this process runs the live tree."""
    return Path(os.environ["LAB_FROZEN"]).resolve() if os.environ.get("LAB_FROZEN") else None


def check() -> None:
    """Makes sure that a process that should run frozen code does.

    An editable install puts the live tree on the path; without this check a job would silently run code
    edited since.

    Raises:
        Refused: the package was imported from elsewhere than LAB_FROZEN.
    """
    folder = directory()
    if folder and not LAB.is_relative_to(folder):
        raise Refused(
            f"this run must use the frozen code in {folder}, but {PACKAGE} was imported from {LAB.parent}.\n"
            f"Put the snapshot first on the path: PYTHONPATH={folder}/src"
        )


def recorded() -> dict:
    """The `code` section that belongs to the frozen code this process runs.

    Raises:
        Refused: the directory carries no label, or another commit's than LAB_SNAPSHOT_COMMIT says.
    """
    check()
    code = read_json(directory() / LABEL) or {}
    expected = os.environ.get("LAB_SNAPSHOT_COMMIT", code.get("commit"))
    if not code.get("commit") or code["commit"] != expected:
        raise Refused(
            f"{directory() / LABEL} names the commit {code.get('commit')}, expected {expected}. "
            "Make such a directory with: lab runs code RUN DIRECTORY"
        )
    return code
