# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""The commands of `lab`: every folder of lab/ lists its own in its __init__.py.

The file of a command is imported when the command is called.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from .examples import EXAMPLES
from .project import LAB, Project


@dataclass(frozen=True)
class Command:
    """One command of `lab`."""

    words: str  # "train", "runs list"; "" is `lab` alone
    summary: str  # one line of help
    module: str
    function: str

    @property
    def group(self) -> str:
        """The first word: `runs` of `runs list`."""
        return self.words.partition(" ")[0]

    @property
    def member(self) -> str:
        """The second word: `list` of `runs list`; "" when there is none."""
        return self.words.partition(" ")[2]

    def run(self, args: list[str]) -> int | None:
        function = getattr(import_module(self.module, __package__), self.function)
        try:
            return function(Project.find(), args)
        except SystemExit as end:
            # argparse ends so after --help; after a mistake the code is 2
            if not end.code and self.words in EXAMPLES:
                print(f"\nexample: {EXAMPLES[self.words]}")
            raise


def list_commands() -> list[Command]:
    """All commands, in the order of the folders and of their lists."""
    commands = []
    for path in sorted(LAB.glob("*/__init__.py")):
        folder = f".{path.parent.name}"
        for words, summary, place in getattr(import_module(folder, __package__), "COMMANDS", ()):
            file, function = place.split(":")
            commands.append(Command(words, summary, f"{folder}.{file}", function))
    return commands
