"""What was probably meant by a typed word that is neither a setting nor an option."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..errors import SYNONYMS, nearest
from ..project import CONF, read_yaml, this_project


def advice_for_word(word: str) -> str:
    """The end of a message about a word without `=`."""
    if word.isidentifier() and (this_project().source / "trials" / word).is_dir():
        return f"Did you mean: trial={word}"
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
    """The settings of conf/ and labrig/conf/, as `optimizer.lr`, of which `name` is the last word."""
    name = name.rpartition(".")[2]
    name = SYNONYMS.get(name, name)
    for conf in (CONF, this_project().source / "conf"):
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
