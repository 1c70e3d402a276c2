"""The words of a script's command line: what the settings `args` and `argv` give, and no more.

What kind an option is, such as a switch or a list, says the script's own parser when it is about to read
the words: see `fit_words`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...config.overrides import in_quotes
from ...errors import LabError

PLAIN = re.compile(r"[\w./@:+-]+", re.ASCII)  # a value of key=value that Hydra reads without quotes


def options_in(args: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The options of the section `args`: name, as `lr` or `trainer.max_epochs`, and value; null is not passed."""
    for key, value in args.items():
        if isinstance(value, dict):
            yield from options_in(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", value


def words_of(args: Mapping[str, Any], argv: Sequence[Any], style: str) -> list[str]:
    """The words after the name of the script.

    Args:
        style: `--key=value`, or `key=value` for a script of Hydra.
    """
    words = [str(word) for word in argv]
    given = {word.partition("=")[0] for word in words}
    is_hydra = style == "key=value"
    for name, value in options_in(args):
        key = name if is_hydra else flag_of(name)
        if key in given:
            raise LabError(
                f"{key} is given twice: by args.{name} and by argv. Type args.{name}=VALUE, "
                f"or take it out of the trial with args.{name}=null"
            )
        words += [f"{name}={for_hydra(value)}"] if is_hydra else words_for(name, value)
    return words


def flag_of(name: str) -> str:
    return f"-{name}" if len(name) == 1 else f"--{name}"


def words_for(name: str, value: Any) -> list[str]:
    """How an option is written where nothing is known of its kind: a list as several words."""
    if isinstance(value, list):
        return [flag_of(name), *map(str, value)]
    return [f"-{name}", str(value)] if len(name) == 1 else [f"--{name}={value}"]


def for_hydra(value: Any) -> str:
    """A value in the grammar of Hydra."""
    if isinstance(value, list):
        return f"[{','.join(map(for_hydra, value))}]"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if PLAIN.fullmatch(text) else in_quotes(text)


def fit_words(
    parser: argparse.ArgumentParser, words: list[str], options: Mapping[str, Any]
) -> list[str]:
    """`words` with each of `options` that the parser knows written as its kind wants.

    Ends the program with the parser's message where a switch cannot have the value.
    """
    for name, value in options.items():
        # argparse says nowhere else which option a word means
        action = parser._option_string_actions.get(flag_of(name))
        written = words_for(name, value)
        places = [n for n in range(len(words)) if words[n : n + len(written)] == written]
        if action and places:
            fitting = fit_words_of(parser, action, name, value)
            words = [*words[: places[0]], *fitting, *words[places[0] + len(written) :]]
    return words


def fit_words_of(
    parser: argparse.ArgumentParser, action: argparse.Action, name: str, value: Any
) -> list[str]:
    """How an option is written for its action."""
    flag = flag_of(name)
    if isinstance(action, argparse.BooleanOptionalAction) and isinstance(value, bool):
        return (
            [flag] if value else [next(n for n in action.option_strings if n.startswith("--no-"))]
        )
    if action.nargs == 0 and isinstance(value, bool):  # by its presence
        if not value and action.default is not None and action.default == action.const:
            parser.error(f"args.{name}: false, but {flag} is on without being given")
        return [flag] if value else []
    if isinstance(value, list) and action.nargs is None:  # --add a --add b
        return [word for item in value for word in words_for(name, item)]
    return words_for(name, value)
