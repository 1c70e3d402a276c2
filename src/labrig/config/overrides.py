"""Reads what was typed after a command: its options, and settings in Hydra's grammar."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString
from hydra.errors import HydraException

from ..command_parser import CommandParser
from ..errors import SYNONYMS, LabError, nearest
from ..project import CONF, read_yaml, say_once, this_project
from .renamed import with_new_setting


def advice_for_word(word: str) -> str:
    """The end of a message about a word that is no setting."""
    key, _, value = word.partition("=")
    if value.startswith("[") or key == "job.extra":
        items = [
            item.strip(" '\"") for item in value.removeprefix("[").removesuffix("]").split(",")
        ]
        return (
            "Texts in a list need quotes inside, and the whole quotes for the shell:\n"
            + shlex.quote(f"{key}=[{','.join(json.dumps(item) for item in items)}]")
        )
    if word.isidentifier() and (this_project().source / "trials" / word).is_dir():
        return f"Did you mean: trial={word}"
    if value.startswith("{") and value.endswith("}"):
        return (
            "Texts in braces with blanks or brackets need quotes inside, and the whole quotes for the "
            f"shell, such as '{key}={{name: \"f(x)\"}}'"
        )
    if value and not value.startswith("{") and re.fullmatch(r"[\w./@+~]+", key):
        quoted = shlex.quote(f"{key}={json.dumps(value, ensure_ascii=False)}")
        return f"A value with blanks, quotes or brackets needs quotes of its own: {quoted}"
    return "Write key=value, for example trial=baseline or optimizer.lr=3e-4."


def advice_for_option(words: list[str], options: list[str]) -> str:
    """The end of a message about an option that does not exist.

    Args:
        words: the option, as `--lr` or `--lr=0.1`, and the word after it, if there is one.
        options: those that exist.
    """
    option, _, value = words[0].partition("=")
    if not value and len(words) > 1 and "=" not in words[1]:
        value = words[1]
    keys = list(settings_named(option.lstrip("-").replace("-", "_")))
    if keys:
        return f". Settings are written without dashes: {keys[0]}={value or 'VALUE'}"
    return f"{nearest(option, options)}. Settings are written key=value: optimizer.lr=3e-4"


def settings_named(name: str) -> Iterator[str]:
    """The settings of conf/ and labrig/conf/, as `optimizer.lr`, of which `name` is the last word.

    A group, such as `site`, and the trial come first.
    """
    name = name.rpartition(".")[2]
    name = SYNONYMS.get(name, name)
    directories = (CONF, this_project().source / "conf")
    if name == "trial" or (name and any((conf / name).is_dir() for conf in directories)):
        yield name
    for conf in directories:
        for path in sorted(conf.rglob("*.yaml")):
            group = path.relative_to(conf).parent.as_posix().replace("/", ".")
            section = "" if group == "." or is_global(path) else f"{group}."
            yield from keys_named(name, read_yaml(path), section)


def is_global(path: Path) -> bool:
    """Whether the keys of a file are whole ones, by its header, and not those of its group."""
    return path.read_text(encoding="utf-8").startswith("# @package _global_")


def keys_named(name: str, values: dict, section: str) -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from keys_named(name, value, f"{section}{key}.")
        elif key == name:
            yield f"{section}{key}"


SOURCE = "command line"


def parse_overrides(arguments: list[str], one_run: bool = True) -> list[Override]:
    """The settings that were typed, in order; says which of Hydra's own have no effect."""
    parser = OverridesParser.create()
    overrides = []
    for argument in arguments:
        argument = with_new_setting(argument, SOURCE)
        try:
            override = parser.parse_override(argument)
        except HydraException as error:
            advice = advice_for_word(argument)
            if "=" in arguments:
                advice = "Write key=value without spaces, for example trial=baseline."
            raise LabError(f"{argument!r} is not a setting. {advice}") from error
        if override.is_sweep_override() and one_run:
            raise LabError(
                f"{argument!r} asks for several runs, but this command makes one. "
                f"For several here, one after the other: lab train ... {argument} -m\n"
                f"As one job array: lab submit ... {argument}\n"
                "For one value that is a list: key=[a,b]"
            )
        overrides.append(override)
    check_hydra_settings(overrides)
    return overrides


def typed_value(overrides: list[Override], key: str) -> str | None:
    """The value that was typed last for `key`, or None."""
    values = [str(override.value()) for override in overrides if override.key_or_group == key]
    return values[-1] if values else None


def in_quotes(text: str) -> str:
    """A text in quotes of Hydra's grammar."""
    return QuotedString(text, Quote.single).with_quotes()


