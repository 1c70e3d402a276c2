"""What one setting of the library is: a field of a dataclass that says it once.

```python
@settings_class
class CheckpointSettings:
    every_min: int = setting(30, "between checkpoints within an epoch", unit="minutes", least=0)
    mode: Literal["min", "max"] = setting("min")
```

The type of a field says which values are right: `int`, `Literal["min", "max"]`, `str | None`, `list[str]`,
or another such dataclass, which is a section. schema.py collects the sections of all folders;
`hooks/settings_files.py` makes conf/lab.yaml, the options of groups and docs/settings.md from them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import Field, dataclass, field, fields, is_dataclass
from datetime import date
from functools import cache, cached_property
from importlib import import_module
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from ..errors import LabError, nearest

LIBRARY = __name__.partition(".")[0]
TYPE_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "a section",
    date: "a date",
    NoneType: "null",
}
NUMBERS = (int, float)
Section = TypeVar("Section")


def setting(default: Any, help: str = "", *, unit: str = "", least: float | None = None) -> Any:
    """A field that is one setting.

    Args:
        help: what it means, in a few words. Choices that it does not name are added.
        unit: of its numbers, in the plural; the words before `help`: seconds, batches.
        least: the smallest number that is right.
    """
    said = {"help": help, "unit": unit, "least": least}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: deepcopy(default), metadata=said)
    return field(default=default, metadata=said)


def section(help: str = "", place: str = "") -> Any:
    """A field that is a section.

    Args:
        place: where its dataclass is, as folder.module:Class, for a folder above this one. "": it is the
            type of the field.
    """
    return field(default=None, metadata={"help": help, "place": place})


@dataclass_transform(field_specifiers=(setting, section))
def settings_class(kind: type[Section]) -> type[Section]:
    """A dataclass that is read, and seldom made: without comparison and repr, which take time to write."""
    return dataclass(eq=False, repr=False)(kind)


@dataclass(frozen=True)
class KnownSetting:
    """One setting, or a section of them.

    Args:
        name: dotted: checkpoint.every_min.
        type: of its values; of a section, its dataclass.
        default: None for a section.
    """

    name: str
    type: Any
    default: Any = None
    help: str = ""
    unit: str = ""
    least: float | None = None

    @property
    def is_section(self) -> bool:
        return is_dataclass(self.type)

    @cached_property
    def choices(self) -> list[str]:
        """The words that it takes, as one types them; none where any text or number is right."""
        return choices_in(self.type)

    @property
    def comment(self) -> str:
        """Its unit, its meaning, and its choices: what stands behind it in conf/lab.yaml."""
        words = [word for word in self.choices if word not in ("true", "false", "null")]
        unnamed = [word for word in words if word not in self.help]
        between = "" if self.help.startswith(";") else " "
        meaning = f"{self.unit}{between}{self.help}".strip()
        parts = [meaning, " | ".join(words) if unnamed else ""]
        return ": ".join(part for part in parts if part)

    @property
    def expected(self) -> str:
        """What a value must be, in words, for a message."""
        if self.is_section:
            names = [name_of(each) for each in fields(self.type)]
            return f"a section, {{{', '.join(f'{name}: …' for name in names)}}}"
        # Numbers last: what is said of them is long.
        kinds = sorted(kinds_in(self.type), key=NUMBERS.__contains__)
        return " or ".join(self._in_words(kind) for kind in kinds)

    def _in_words(self, kind: Any) -> str:
        if get_origin(kind) is Literal:
            return " or ".join(as_yaml(choice) for choice in get_args(kind))
        words = TYPE_NAMES[get_origin(kind) or kind]
        if get_origin(kind) is list:
            return f"{words} of {items_in_words(get_args(kind)[0])}"
        if kind not in NUMBERS:
            return words
        of_unit = f" of {self.unit}" if self.unit else ""
        limit = "" if self.least is None else f", at least {self.least:g}"
        return f"{words}{of_unit}{limit}"

    def check(self, value: Any, source: str = "") -> None:
        """Refuses a value that this setting does not take. What has ${...} in it is not known yet.

        Args:
            source: the file that holds the value, or "command line", for the message.
        """
        if "${" in str(value):
            return
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        is_too_small = is_number and self.least is not None and value < self.least
        if not is_too_small and fits(value, self.type):
            return
        begin = f"{source}: " if source else ""
        raise LabError(
            f"{begin}{self.name} must be {self.expected}, but it is {as_yaml(value)}"
            f"{nearest(str(value), self.choices)}"
        )


def as_yaml(value: Any) -> str:
    """A value as one types it: true, false and null in place of Python's words."""
    return json.dumps(value) if isinstance(value, bool | None) else str(value)


