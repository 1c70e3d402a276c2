# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The command line shared by everything that takes settings: `lab COMMAND [options] key=value ...`."""

from __future__ import annotations

import argparse

from ..errors import LabError


class SettingsParser(argparse.ArgumentParser):
    """An ArgumentParser whose positional arguments are the settings, in `overrides`, before or after the options."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False)
        self.add_argument(
            "overrides",
            nargs="*",
            metavar="key=value",
            help="settings, such as trial=baseline optimizer.lr=3e-4",
        )

    def read(self, args: list[str]) -> argparse.Namespace:
        """Parses `args`; Hydra's -m is answered with the commands that do what it does."""
        if "-m" in args or "--multirun" in args:
            raise LabError(
                "-m is Hydra's way to start many runs. Here lab submit (one job array) and lab sweep (a search) do that."
            )
        return self.parse_intermixed_args(args)
