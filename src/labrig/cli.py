"""One command, `lab`: finds the command, and turns errors into a message and an exit code."""

from __future__ import annotations

import codecs
import io
import os
import sys
import textwrap

from . import env
from .commands import Command, added_commands, list_commands
from .errors import LabError, nearest
from .failure import debugging, describe, explain_missing_package, is_interruption, place_of
from .machine.text_formats import STAND_IN, lacks_letters, printable_lines
from .project import LIBRARY, this_project
from .version import __version__

FIRST = ("train", "submit", "queue", "logs", "runs", "trials", "data", "doctor")
# The command for a word of other tools
MEANT = {
    "best": "runs table",
    "compare": "runs compare",
    "diff": "runs diff",
    "evaluate": "eval",
    "export": "runs export",
    "export-model": "runs export-model",
    "fit": "train",
    "jobs": "queue",
    "kill": "cancel",
    "list": "runs list",
    "ls": "runs list",
    "new": "trials new",
    "pack": "data pack",
    "plot": "runs plot",
    "profile": "bench",
    "reproduce": "runs reproduce",
    "run": "train",
    "show": "runs show",
    "status": "queue",
    "stop": "cancel",
    "table": "runs table",
    "test": "eval",
    "validate": "eval",
}
WIDTH = 80  # columns of --help, which has at most 24 lines


def main(argv: list[str] | None = None) -> int:
    """Runs one command line and returns its exit code.

    Codes: 0 done, 1 failed or differs, 2 the user's mistake, 3 not comparable, 4 refused,
    130 interrupted.
    """
    open_closed_streams()
    env.name_the_user()
    allow_any_letter()
    try:
        code = run_command(sys.argv[1:] if argv is None else argv) or 0
        sys.stdout.flush()  # here, where a reader that left is no error
        return code
    except LabError as error:
        if debugging():
            raise
        print(f"lab: {printable_lines(error)}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        drop_output()  # `| head` closed the pipe, which is no error
        return 0
    except KeyboardInterrupt:
        print("lab: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        return report_error(error)


def report_error(error: Exception) -> int:
    """Prints an error of the project's own code in two lines, or what `explain` knows of any other.

    An error that it does not know passes unchanged.
    """
    if is_interruption(error):
        print("lab: interrupted", file=sys.stderr)
        return 130
    if debugging():
        raise error
    if place_of(error):
        print(f"lab: LAB_DEBUG=1 shows the whole traceback of:\n{describe(error)}", file=sys.stderr)
        return 1
    explanation = explain(error)
    if explanation is None:
        raise error
    print(f"lab: {explanation}", file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:
        drop_output()
    return 1


def drop_output() -> None:
    """Lets stdout lead nowhere: Python would write what is left once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def explain(error: Exception) -> str | None:
    """Why a disk refused, or which package this Python lacks; None for any other error."""
    if isinstance(error, ModuleNotFoundError):
        return explain_missing_package(error)
    if isinstance(error, BlockingIOError):
        return (
            f"no further process may be started ({error}). How many you may have: ulimit -u; how many "
            "you have: ps -u $(id -un) --no-headers | wc -l"
        )
    if isinstance(error, OSError):
        from .machine.disk import explain_disk_error  # rarely needed

        return explain_disk_error(error)
    return None


def open_closed_streams() -> None:
    """Lets a stream that the shell closed (`>&-`) lead nowhere.

    Otherwise the next file that is opened would get its number, and what is printed.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def allow_any_letter() -> None:
    """Prints a letter that the terminal lacks in ASCII: 0.95 +- 0.01, or a question mark."""
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper) or not lacks_letters(stream):
            continue
        is_utf8 = codecs.lookup(stream.encoding).name == "utf-8"
        stream.reconfigure(encoding="ascii" if is_utf8 else None, errors=STAND_IN)


def run_command(argv: list[str]) -> int | None:
    commands = list_commands()
    if argv and argv[0] in ("-V", "--version", "version"):
        print(f"labrig {__version__}, {LIBRARY}")
        return 0
    command = command_of(argv, commands)
    if command is None:
        commands += added_commands({command.words for command in commands})
        command = command_of(argv, commands)
    if command is not None:
        n_words = len(command.words.split())
        return command.run(argv[n_words:])
    if argv[0] in ("-h", "--help", "help"):
        print(first_screen(commands))
        return 0
    return show_group(argv, commands)


def command_of(argv: list[str], commands: list[Command]) -> Command | None:
    """The command that was typed; None when it is none of these."""
    by_words = {command.words: command for command in commands}
    return by_words.get(" ".join(argv[:2])) or by_words.get(" ".join(argv[:1]))


def show_group(argv: list[str], commands: list[Command]) -> int:
    """Prints the commands of a group, such as `lab runs`.

    Returns: 0 for --help, 2 when the second word is missing.
    """
    group, *rest = argv
    members = [command for command in commands if command.group == group]
    if not members:
        if group in MEANT and any(command.words == MEANT[group] for command in commands):
            raise LabError(
                f"unknown command {group!r}; did you mean: lab {MEANT[group]}. All commands: lab --help"
            )
        names = {command.group for command in commands if command.words}
        raise LabError(
            f"unknown command {group!r}{nearest(group, names)}. All commands: lab --help"
        )
    asks_for_help = rest[:1] in (["-h"], ["--help"])
    if rest and not asks_for_help:
        names = [command.member for command in members]
        raise LabError(
            f"unknown command 'lab {group} {rest[0]}'{nearest(rest[0], names)}. "
            f"Commands: {', '.join(names)}"
        )
    print(f"lab {group}: one of")
    for command in members:
        print(f"  lab {command.words:<16} {command.summary}")
    return 0 if asks_for_help else 2


def first_screen(commands: list[Command]) -> str:
    """Every command: the first ones with a line each, the others by name."""
    groups: dict[str, list[Command]] = {}
    for command in commands:
        if command.words:
            groups.setdefault(command.group, []).append(command)
    added = [name for name in groups if groups[name][0].origin]
    others = sorted(set(groups) - set(added) - set(FIRST))
    listed = ", ".join(name_with_members(groups[name]) for name in others)
    lines = [
        f"lab: everything in {name_of_project()}. Settings follow the command:",
        "  lab train trial=baseline optimizer.lr=3e-4",
        "",
    ]
    for name in [*FIRST, *added]:
        lines += summary_lines(name, groups[name])
    lines += [
        "",
        *textwrap.wrap(f"Others: {listed}.", WIDTH),
        "",
        "`lab` alone prints what happened since you last looked.",
        "`lab COMMAND --help` prints its options and an example; `lab docs` lists pages.",
    ]
    return "\n".join(lines)


def name_of_project() -> str:
    try:
        return f"the project {this_project().package!r}"
    except LabError:
        return "a project (none here)"


def summary_lines(name: str, members: list[Command]) -> list[str]:
    """The line of a command, or that of a group with the names in it."""
    title = f"lab {name}"
    summary = members[0].summary
    if members[0].member:
        title += " …"
        summary = ", ".join(command.member for command in members)
    indent = " " * 13
    return textwrap.wrap(f"{title:<12} {summary}", WIDTH, subsequent_indent=indent)


def name_with_members(members: list[Command]) -> str:
    """`eval`, or of a group: `site (show, init)`."""
    names = [command.member for command in members if command.member]
    if not names:
        return members[0].words
    return f"{members[0].group} ({', '.join(names)})"
