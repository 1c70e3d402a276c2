"""A table of text for the terminal: columns side by side, each as wide as it needs or as it is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class TextColumn:
    """A title, and below it a text for each line.

    Args:
        texts: may be made lazily; they are read once, when the width or the table asks for them.
        given_width: characters; a longer text shifts the rest of its line. None: as the longest.
        on_right: numbers stand on the right of their width, words on the left.
        colours: of the terminal, one for each text; none at all: as it is.
    """

    title: str
    texts: Iterable[str]
    given_width: int | None = None
    on_right: bool = False
    colours: Sequence[int] = ()

    @cached_property
    def cells(self) -> list[str]:
        return list(self.texts)

    @cached_property
    def width(self) -> int:
        """In characters."""
        if self.given_width is not None:
            return self.given_width
        return max(len(self.title), max(map(len, self.cells), default=0))

    def padded(self) -> list[str]:
        """The title and the cells, filled up with spaces."""
        width = self.width
        pad = str.rjust if self.on_right else str.ljust
        title, *cells = [pad(text, width) for text in (self.title, *self.cells)]
        if not self.colours:
            return [title, *cells]
        coloured = zip(self.colours, cells, strict=True)
        return [title, *(f"\033[{colour}m{cell}\033[0m" for colour, cell in coloured)]


def text_table(columns: Sequence[TextColumn], gap: str = "  ") -> list[str]:
    """The lines of a table: the titles, then a line for each text of the columns.

    Args:
        gap: between two columns.
    """
    padded = [column.padded() for column in columns]
    return [gap.join(cells).rstrip() for cells in zip(*padded, strict=True)]