def items_in_words(kind: Any) -> str:
    """What the items of a list are: texts, numbers, sections."""
    if is_dataclass(kind):
        return "sections"
    return {int: "whole numbers", float: "numbers", Any: "values"}.get(kind, "texts")


def kinds_in(kind: Any) -> tuple[Any, ...]:
    """The types that a type is one of: int and None of `int | None`."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def choices_in(kind: Any) -> list[str]:
    """The words of a type, as one types them: min and max of Literal["min", "max"]."""
    words = []
    for each in kinds_in(kind):
        if get_origin(each) is Literal:
            words += [as_yaml(choice) for choice in get_args(each)]
        elif each is bool:
            words += ["true", "false"]
    return words


def fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a type. A whole number is a number too; true and false are none."""
    kinds = kinds_in(kind)
    if len(kinds) > 1:
        return any(fits(value, each) for each in kinds)
    if kind is Any:
        return True
    if is_dataclass(kind):
        return isinstance(value, dict)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return any(value == choice and type(value) is type(choice) for choice in inner)
    if origin is list:
        if not isinstance(value, list):
            return False
        # The sections in a list are checked one by one, where messages name them.
        return is_dataclass(inner[0]) or all(fits(item, inner[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(fits(item, inner[1]) for item in value.values())
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, int | float) if kind is float else isinstance(value, kind)


def name_of(each: Field[Any]) -> str:
    """The key of a field. A word of Python's has a _ behind it: global_ is `global`."""
    return each.name.rstrip("_")


@cache
def settings_of(kind: type, prefix: str = "") -> Mapping[str, KnownSetting]:
    """The settings and sections of a dataclass and of those inside it, in order, by dotted name.

    Args:
        prefix: what its names begin with, "" or with a dot at its end.
    """
    types = get_type_hints(kind)
    settings = {}
    for each in fields(kind):
        said = dict(each.metadata)
        place = said.pop("place", "")
        name = f"{prefix}{name_of(each)}"
        of_field = load(place) if place else types[each.name]
        default = each.default_factory() if callable(each.default_factory) else each.default
        settings[name] = KnownSetting(name, of_field, default, **said)
        if is_dataclass(of_field):
            settings |= settings_of(of_field, f"{name}.")
    return settings


def load(place: str) -> type:
    """The dataclass of folder.module:Class."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"{LIBRARY}.{module}"), name)


def defaults_of(kind: type) -> dict[str, Any]:
    """The defaults of a section, with those of the sections inside it, as conf/lab.yaml has them."""
    defaults = {}
    for each in fields(kind):
        setting = settings_of(kind)[name_of(each)]
        defaults[setting.name] = (
            defaults_of(setting.type) if setting.is_section else deepcopy(setting.default)
        )
    return defaults


def read_section(kind: type[Section], values: Mapping[str, Any], prefix: str) -> Section:
    """A section of a composed configuration as its dataclass, which has no sections inside it.

    A key that is missing, as in an old record, has its default.
    """
    read = {}
    for each in fields(kind):  # type: ignore[arg-type]
        name = name_of(each)
        if name in values:
            settings_of(kind, prefix)[f"{prefix}{name}"].check(values[name])
            read[each.name] = values[name]
    return kind(**read)
