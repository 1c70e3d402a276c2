"""What the commands print: texts that can neither move the cursor nor forge a line, numbers, durations, counts."""

from __future__ import annotations

import codecs
import math
import os
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, TextIO

# In place of a letter that the terminal lacks
STAND_INS = {
    "…": "...",
    "×": "x",
    "±": "+-",
    "·": "-",
    "–": "-",
    "→": "->",
    "µ": "u",
    "°": "",
    "├": "|",
    "│": "|",
    "└": "`",
    "─": "-",
}
LONGEST_SHOWN = 30  # letters of a text that is one of many
STAND_IN = "lab-stand-in"  # name of that way to answer a letter, for codecs
# No letters in Python's eyes, and harmless: wide spaces, and what joins two signs into one.
HARMLESS = "\u00a0\u3000\u200d"
HOUR_S = 3600
KWH_J = 3.6e6
GB = 1e9
AGES_S = (("y", 365 * 86400), ("d", 86400), ("h", HOUR_S), ("min", 60))


def printable(text: object) -> str:
    """`text` on one line, with every control character and line end escaped: \\x1b, \\n.

    A byte that is no UTF-8, which Python keeps as a lone surrogate, becomes \\xff.
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(map(printable_character, shown))


def short(text: str) -> str:
    """The text, cut to a few words."""
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"


def printable_lines(text: object) -> str:
    """`text` with its lines, and everything else as `printable`; for text of several lines."""
    return "\n".join(map(printable, str(text).split("\n")))


def printable_character(character: str) -> str:
    if character.isprintable() or character in HARMLESS:
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")


def stand_in(error: UnicodeError) -> tuple[str, int]:
    """For codecs: what to print in place of the letters that cannot be printed, and where to continue."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(STAND_INS.get(letter, "?") for letter in letters), error.end


codecs.register_error(STAND_IN, stand_in)


def lacks_letters(stream: TextIO) -> bool:
    """Whether `stream` can show ASCII, or a part of Unicode, only.

    Python writes UTF-8 in the locale C as well. That is right for a file; a terminal of that locale
    shows signs that nobody can read.
    """
    if codecs.lookup(stream.encoding or "ascii").name != "utf-8":
        return True
    variables = (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    locale = next(filter(None, variables), "")
    return locale in ("C", "POSIX") and stream.isatty()


def shows_colours(stream: TextIO) -> bool:
    """Whether `stream` is a terminal that is to show colours; see https://no-color.org."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def format_duration(seconds: float) -> str:
    """A duration in a sentence: `0:05:09`, from a day on `1 day, 2:03:04`."""
    return str(timedelta(seconds=round(seconds)))


def format_clock(seconds: float) -> str:
    """A duration in a narrow column, whose hours go on after 24: `0:05:09`, `26:03:04`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def format_hms(time_s: float) -> str:
    """A time limit as schedulers write it: `02:00:00`. Part of a second is left out."""
    minutes, seconds = divmod(int(time_s), 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}"


def format_age(seconds: float) -> str:
    """How long ago something was, in whole units of the largest that fits: `3d`."""
    for unit, unit_s in AGES_S:
        if seconds >= unit_s:
            return f"{seconds // unit_s:.0f}{unit}"
    return "now"


def format_value(value: Any) -> str:
    """A metric with four digits; "-" when there is none."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "-" if value is None else printable(value)


def format_mean(numbers: list[float]) -> str:
    """Mean and sample deviation: `0.9512 ± 0.0031`. One number has no deviation."""
    import statistics  # slow, and lists do not need it

    mean = statistics.fmean(numbers)
    if len(numbers) == 1:
        return f"{mean:.4g}"
    return format_deviation(mean, statistics.stdev(numbers))


FINEST = 1e-6  # of a mean: metrics are of single precision, which has seven digits


def format_deviation(mean: float, deviation: float) -> str:
    """The deviation with two significant digits, the mean with as many decimals."""
    if deviation == 0:
        return f"{mean:.4g} ± 0"
    n_decimals = max(0, 1 - math.floor(math.log10(deviation)))
    if deviation < abs(mean) * FINEST:
        return f"{mean:.7g} ± {deviation:.0e}"
    shown = f"{mean:.{n_decimals}f}"
    if float(shown) == 0:
        shown = shown.removeprefix("-")
    return f"{shown} ± {deviation:.{n_decimals}f}"


def ellipsis(text: str, width: int) -> str:
    """`text`, cut to `width` characters with "…" at its end when it is longer."""
    return text if len(text) <= width else text[: width - 1] + "…"


def and_more(texts: Iterable[Any], most: int, between: str = ", ") -> str:
    """The first `most` of them, and how many more there are: `a, b and 3 more`."""
    every = [str(text) for text in texts]
    shown = between.join(every[:most])
    n_more = len(every) - most
    return f"{shown} and {n_more} more" if n_more > 0 else shown


def counted(n: int, noun: str) -> str:
    """`1 run`, `2 runs`; `1 process`, `2 processes`; `1 batch`, `2 batches`."""
    if n == 1:
        return f"1 {noun}"
    return f"{n} {noun}es" if noun.endswith(("s", "ch")) else f"{n} {noun}s"
