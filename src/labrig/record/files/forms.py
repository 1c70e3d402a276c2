"""Forms: what JSON that others may have written must be, before anything of it is used.

A form is a type: str, int, float, bool, None, Any, list[X], dict[K, X], X | Y, Literal, a TypedDict
or a dataclass; Annotated adds rules. A key that a form does not name may hold anything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

MAX_TEXT = 1_000_000  # characters
MAX_INTEGER = 2**63
MAX_DEPTH = 64  # of lists and objects in each other
KINDS = {
    dict: "an object",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "an integer",
    float: "a number",
    NoneType: "null",
}

# What is wrong with a value, with the place of it in front, such as ".commit is a list, expected
# text"; None when nothing is.
Check = Callable[[Any], str | None]


@dataclass(frozen=True)
class Pattern:
    """A rule: a value is a text of this form as a whole, or null. `words` say what it is."""

    regex: str
    words: str

    def problem(self, value: Any) -> str | None:
        if value is None or (isinstance(value, str) and _compiled(self.regex).fullmatch(value)):
            return None
        found = repr(value[:40]) if isinstance(value, str) else KINDS.get(type(value), "unknown")
        return f" is {found}, expected {self.words}"


@dataclass(frozen=True)
class Between:
    """A rule: a number lies between these two."""

    low: float
    high: float

    def problem(self, value: Any) -> str | None:
        if not isinstance(value, int | float) or self.low <= value <= self.high:
            return None
        return f" is {value:g}, expected a number from {self.low:g} to {self.high:g}"


class Has:
    """A rule: an object has these keys."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys

    def problem(self, value: Any) -> str | None:
        missing = [key for key in self.keys if key not in value]
        return f" has no {missing[0]!r}" if missing else None


class Formed:
    """A rule: a value has a form, which the checker of types need not know."""

    def __init__(self, form: Any) -> None:
        self.form = form

    def problem(self, value: Any) -> str | None:
        return check_of(self.form)(value)


# A path leads to a place inside of the directory that it is relative to.
INSIDE = r"(?!/)(?!(?:[^/]*/)*\.\.?(?:/|\Z))[^\0]+"
RELATIVE_PATH = Pattern(INSIDE, "a relative path without '..'")
FILE_NAME = Pattern(r"(?!\.\.?\Z)[^/\0]+", "the name of a file")
RUN_ID = Pattern(r"\d{8}-\d{6}-[0-9a-f]{6}", "a run id")
SHA256 = Pattern("[0-9a-f]{64}", "a sha256, 64 digits")
GIT_HASH = Pattern(r"[0-9a-f]{40}|[0-9a-f]{64}", "a hash of git")

RelativePath = Annotated[str, RELATIVE_PATH]
FileName = Annotated[str, FILE_NAME]
UnixTime = Annotated[float, Between(0, 253_402_300_799)]  # up to the year 9999, in seconds
Metric = float | Literal["nan", "inf", "-inf"]  # JSON has no such numbers


def problem_in(value: Any, form: Any) -> str | None:
    """What of a value has not the form, such as "code.commit is a list, expected text"; else None."""
    try:
        problem = check_of(form)(value)
    except RecursionError:
        return "is nested too deep"
    return problem.strip(" .") if problem else None


@cache
def check_of(form: Any) -> Check:
    """The check of a form.

    Raises:
        TypeError: a part of it is no form.
    """
    origin = get_origin(form)
    if origin in (NotRequired, Required):
        return check_of(get_args(form)[0])
    if origin is Annotated:
        return _check_with_rules(form)
    if origin is Literal:
        return _check_of_literal(get_args(form))
    if origin in (Union, UnionType):
        return _check_of_union(get_args(form))
    if origin is list:
        return _check_of_list(*get_args(form))
    if origin is dict:
        return _check_of_dict(*get_args(form))
    if is_typeddict(form):
        return _check_of_keys(form, _keys_of_typed_dict)
    if is_dataclass(form):
        return _check_of_keys(form, _keys_of_dataclass)
    if form in (Any, object):
        return _check_depth
    if form in KINDS:
        return _check_of_kind(form)
    raise TypeError(f"{form} is no form")


def _check_of_kind(kind: type) -> Check:
    """The check of one type of JSON."""
    holds = {str: _is_text, int: _is_integer, float: _is_number}.get(kind)
    words = KINDS[kind]

    def check(value: Any) -> str | None:
        if holds(value) if holds else isinstance(value, kind):
            return _check_depth(value) if kind in (dict, list) else None
        return _expected(value, words)

    return check


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT


