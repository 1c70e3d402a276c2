# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Parses what was typed after the command: options, and settings with Hydra's grammar."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import product
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException
from omegaconf import OmegaConf

from ..errors import LabError, nearest
from .check import (
    INSTANTIATE,
    absolute_target,
    check_type,
    dotted_keys,
    legal_arguments,
    unknown_setting,
)
from .layers import GROUPS

SOURCE = "command line"


@dataclass
class ParsedOverrides:
    """The command line, sorted: the trial, the chosen groups, and the single settings."""

    trial: str | None
    groups: dict[str, Any]
    settings: list[Override]


def parse_overrides(arguments: list[str], one_run: bool = True) -> ParsedOverrides:
    """Sorts overrides.

    Raises:
        LabError: not of the form key=value, a list of points where one run is made, or `experiment=`.
    """
    typed = ParsedOverrides(None, {}, [])
    for argument in arguments:
        try:
            override = OverridesParser.create().parse_override(argument)
        except HydraException as error:
            raise LabError(
                f"{argument!r} is not a setting; write key=value, for example trial=baseline or optimizer.lr=3e-4."
            ) from error
        if override.is_sweep_override() and one_run:
            raise LabError(
                f"{argument!r} is a list of points, and this command makes one run. "
                "Lists are for lab submit (one job array) and lab sweep (a search); a list as a value is written key=[a,b]."
            )
        key = override.key_or_group
        if key == "experiment":
            raise LabError(f"unknown setting 'experiment'; did you mean: trial={override.value()}")
        if key == "trial":
            typed.trial = str(override.value()).strip("/")
        elif (
            key in GROUPS
            and override.type is not OverrideType.DEL
            and not isinstance(override.value(), dict)
        ):
            typed.groups[key] = override.value()
        else:
            typed.settings.append(override)
    return typed


def sweep_points(arguments: list[str]) -> list[list[str]]:
    """The overrides of every point: comma lists and range(...) taken apart, in the order they were typed.

    Raises:
        LabError: as `parse`, or a sweep without a list of values.
    """
    parse_overrides(arguments, one_run=False)
    choices = []
    for text in arguments:
        override = OverridesParser.create().parse_override(text)
        if not override.is_sweep_override():
            choices.append([text])
        elif override.is_discrete_sweep():
            choices.append(
                [f"{override.key_or_group}={value}" for value in override.sweep_string_iterator()]
            )
        else:
            raise LabError(
                f"{text!r} has no list of values; that is for lab sweep. Here: key=a,b,c or key=range(0,5)"
            )
    return [list(point) for point in product(*choices)]


def checked_settings(settings: list[Override], values: dict[str, Any], trial: str) -> list[str]:
    """The single settings as Hydra takes them, after checking each key and type against the merged layers."""
    return [_legal(override, values, trial) for override in settings]


def _legal(override: Override, values: dict[str, Any], trial: str) -> str:
    key = override.key_or_group
    node: Any = values
    parts = key.split(".")
    for depth, name in enumerate(
        parts
    ):  # down to the node that holds the last part, or to the first part that is new
        if depth == len(parts) - 1 or not isinstance(node.get(name), dict):
            break
        node = node[name]
    if "_target_" in node and name not in INSTANTIATE:
        target = absolute_target(node["_target_"], trial)
        legal = legal_arguments(target, f"{SOURCE}: {'.'.join(parts[:-1])}")
        if legal is not None and name not in legal:
            raise LabError(
                f"{SOURCE}: {target} takes no argument {name!r}{nearest(name, legal)}. It takes: {', '.join(legal)}"
            )
        if legal is None and name not in node and override.type is OverrideType.CHANGE:
            raise LabError(
                f"{SOURCE}: unknown setting {key!r}{nearest(key, dotted_keys(values))}. If {target} takes it, write +{key}=..."
            )
    elif name not in node and (
        node or parts[0] in GROUPS
    ):  # an empty section, such as callbacks: {}, takes any key
        raise unknown_setting(key, dotted_keys(values), SOURCE)
    if name in node and depth < len(parts) - 1:  # a part of something that has no parts
        raise unknown_setting(key, dotted_keys(values), SOURCE)
    if override.type is OverrideType.DEL:
        return override.input_line
    value = _plain(override.value())
    if name in node:
        check_type(key, value, node[name], SOURCE)
        if isinstance(value, dict):
            raise LabError(
                f"{SOURCE}: {key} is a section; set its parts one by one, as {key}.NAME=value."
            )
    return "++" + override.input_line.lstrip("+")


def _plain(value: Any) -> Any:
    """A parsed value as plain Python: Hydra's quoted strings become str."""
    return OmegaConf.to_container(OmegaConf.create({"v": value}), resolve=False)["v"]


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


def run_and_settings(parser: SettingsParser, words: list[str]) -> tuple[str, list[str]]:
    """The run that was named first, and the settings after it."""
    if not words or "=" in words[0]:
        raise LabError(
            f"name the run first: {parser.prog} RUN [key=value ...]. Runs: lab runs list; the last one is @last"
        )
    return words[0], words[1:]
