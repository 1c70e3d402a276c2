"""Text for the terminal: a note, a file name or an error can neither move the cursor nor forge a line."""

from __future__ import annotations

import codecs
import os
from typing import TextIO

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
