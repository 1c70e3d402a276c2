# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab trials new`: copies a trial under a new name."""

from __future__ import annotations

import argparse
import keyword
import shutil
from pathlib import Path

from ..config.trial_names import TRIAL_NAME, trial_names
from ..errors import LabError, nearest
from ..project import Project

README = """# {name}

**Parent.** [{parent}](../{parent}/README.md)

**Question.** What does this trial ask?

**Change.** The one thing that differs from {parent}.

**Numbers.** `lab runs list trial={name}` shows the runs behind them.

| seed | {metric} |
|---|---|

**Verdict.** Open.
"""


def new_command(project: Project, args: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="lab trials new", description="Copies a trial's directory under a new name."
    )
    parser.add_argument("name")
    parser.add_argument(
        "--from",
        dest="parent",
        default="baseline",
        metavar="PARENT",
        help="the trial to start from (default: baseline)",
    )
    chosen = parser.parse_args(args)
    made = new_trial(project, chosen.name, chosen.parent)
    place = made.relative_to(project.root)
    print(
        f"made {place}/ from {chosen.parent}\n  1. write the question and the one change: {place}/README.md\n  2. make the change"
    )
    print(f"  3. lab check trial={chosen.name} && lab train trial={chosen.name}")
    return 0


def new_trial(project: Project, name: str, parent: str) -> Path:
    """Makes trials/<name>/ as a copy of trials/<parent>/ with an open README.

    Raises:
        LabError: a name that cannot be imported or is taken, or no such parent.
    """
    folder = project.source / "trials"
    known = trial_names(project)
    if not TRIAL_NAME.fullmatch(name) or keyword.iskeyword(name):
        raise LabError(
            f"trial name {name!r} must be lower-case letters, digits and _, beginning with a letter, and no Python word."
        )
    if (folder / name).exists():
        raise LabError(f"there is a trial {name!r} already: {folder / name}. Choose another name.")
    if parent not in known:
        raise LabError(
            f"no trial {parent!r}{nearest(parent, known)} to start from. Trials: {', '.join(known) or 'none'}"
        )
    aside = folder / f".{name}.new"
    shutil.rmtree(aside, ignore_errors=True)
    shutil.copytree(
        folder / parent, aside, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
    )
    (aside / "README.md").write_text(
        README.format(name=name, parent=parent, metric="val/loss"), encoding="utf-8"
    )
    aside.rename(folder / name)
    return folder / name
