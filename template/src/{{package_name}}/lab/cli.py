# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""One command, `lab`: finds the project, finds the command, turns errors into one line and an exit code.

Every folder of lab/ lists its commands in its __init__.py; the file of a command is imported when it is called.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from .errors import LabError, nearest
from .project import LAB, PACKAGE, Project

FIRST = (
    "train",
    "submit",
    "queue",
    "logs",
    "runs",
    "trials",
    "data",
    "doctor",
)  # the first screen of --help


def main(argv: list[str] | None = None) -> int:
    """Runs one command line and returns its exit code (see docs: 0 done, 1 failed, 2 mistake, 3 not comparable, 4 refused)."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        return dispatch(argv) or 0
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("lab: interrupted", file=sys.stderr)
        return 130
    except (
        BrokenPipeError
    ):  # | head closed the pipe: not an error, and nothing more can be said on it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def dispatch(argv: list[str]) -> int | None:
    commands = all_commands()
    if argv and argv[0] in ("-h", "--help", "help"):
        print(first_screen(commands))
        return 0
    words = " ".join(argv[:2]) if " ".join(argv[:2]) in commands else "".join(argv[:1])
    if words not in commands:
        return group_or_unknown(argv, commands)
    module, function = commands[words][1].split(":")
    return getattr(import_module(module, __package__), function)(
        Project.find(), argv[len(words.split()) :]
    )


def all_commands() -> dict[str, tuple[str, str]]:
    """Words of each command -> (one line of help, "module:function")."""
    commands = {}
    for path in sorted(LAB.glob("*/__init__.py")):
        folder = import_module(f".{path.parent.name}", __package__)
        for words, help_line, function in getattr(folder, "COMMANDS", ()):
            commands[words] = (help_line, f".{path.parent.name}.{function}")
    return commands


def group_or_unknown(argv: list[str], commands: dict[str, tuple[str, str]]) -> int:
    members = {words: entry for words, entry in commands.items() if words.startswith(f"{argv[0]} ")}
    if not members:
        names = {words.split()[0] for words in commands if words}
        raise LabError(
            f"unknown command {argv[0]!r}{nearest(argv[0], names)}. All commands: lab --help"
        )
    if len(argv) == 1 or argv[1] in ("-h", "--help"):
        print(f"lab {argv[0]}: one of\n" + lines(members))
        return 0 if len(argv) > 1 else 2
    seconds = [words.split()[1] for words in members]
    raise LabError(
        f"unknown command 'lab {argv[0]} {argv[1]}'{nearest(argv[1], seconds)}. There are: {', '.join(seconds)}"
    )


def first_screen(commands: dict[str, tuple[str, str]]) -> str:
    first = {
        words: entry
        for name in FIRST
        for words, entry in commands.items()
        if words.split()[:1] == [name]
    }
    rest = {words: entry for words, entry in commands.items() if words and words not in first}
    return (
        f"lab: everything in the project {PACKAGE!r}. Settings follow the command, for example\n"
        "  lab train trial=baseline optimizer.lr=3e-4\n\n"
        f"{lines(first)}\n\nmore:\n{lines(rest)}\n\n"
        "'lab' alone tells what happened since you last looked; 'lab COMMAND --help' tells more."
    )


def lines(commands: dict[str, tuple[str, str]]) -> str:
    return "\n".join(f"  lab {words:<16} {help_line}" for words, (help_line, _) in commands.items())