def _is_integer(value: Any) -> bool:
    return type(value) is int and -MAX_INTEGER <= value < MAX_INTEGER


def _is_number(value: Any) -> bool:
    return _is_integer(value) or (isinstance(value, float) and math.isfinite(value))


def _expected(value: Any, words: str) -> str:
    found = KINDS.get(type(value), "unknown")
    if words.startswith(found):
        found = f"{found} that is too long or too large"
    return f" is {found}, expected {words}"


def _check_with_rules(form: Any) -> Check:
    """The check of an Annotated form: of the type, then of each rule."""
    inner, *rules = get_args(form)
    of_type = check_of(inner)

    def check(value: Any) -> str | None:
        problem = of_type(value)
        for rule in rules:
            problem = problem or rule.problem(value)
        return problem

    return check


def _check_of_literal(values: tuple[Any, ...]) -> Check:
    words = f"one of {', '.join(map(str, values))}"

    def check(value: Any) -> str | None:
        if isinstance(value, str) and value in values:
            return None
        shown = repr(value[:40]) if isinstance(value, str) else KINDS.get(type(value))
        return f" is {shown}, expected {words}"

    return check


def _check_of_union(forms: tuple[Any, ...]) -> Check:
    """Any of several forms; the problem is that of the one whose type the value has."""
    checks = [check_of(form) for form in forms]

    def check(value: Any) -> str | None:
        problems = []
        for one in checks:
            problem = one(value)
            if problem is None:
                return None
            problems.append(problem)
        inner = [problem for problem in problems if not problem.startswith(" ")]
        expected = [problem.partition(", expected ")[2] for problem in problems]
        return inner[0] if inner else _expected(value, " or ".join(filter(None, expected)))

    return check


def _check_of_list(form: Any) -> Check:
    of_each = check_of(form)

    def check(value: Any) -> str | None:
        if not isinstance(value, list):
            return _expected(value, KINDS[list])
        for place, each in enumerate(value):
            problem = of_each(each)
            if problem:
                return f"[{place}]{problem}"
        return None

    return check


def _check_of_dict(form_of_key: Any, form: Any) -> Check:
    of_key = check_of(form_of_key)
    of_each = check_of(form)

    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return _expected(value, KINDS[dict])
        for key, each in value.items():
            problem = of_key(key)
            if problem:
                return f": a key{problem}"
            problem = of_each(each)
            if problem:
                return f".{key[:40]}{problem}"
        return None

    return check


Keys = tuple[dict[str, Check], list[str]]  # the check of each key, and the keys that must be there


def _check_of_keys(form: Any, keys_of: Callable[[Any], Keys]) -> Check:
    """The check of an object whose keys have forms, which may hold objects of the same form."""

    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return _expected(value, KINDS[dict])
        checks, required = keys_of(form)
        for key in required:
            if key not in value:
                return f" has no {key!r}"
        for key, each in value.items():
            of_key = checks.get(key, _check_depth)
            problem = of_key(each)
            if problem:
                return f".{key[:40]}{problem}"
        return None

    return check


@cache
def _keys_of_typed_dict(form: Any) -> Keys:
    hints = get_type_hints(form, include_extras=True)
    # __required_keys__ does not know NotRequired in annotations that are text.
    is_total = {key: form.__total__ for key in hints}
    for base in getattr(form, "__orig_bases__", ()):
        if is_typeddict(base):
            is_total |= {key: base.__total__ for key in get_type_hints(base)}
    required = [
        key
        for key, hint in hints.items()
        if get_origin(hint) is Required or (is_total[key] and get_origin(hint) is not NotRequired)
    ]
    return {key: check_of(hint) for key, hint in hints.items()}, required


@cache
def _keys_of_dataclass(form: Any) -> Keys:
    hints = get_type_hints(form, include_extras=True)
    required = [
        field.name
        for field in fields(form)
        if field.default is MISSING and field.default_factory is MISSING
    ]
    return {field.name: check_of(hints[field.name]) for field in fields(form)}, required


def _check_depth(value: Any) -> str | None:
    """Any value will do, but one that would overflow the stack of whoever walks through it."""
    if not isinstance(value, dict | list):
        return None
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for each in level
            for child in (each.values() if isinstance(each, dict) else each)
            if isinstance(child, dict | list)
        ]
        if not level:
            return None
    return " is nested too deep"


@cache
def _compiled(regex: str) -> re.Pattern[str]:
    return re.compile(regex, re.DOTALL)
