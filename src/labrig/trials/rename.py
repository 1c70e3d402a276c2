"""`lab trials rename`: gives a trial another name; its runs are listed under the new one."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ..command_parser import CommandParser
from ..config.trial_names import PAGE, current_names, trial_names
from ..errors import LabError, nearest
from ..project import Project
from ..record.files.atomic import write_file
from ..record.freeze.git import Git
from .code import trial_directory
from .new import require_new_name
from .page import add_renamed, read_gone, remove_lines
from .readme import with_parent


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