def sweep_points(arguments: list[str]) -> list[list[str]]:
    """The overrides of every point: comma lists and range(...) taken apart, in the order typed."""
    choices = []
    overrides = parse_overrides(arguments, one_run=False)
    for argument, override in zip(arguments, overrides, strict=True):
        if not override.is_sweep_override():
            choices.append([argument])
        elif override.is_discrete_sweep():
            key = override.get_key_element()
            choices.append([f"{key}={value}" for value in override.sweep_string_iterator()])
        else:
            raise LabError(
                f"{argument!r} has no list of values. Write key=a,b,c or key=range(0,5). "
                "To search in an interval: lab sweep"
            )
    return [list(point) for point in product(*choices)]


# options of a program with @hydra.main, and what does the same here
HYDRA_OPTIONS = {
    ("--cfg", "-c"): "lab config {settings}",
    ("--info", "-i"): "lab config {settings} --defaults",
    ("--config-name", "-cn"): "trial=NAME; the primary config is always conf/config.yaml",
    ("--config-dir", "-cd", "--config-path", "-cp"): "hydra.searchpath=[DIRECTORY]",
    ("--shell-completion", "-sc"): "lab completion bash",
    ("--multirun", "-m"): "lab train {settings} -m; as one job array: lab submit {settings}",
}


class SettingsParser(CommandParser):
    """A CommandParser that collects the settings in `overrides`, before or after the options.

    With `run_help` the first word is `run`, the name of a run, of which this is the help.
    """

    def __init__(self, prog: str, description: str, run_help: str | None = None) -> None:
        super().__init__(prog=prog, description=description)
        self.takes_run = run_help is not None
        self.takes_words = False  # after --, for the script of the trial
        if self.takes_run:
            self.add_argument("run", metavar="RUN", help=run_help)
        self.add_argument(
            "overrides",
            nargs="*",
            metavar="key=value",
            help="settings, such as trial=baseline optimizer.lr=3e-4",
        )

    def read(self, args: list[str]) -> argparse.Namespace:
        """Parses `args`."""
        if self.takes_words and "--" in args:
            place = args.index("--")
            args, typed = args[:place], args[place + 1 :]
            args = [*args, f"argv=[{','.join(in_quotes(word) for word in typed)}]"]
        words = [word for word in args if not word.startswith("-")]
        if self.takes_run and (not args or (words and "=" in words[0])):
            raise LabError(
                f"name the run first: {self.prog} RUN [key=value ...]. "
                "Runs: lab runs list; the last one is @last"
            )
        own_options = [name for action in self._actions for name in action.option_strings]
        settings = " ".join(word for word in args if "=" in word and not word.startswith("-"))
        for names, answer in HYDRA_OPTIONS.items():
            for word in args:
                option = word.partition("=")[0]
                if option in names and option not in own_options:
                    command = answer.format(settings=settings or "trial=NAME")
                    raise LabError(
                        f"{option} is an option of Hydra's own programs. Here: {command}"
                    )
        for n, word in enumerate(args):
            option = word.partition("=")[0]
            if option.startswith("--") and option not in own_options:
                advice = advice_for_option(args[n : n + 2], own_options)
                raise LabError(f"there is no option {option}{advice}")
        return self.parse_intermixed_args(args)


COUNTS = "hydra.searchpath"  # the only one that has an effect here
OWN_PLUGINS = ("basic", "null")  # Hydra's own, which run on this machine
# what does here what a plug-in of Hydra does there
INSTEAD = {
    "hydra/launcher": "Jobs are sent by another command, lists as one job array: lab submit {settings}",
    "hydra/sweeper": "Searches have a command of their own: lab sweep {settings}",
}


def check_hydra_settings(overrides: list[Override]) -> None:
    """Names the typed settings of Hydra that have no effect here."""
    words = {str(override.input_line): override.key_or_group for override in overrides}
    of_hydra = [word for word, key in words.items() if key.startswith(("hydra.", "hydra/"))]
    others = [word for word in words if word not in of_hydra]
    for word in of_hydra:
        group = plugin_group(words[word])
        if group and word not in [f"{group}={name}" for name in OWN_PLUGINS]:
            advice = INSTEAD[group].format(settings=" ".join(others) or "trial=NAME")
            raise LabError(f"{word!r} is for programs with @hydra.main. {advice}")
    name_without_effect(word for word in of_hydra if words[word] != COUNTS)


def plugin_group(key: str) -> str | None:
    """The group of a key that chooses a launcher or sweeper of Hydra, or sets one up."""
    for group in INSTEAD:
        if key.replace(".", "/").startswith(group):
            return group
    return None


def name_without_effect(settings: Iterable[str], place: str = "") -> None:
    """A line about settings of Hydra that change nothing here.

    Args:
        place: of a file, as " in conf/config.yaml".
    """
    listed = ", ".join(settings)
    if listed:
        say_once(
            f"no effect here: {listed}{place}. A run has its directory, runs/TRIAL/ID, and the current "
            f"directory stays. Of Hydra's settings only {COUNTS} counts"
        )
