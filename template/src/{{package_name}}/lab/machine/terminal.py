# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""Text for the terminal: a note, a file name or an error can neither move the cursor nor forge a line."""

from __future__ import annotations

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
