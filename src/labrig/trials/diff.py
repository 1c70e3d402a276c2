"""`lab trials diff`: code and settings of two trials side by side."""

from __future__ import annotations

import argparse
import shutil
from typing import Any

from ..config.trial_names import trial_names
from ..errors import LabError, nearest
from ..machine.terminal import printable
from ..project import Project
from ..record.differences import ABSENT, flatten, format_both
from .code import code_files, trial_directory
from .readme import read_readme
from .side_by_side import EQUAL, LEFT, OTHER, RIGHT, side_by_side, wrap_pair

SETTINGS = "config.yaml"  # compared as composed settings, with all that it inherits
MIN_WIDTH = 80


def diff_command(project: Project, args: list[str]) -> int:
    """`lab trials diff`.

    Returns: 1 when the trials differ, else 0.

    Raises:
        LabError: no such trial, or no parent to compare with.
    """
    parser = argparse.ArgumentParser(
        prog="lab trials diff",
        description="Composed settings and code of two trials side by side; of one: next to its "
        "parent. Exit code 1 when they differ.",
    )
    parser.add_argument("a", metavar="A")
    parser.add_argument("b", metavar="B", nargs="?")
    options = parser.parse_args(args)
    a, b = options.a, options.b
    if b is None:
        require_trials(project, a)
        a, b = parent_of(project, a), a
    require_trials(project, a, b)
    width = max(MIN_WIDTH, shutil.get_terminal_size((MIN_WIDTH, 24)).columns)
    lines = [*settings_lines(project, a, b, width), *code_lines(project, a, b, width)]
    if not lines:
        print(f"{a} and {b}: no difference in code and settings")
        return 0
    print("\n".join([*wrap_pair(a, b, EQUAL, (width - 3) // 2), *lines]))
    return 1


def require_trials(project: Project, *wanted: str) -> None:
    """Makes sure that there are such trials.

    Raises:
        LabError: with the nearest name.
    """
    names = trial_names(project)
    for name in wanted:
        if name not in names:
            raise LabError(f"no trial {name!r}{nearest(name, names)}. Trials: {', '.join(names)}")


def parent_of(project: Project, name: str) -> str:
    """The parent of a trial.

    Raises:
        LabError: its README names none, or one that is gone.
    """
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


def settings_lines(project: Project, a: str, b: str, width: int) -> list[str]:
    """The composed settings that differ; the files as text, when one does not compose."""
    try:
        left = composed_settings(project, a)
        right = composed_settings(project, b)
    except LabError as error:
        return [
            f"== {SETTINGS} (cannot compose: {printable(error)})",
            *file_lines(project, a, b, SETTINGS, width),
        ]
    lines = []
    for key in {**left, **right}:
        before = left.get(key, ABSENT)
        after = right.get(key, ABSENT)
        if before != after:
            lines += setting_lines(key, before, after, width)
    return ["== settings", *lines] if lines else []


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


def setting_lines(key: str, before: object, after: object, width: int) -> list[str]:
    """The key on both sides, with its two values."""
    left, right = (f"{key}: {printable(text)}" for text in format_both(before, after))
    column = (width - 3) // 2
    if before is ABSENT:
        return list(wrap_pair("", right, RIGHT, column))
    if after is ABSENT:
        return list(wrap_pair(left, "", LEFT, column))
    return list(wrap_pair(left, right, OTHER, column))


def code_lines(project: Project, a: str, b: str, width: int) -> list[str]:
    """The files that differ, each below its name."""
    names = set(code_files(trial_directory(project, a))) | set(
        code_files(trial_directory(project, b))
    )
    lines = []
    for name in sorted(names - {SETTINGS}):
        differing = file_lines(project, a, b, name, width)
        if differing:
            lines += [f"== {printable(name)}", *differing]
    return lines


def file_lines(project: Project, a: str, b: str, name: str, width: int) -> list[str]:
    """One file of two trials side by side, where it differs; one that is missing is empty."""
    contents = []
    for trial in (a, b):
        path = trial_directory(project, trial) / name
        contents.append(path.read_bytes() if path.is_file() else b"")
    if contents[0] == contents[1]:
        return []
    if any(b"\0" in content for content in contents):
        left, right = (f"{len(content)} bytes" for content in contents)
        return list(wrap_pair(left, right, OTHER, (width - 3) // 2))
    texts = [content.decode("utf-8", errors="replace").expandtabs(4) for content in contents]
    left, right = ([printable(line) for line in text.splitlines()] for text in texts)
    return side_by_side(left, right, width)
