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
    parent_help = "the trial to start from (default: baseline)"
    parser.add_argument(
        "--from", dest="parent", default="baseline", metavar="PARENT", help=parent_help
    )
    options = parser.parse_args(args)
    directory = new_trial(project, options.name, options.parent).relative_to(project.root)
    print(f"made {directory}/ from {options.parent}")
    print(f"  1. write the question and the one change: {directory}/README.md")
    print("  2. make the change")
    print(f"  3. lab check trial={options.name} && lab train trial={options.name}")
    return 0


def new_trial(project: Project, name: str, parent: str) -> Path:
    """Makes trials/<name>/ as a copy of trials/<parent>/ with an open README.

    Returns: the new directory.

    Raises:
        LabError: the name exists or cannot be imported, or there is no such parent.
    """
    trials = project.source / "trials"
    directory = trials / name
    names = trial_names(project)
    if not TRIAL_NAME.fullmatch(name) or keyword.iskeyword(name):
        raise LabError(
            f"{name!r} cannot be the name of a trial: use lower-case letters, digits and _, "
            "begin with a letter, and avoid Python's keywords."
        )
    if directory.exists():
        raise LabError(f"trial {name!r} exists already: {directory}. Choose another name.")
    if parent not in names:
        raise LabError(
            f"no trial {parent!r}{nearest(parent, names)} to start from. "
            f"Trials: {', '.join(names) or 'none'}"
        )
    # Copied under a temporary name, so that no half trial is left
    temporary = trials / f".{name}.new"
    shutil.rmtree(temporary, ignore_errors=True)
    unwanted = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
    shutil.copytree(trials / parent, temporary, ignore=unwanted)
    readme = README.format(name=name, parent=parent, metric="val/loss")
    (temporary / "README.md").write_text(readme, encoding="utf-8")
    temporary.rename(directory)
    return directory
