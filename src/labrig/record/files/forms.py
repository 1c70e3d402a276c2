"""What JSON that others may have written must be, before anything of it is used; msgspec checks it.

A form is a type: those of schema.py, a dataclass, or anything else that `msgspec.convert` takes.
A key that a form does not name may hold anything.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

MAX_SHOWN = 100  # characters of a text that is not what it should be
MAX_DEPTH = 64  # of lists and objects in each other
KINDS = {
    "object": "an object",
    "array": "a list",
    "str": "text",
    "bool": "true or false",
    "int": "an integer",
    "float": "a number",
    "null": "null",
}
WORDS: dict[str, str] = {}  # what a text is that a regular expression allows, by that as `repr`
PLACE = re.compile(r" - at (?P<key>`key` in )?`\$\.?(?P<place>.*)`\Z", re.DOTALL)


def matches(regex: str, words: str) -> Meta:
    """A rule for `Annotated[str, …]`: the text as a whole has this form. `words` say what it is."""
    whole = rf"\A(?s:{regex})\Z"
    WORDS[repr(whole)] = words
    return Meta(pattern=whole)


def between(low: float, high: float) -> Meta:
    """A rule for `Annotated[float, …]`."""
    return Meta(ge=low, le=high)


# A path leads to a place inside of the directory that it is relative to.
INSIDE = r"(?!/)(?!(?:[^/]*/)*\.\.?(?:/|\Z))[^\0]+"
ID_OF_RUN = r"\d{8}-\d{6}-[0-9a-f]{6}"

Int = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
RelativePath = Annotated[str, matches(INSIDE, "a relative path without '..'")]
AbsolutePath = Annotated[str, matches(r"/[^\0]*", "an absolute path")]
FileName = Annotated[str, matches(r"(?!\.\.?\Z)[^/\0]+", "the name of a file")]
RunId = Annotated[str, matches(ID_OF_RUN, "a run id")]
Sha256 = Annotated[str, matches("[0-9a-f]{64}", "a sha256, 64 digits")]
GitHash = Annotated[str, matches(r"[0-9a-f]{40}|[0-9a-f]{64}", "a hash of git")]
UnixTime = Annotated[float, between(0, 253_402_300_799)]  # up to the year 9999, in seconds
Seconds = Annotated[float, between(-3e10, 3e10)]  # up to 950 years
Metric = int | float | Literal["nan", "inf", "-inf"]  # JSON has no such numbers


def problem_in(value: Any, form: Any) -> str | None:
    """What of a value has not the form, such as "code.commit is a list, expected text"; else None."""
    return "it is nested too deep" if is_too_deep(value) else form_problem(value, form)


def form_problem(value: Any, form: Any) -> str | None:
    """As `problem_in` for a value that is not nested too deep."""
    try:
        msgspec.convert(value, form)
    except msgspec.ValidationError as error:
        problem = in_words(str(error))
        shown = repr(value[:MAX_SHOWN]) if isinstance(value, str) else "it"
        return (
            problem.replace("it is not", f"{shown} is not", 1) if problem[:3] == "it " else problem
        )
    except UnicodeError:
        return "a text in it holds half of a character"
    return None


def in_words(problem: str) -> str:
    """An error of msgspec as a part of our messages."""
    place = "it"
    if found := PLACE.search(problem):
        problem = problem[: found.start()]
        place = f"a key of {found['place']}" if found["key"] else found["place"]
    if missing := re.fullmatch(r"Object missing required field `(.*)`", problem):
        return f"{place} has no {missing[1]!r}"
    if kinds := re.fullmatch(r"Expected `(.*)`, got `(.*)`", problem):
        expected = " or ".join(KINDS.get(kind, kind) for kind in kinds[1].split(" | "))
        return f"{place} is {KINDS.get(kinds[2], kinds[2])}, expected {expected}"
    if text := re.fullmatch(r"Expected `str` matching regex (.*)", problem, re.DOTALL):
        return f"{place} is not {WORDS.get(text[1], text[1])}"
    if limit := re.fullmatch(r"Expected `\w+` (<=|>=) (.*)", problem):
        return f"{place} is not {limit[1]} {limit[2]}"
    if value := re.fullmatch(r"Invalid enum value (.*)", problem, re.DOTALL):
        return f"{place} is {value[1]}, which lab does not know"
    return f"{place}: {problem}"


def is_too_deep(value: Any) -> bool:
    """Whether a value would overflow the stack of whoever walks through it."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            child
            for each in level
            for child in (each.values() if isinstance(each, dict) else each)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True
