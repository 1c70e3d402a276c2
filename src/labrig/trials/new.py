"""`lab trials new`: copies a trial's code and settings under a new name."""

from __future__ import annotations

import keyword
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from ..command_parser import CommandParser
from ..config.trial_names import TRIAL_NAME, trial_names
from ..errors import LabError, nearest
from ..project import Project
from .code import code_files, trial_directory
from .page import read_gone
from .readme import NEW, NO_QUESTION

DEFAULT_PARENT = "baseline"


def new_command(project: Project, args: list[str]) -> int:
    """`lab trials new`.

    Returns: 0, or 1 when the trial is made and does not pass its check.
    """
    parser = CommandParser(
        prog="lab trials new",
        description="Copies the code and settings of a trial under a new name. Trains one batch of it.",
    )
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "--from",
        dest="parent",
        default=DEFAULT_PARENT,
        metavar="PARENT",
        help=f"the trial to start from (default: {DEFAULT_PARENT})",
    )
    parser.add_argument(
        "-m", dest="question", metavar="QUESTION", help="what the trial asks; for its README"
    )
    parser.add_argument(
        "--no-check",
        action="store_true",
        help="do not compose it and train one batch, which takes seconds",
    )
    options = parser.parse_args(args)
    directory = new_trial(project, options.name, options.parent, options.question)
    shown = os.path.relpath(directory)
    print(f"made {shown}/ from {options.parent}", flush=True)
    open_in_editor(directory / "README.md")
    passed = options.no_check or check_trial(project, options.name)
    print(f"  1. write the question and the one change: {shown}/README.md")
    print("  2. make the change")
    print(f"  3. lab check trial={options.name} && lab train trial={options.name}")
    return 0 if passed else 1


def new_trial(project: Project, name: str, parent: str, question: str | None = None) -> Path:
    """Makes trials/<name>/ with the code and settings of trials/<parent>/ and an open README.

    Returns: the new directory.
    """
    directory = trial_directory(project, name)
    require_new_name(project, name)
    names = trial_names(project)
    if parent not in names:
        raise LabError(
            f"no trial {parent!r}{nearest(parent, names)} to start from. "
            f"Trials: {', '.join(names) or 'none'}"
        )
    source = trial_directory(project, parent)
    # Copied under a temporary name, so that no half trial is left
    temporary = directory.with_name(f".{name}.new")
    shutil.rmtree(temporary, ignore_errors=True)
    for file in code_files(source):
        (temporary / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / file, temporary / file)
    readme = NEW.format(
        name=name,
        parent=f"**Parent.** [{parent}](../{parent}/README.md)\n\n",
        question=question or NO_QUESTION,
        change=f"The one thing that differs from {parent}.",
    )
    (temporary / "README.md").write_text(readme, encoding="utf-8")
    temporary.rename(directory)
    return directory


def require_new_name(project: Project, name: str) -> None:
    """Makes sure that a trial can be named so."""
    if not TRIAL_NAME.fullmatch(name) or keyword.iskeyword(name):
        raise LabError(
            f"{name!r} cannot be the name of a trial; use lower-case letters, digits and _, "
            "begin with a letter, and avoid Python's keywords."
        )
    directory = trial_directory(project, name)
    if directory.exists():
        raise LabError(f"trial {name!r} exists already: {directory}. Choose another name.")
    gone = read_gone(project).get(name)
    if gone and gone.new_name:
        raise LabError(
            f"{name!r} was the name of a trial which is {gone.new_name!r} since {gone.date}. "
            "Choose another name, so that their runs are not mixed up."
        )
    if gone:
        raise LabError(
            f"trial {name!r} was dropped on {gone.date}; TRIALS.md says why. Choose another name, "
            f"or bring it back: lab trials restore {name}"
        )


def open_in_editor(path: Path) -> None:
    """Opens a file in the user's editor; only on a terminal, and only when $EDITOR names one."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    try:
        subprocess.run([*shlex.split(editor), str(path)])
    except (OSError, ValueError) as error:
        print(f"lab: the editor {editor!r} cannot be started: {error}", file=sys.stderr)


def check_trial(project: Project, name: str) -> bool:
    """Whether a trial composes and trains one batch; prints what it is that fails."""
    from ..training.check.command import check_and_print  # it imports Hydra and torch

    return check_and_print(project, [f"trial={name}"], batch=True) == 0
