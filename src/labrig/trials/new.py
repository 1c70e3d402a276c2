"""`lab trials new`: copies a trial under a new name. `lab trials rename`: gives it another; its runs follow."""

from __future__ import annotations

import keyword
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from ..command_parser import CommandParser
from ..config.trial_names import PAGE, TRIAL_NAME, current_names, trial_names
from ..errors import LabError, nearest
from ..project import Project
from ..record.files.atomic import write_file
from ..record.freeze.git import Git
from .files import (
    NEW,
    NO_QUESTION,
    add_renamed,
    code_files,
    read_gone,
    remove_lines,
    trial_directory,
    with_parent,
)

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
    from ..training.check import check_and_print  # it imports Hydra and torch

    return check_and_print(project, [f"trial={name}"], batch=True) == 0


def rename_command(project: Project, args: list[str]) -> int:
    parser = CommandParser(
        prog="lab trials rename",
        description="Gives a trial another name, also in the files of trials/ and conf/ that name it. "
        "TRIALS.md notes it, so that its runs are listed under the new name.",
    )
    parser.add_argument("old", metavar="OLD")
    parser.add_argument("new", metavar="NEW")
    options = parser.parse_args(args)
    edited = rename_trial(project, options.old, options.new)
    directory = os.path.relpath(trial_directory(project, options.new))
    print(f"renamed {options.old}: it is {directory}/, and {PAGE} notes the old name")
    for path in edited:
        print(f"  edited {os.path.relpath(path)}")
    for line in other_mentions(project, options.old):
        print(f"  still names {options.old}: {line}")
    print(f"Look at it, then: git add -A && git commit -m 'Rename trial {options.old}'")
    return 0


def rename_trial(project: Project, old: str, new: str) -> list[Path]:
    """Renames the directory of a trial, and what names it in trials/ and conf/; commits nothing.

    A directory that was renamed by hand gets its line in TRIALS.md.

    Returns: the files that were edited.
    """
    names = trial_names(project)
    trials = project.source / "trials"
    renamed_by_hand = old not in names and new in names and old not in read_gone(project)
    if old not in names and not renamed_by_hand:
        raise LabError(f"no trial {old!r}{nearest(old, names)}. Trials: {', '.join(names)}")
    if not renamed_by_hand:
        is_an_old_name = current_names(read_gone(project), trials).get(new) == old
        if not is_an_old_name:
            require_new_name(project, new)
        trial_directory(project, old).rename(trial_directory(project, new))
    remove_lines(project, new)  # the name is in use again
    add_renamed(project, old, new)
    return [path for path in files_that_may_name_it(project) if rename_in(path, old, new)]


def files_that_may_name_it(project: Project) -> list[Path]:
    """The texts of trials/ and conf/."""
    folders = (project.source / "trials", project.source / "conf")
    paths = [path for folder in folders for path in folder.rglob("*")]
    return sorted(
        path for path in paths if path.suffix in (".py", ".yaml", ".md") and path.is_file()
    )


def rename_in(path: Path, old: str, new: str) -> bool:
    """Replaces the name of a trial in one file; whether anything changed.

    In Python and YAML these are `trials.OLD` and `trial/OLD`, in a README its title, the parent and
    what one types.
    """
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    renamed = re.sub(rf"\b(trials?[./]|trial=){old}\b", rf"\g<1>{new}", text)
    if path.suffix == ".md":
        renamed = with_parent(renamed, old, new)
        renamed = renamed.replace(f"lab trials result {old}`", f"lab trials result {new}`")
    if path.name == "README.md" and path.parent.name == new:
        renamed = re.sub(rf"\A# {old}$", f"# {new}", renamed, flags=re.MULTILINE)
    if renamed == text:
        return False
    write_file(path, renamed)
    return True


def other_mentions(project: Project, old: str) -> list[str]:
    """Lines elsewhere that name the trial, as file:line: text; without git none are found."""
    pattern = rf"trials?[./]{old}\b|trial={old}\b"
    elsewhere = (":(exclude)" + PAGE, ":(exclude)*/lab/*")
    done = Git(project.root).run("grep", "--untracked", "-nPI", pattern, "--", ".", *elsewhere)
    return done.stdout.splitlines()[:5]
