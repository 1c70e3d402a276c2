"""The parser of what is typed behind a command."""

import argparse
from typing import Any, NoReturn

from .errors import LabError, nearest

UNKNOWN = "unrecognized arguments: "  # as argparse says it


class CommandParser(argparse.ArgumentParser):
    """An ArgumentParser that answers a mistake in a line, with the option that was meant.

    Options are typed whole: the beginning of one could be that of another one tomorrow.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        """Raises LabError."""
        if message.startswith(UNKNOWN):
            words = message.removeprefix(UNKNOWN)
            options = [name for action in self._actions for name in action.option_strings]
            options = [
                name for name in options if len(name) > 2
            ]  # one letter is near to each other
            message = f"there is no {words}{nearest(words.split()[0], options)}"
        raise LabError(f"{message}. See: {self.prog} --help")
