"""The words of a script's command line: what the settings `args` and `argv` give, and no more.

What kind an option is, such as a switch or a list, says the script's own parser when it is about to read
the words: see `fit_words`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...config.overrides import in_quotes
from ...errors import LabError

PLAIN = re.compile(r"[\w./@:+-]+", re.ASCII)  # a value of key=value that Hydra reads without quotes


@dataclass(frozen=True)
class Option:
    """An option that `args` gives.

    Args:
        name: without dashes in front, as `lr` or `trainer.max_epochs`.
    """

    name: str
    value: Any

    @property
    def flag(self) -> str:
        return f"-{self.name}" if len(self.name) == 1 else f"--{self.name}"

    @property
    def words(self) -> list[str]:
        """How it is written where nothing is known of its kind: a list as several words."""
        if isinstance(self.value, list):
            return [self.flag, *map(str, self.value)]
        if len(self.name) == 1:
            return [self.flag, str(self.value)]
        return [f"{self.flag}={self.value}"]


def options_in(args: Mapping[str, Any], prefix: str = "") -> Iterator[Option]:
    """The options of the section `args`; a section inside it has dotted names. null is not passed."""
    for key, value in args.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from options_in(value, f"{name}.")
        elif value is not None:
            yield Option(name, value)


def words_of(args: Mapping[str, Any], argv: Sequence[Any], style: str) -> list[str]:
    """The words after the name of the script.

    Args:
        style: `--key=value`, or `key=value` for a script of Hydra.

    Raises:
        LabError: an option is in both settings.
    """
    typed = [str(word) for word in argv]
    if style == "key=value":
        return [*typed, *(f"{one.name}={for_hydra(one.value)}" for one in options_in(args))]
    options = list(options_in(args))
    for one in options:
        if any(word.partition("=")[0] == one.flag for word in typed):
            raise LabError(
                f"{one.flag} is given twice: by args.{one.name} and by argv. Type args.{one.name}=VALUE, "
                f"or take it out of the trial with args.{one.name}=null"
            )
    return [*typed, *(word for one in options for word in one.words)]


def for_hydra(value: Any) -> str:
    """A value in the grammar of Hydra."""
    if isinstance(value, list):
        return f"[{','.join(map(for_hydra, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and not PLAIN.fullmatch(value):
        return in_quotes(value)
    return str(value)


def fit_words(
    parser: argparse.ArgumentParser, words: list[str], options: Sequence[Option]
) -> list[str]:
    """`words` with each of `options` that the parser knows written as its kind wants.

    Ends the program with the parser's message where a switch cannot have the value.
    """
    for one in options:
        # argparse says nowhere else which option a word means
        action = parser._option_string_actions.get(one.flag)
        written = one.words
        places = [n for n in range(len(words)) if words[n : n + len(written)] == written]
        if action and places:
            fitting = words_for(parser, action, one)
            words = [*words[: places[0]], *fitting, *words[places[0] + len(written) :]]
    return words


def words_for(
    parser: argparse.ArgumentParser, action: argparse.Action, option: Option
) -> list[str]:
    """How an option is written for its action."""
    value = option.value
    if isinstance(action, argparse.BooleanOptionalAction) and isinstance(value, bool):
        names = action.option_strings
        return [option.flag] if value else [next(n for n in names if n.startswith("--no-"))]
    if action.nargs == 0 and isinstance(value, bool):  # by its presence
        if not value and action.default is not None and action.default == action.const:
            parser.error(f"args.{option.name}: false, but {option.flag} is on without being given")
        return [option.flag] if value else []
    if action.nargs == 0 and isinstance(value, int):  # -v -v
        return [option.flag] * value
    if isinstance(value, list) and action.nargs is None:  # --add a --add b
        return [word for item in value for word in Option(option.name, item).words]
    return option.words
