"""Two texts side by side, as lines of a given width; nothing is cut."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

N_CONTEXT = 2  # equal lines around a difference
GAP = " … "  # in place of the equal lines between
EQUAL, OTHER, LEFT, RIGHT = " ", "|", "<", ">"


def side_by_side(left: list[str], right: list[str], width: int) -> list[str]:
    """The places where two texts differ, with the lines around them.

    The mark in the middle: `|` the lines differ, `<` only on the left, `>` only on the right.

    Args:
        width: in characters, of both columns with their mark.
    """
    column = (width - 3) // 2
    lines = []
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    for n, group in enumerate(matcher.get_grouped_opcodes(N_CONTEXT)):
        if n > 0:
            lines.append(GAP.rstrip())
        for tag, a0, a1, b0, b1 in group:
            lines += pair_lines(tag, left[a0:a1], right[b0:b1], column)
    return lines


def pair_lines(tag: str, left: list[str], right: list[str], column: int) -> Iterator[str]:
    """The rows for some lines of which all are equal, or none.

    Args:
        tag: of difflib: "equal", "replace", "delete" or "insert".
    """
    for n in range(max(len(left), len(right))):
        a = left[n] if n < len(left) else None
        b = right[n] if n < len(right) else None
        if tag == "equal":
            mark = EQUAL
        elif b is None:
            mark = LEFT
        elif a is None:
            mark = RIGHT
        else:
            mark = OTHER
        yield from wrap_pair(a or "", b or "", mark, column)


def wrap_pair(left: str, right: str, mark: str, column: int) -> Iterator[str]:
    """One row, or several where a text is longer than its column."""
    left_parts = wrap(left, column)
    right_parts = wrap(right, column)
    for n in range(max(len(left_parts), len(right_parts))):
        a = left_parts[n] if n < len(left_parts) else ""
        b = right_parts[n] if n < len(right_parts) else ""
        yield f"{a:<{column}} {mark} {b}".rstrip()


def wrap(text: str, column: int) -> list[str]:
    """A text in pieces of `column` characters, which keeps its spaces."""
    return [text[n : n + column] for n in range(0, len(text), column)] or [""]
