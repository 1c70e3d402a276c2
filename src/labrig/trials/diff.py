"""`lab trials diff`: the settings of two trials side by side, and their code as git compares it."""

from __future__ import annotations

from typing import Any

from ..command_parser import CommandParser
from ..config.trial_names import trial_names
from ..errors import LabError, nearest
from ..machine.git import Git
from ..machine.text_formats import printable
from ..machine.text_table import TextColumn, text_table
from ..project import Project
from ..record.read.settings import ABSENT, flatten, format_both
from .files import code_files, read_readme, trial_directory

SETTINGS = "config.yaml"  # compared as composed settings, with all that it inherits


def diff_command(project: Project, args: list[str]) -> int:
    """`lab trials diff`.

    Returns: 1 when the trials differ, else 0.
    """
    parser = CommandParser(
        prog="lab trials diff",
        description="Composed settings of two trials side by side, and their code as git compares it; of "
        "one: with its parent. Exit code 1 when they differ.",
    )
    parser.add_argument("a", metavar="A")
    parser.add_argument("b", metavar="B", nargs="?")
    options = parser.parse_args(args)
    a, b = options.a, options.b
    if b is None:
        require_trials(project, a)
        a, b = parent_of(project, a), a
    require_trials(project, a, b)
    lines = [*settings_lines(project, a, b), *code_lines(project, a, b)]
    if not lines:
        print(f"{a} and {b}: no difference in code and settings")
        return 0
    print("\n".join(lines))
    return 1


def require_trials(project: Project, *wanted: str) -> None:
    """Makes sure that there are such trials."""
    names = trial_names(project)
    for name in wanted:
        if name not in names:
            raise LabError(f"no trial {name!r}{nearest(name, names)}. Trials: {', '.join(names)}")


def parent_of(project: Project, name: str) -> str:
    """The parent of a trial."""
    parent = read_readme(trial_directory(project, name)).parent
    names = trial_names(project)
    if parent is None:
        raise LabError(
            f"the README of {name!r} names no parent. Name a second trial: lab trials diff A {name}"
        )
    if parent not in names:
        raise LabError(
            f"the parent of {name!r} is {parent!r}, which is gone. Bring it back with "
            f"lab trials restore {parent}, or name another: lab trials diff A {name}"
        )
    return parent


def settings_lines(project: Project, a: str, b: str) -> list[str]:
    """A table of the composed settings that differ; the files, when one does not compose."""
    try:
        left = composed_settings(project, a)
        right = composed_settings(project, b)
    except LabError as error:
        return [
            f"{SETTINGS} cannot compose: {printable(error)}",
            *file_lines(project, a, b, SETTINGS),
        ]
    keys = [key for key in {**left, **right} if left.get(key, ABSENT) != right.get(key, ABSENT)]
    if not keys:
        return []
    pairs = [format_both(left.get(key, ABSENT), right.get(key, ABSENT)) for key in keys]
    before, after = zip(*pairs, strict=True)
    columns = {"setting": keys, a: before, b: after}
    return text_table(
        [TextColumn(title, map(printable, texts)) for title, texts in columns.items()]
    )


def composed_settings(project: Project, name: str) -> dict[str, object]:
    """The settings of a trial by their dotted keys; its own classes as it names them: .model.CNN.

    Raises:
        LabError: they do not compose.
    """
    from omegaconf import OmegaConf  # with Hydra; the other commands of trials do not need it

    from ..config.compose import compose

    config: Any = OmegaConf.to_container(
        compose(project, [f"trial={name}"]).config, enum_to_str=True
    )
    leaves = flatten(config)
    leaves.pop("trial")
    directory = f"{project.package}.trials.{name}."
    return {key: shorten(value, directory) for key, value in leaves.items()}


def shorten(value: object, directory: str) -> object:
    """A class whose name begins with `directory` as .module.Class; any other value as it is."""
    if isinstance(value, str) and value.startswith(directory):
        return "." + value.removeprefix(directory)
    return value


def code_lines(project: Project, a: str, b: str) -> list[str]:
    """What git says of each file that differs."""
    names = {name for trial in (a, b) for name in code_files(trial_directory(project, trial))}
    lines = []
    for name in sorted(names - {SETTINGS}):
        lines += file_lines(project, a, b, name)
    return lines


def file_lines(project: Project, a: str, b: str, name: str) -> list[str]:
    """One file of two trials as git compares it; nothing when it is the same in both."""
    paths = [trial_directory(project, trial) / name for trial in (a, b)]
    shown = [
        str(path.relative_to(project.root)) if path.is_file() else "/dev/null" for path in paths
    ]
    words = ("diff", "--no-index", "--no-color", "--no-ext-diff", "--no-prefix", "--", *shown)
    return [printable(line) for line in Git(project.root).run(*words).stdout.splitlines()]
