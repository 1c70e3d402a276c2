# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The code of a run: frozen from the project, or taken over from the snapshot that this process runs from (LAB_FROZEN)."""

import os
from pathlib import Path

from ..errors import LabError, Refused
from ..project import LAB, PACKAGE, Project
from .bundle import LABEL, bundle
from .files import read_json
from .git import Git
from .snapshot import NoRepository, snapshot


def freeze(project: Project, runs: Path, trial: str, dirty: str = "snapshot", **options: object) -> dict:
    """The `code` section of a record: pinned in the repository, and kept as a bundle below `runs`.

    Args:
        dirty: what to do about uncommitted changes: "snapshot" or "refuse".
        options: of `snapshot`.

    Raises:
        Refused: the snapshot refuses, or there are uncommitted changes and `dirty` is "refuse".
    """
    if dirty not in ("snapshot", "refuse"):
        raise LabError(f"record.dirty={dirty}: it is one of snapshot, refuse")
    if directory():
        return recorded()
    try:
        code = snapshot(project.root, **options)
    except NoRepository as error:
        return unrecorded(str(error))
    if code["dirty"] and dirty == "refuse":
        raise Refused(
            f"record.dirty=refuse, and {code['n_changed'] + code['n_untracked']} files are not committed. "
            "Type: git add -A && git commit    or run with: record.dirty=snapshot"
        )
    git = Git(project.root)
    package = f"{code['prefix']}src/{project.package}"
    folders = [package, f"{package}/trials/{trial.partition('/')[0]}"]
    names = "".join(f"{code['commit']}:{folder}\n" for folder in folders)
    trees = [line.split() for line in git("cat-file", "--batch-check", stdin=names).splitlines()]
    if trees[0][-1] == "missing":
        return unrecorded(f"the git repository around {project.root} ignores {package}")
    code["package_tree"], code["trial_tree"] = (None if tree[-1] == "missing" else tree[0] for tree in trees)
    bundle(git, runs, code)
    return code | {"complete": True}


def unrecorded(reason: str) -> dict:
    """The `code` section of a run whose code git cannot record."""
    return {"commit": None, "dirty": None, "complete": False, "reason": reason}


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
