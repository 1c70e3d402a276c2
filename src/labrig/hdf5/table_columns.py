"""What the columns of a table hold: numbers or texts, and where they have gaps."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .file_errors import DataFileError
from .table_rows import Row

# How programs write that there is no value
GAPS = ("", "#N/A", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null")
MAX_TEXTS = 1000  # different texts of a column of x
MAX_CLASSES = 65536  # different texts of the label


@dataclass
class Column:
    """A column of which each value was looked at once.

    Texts become numbers: their place in the order of all different ones. A column is of texts when
    it has more of them than numbers; a text among numbers counts as a gap.
    """

    name: str
    max_texts: int
    mixes: bool = False  # texts among numbers are right, as in a group
    n_numbers: int = 0
    n_texts: int = 0
    n_empty: int = 0
    is_whole: bool = True
    first_empty: Row | None = None
    first_text: Row | None = None
    different: set[str] = field(default_factory=set)  # at most max_texts + 1
    code_of: dict[str, int] = field(default_factory=dict)  # of texts

    def look_at(self, row: Row) -> None:
        value = row.values[self.name]
        if is_gap(value):
            self.n_empty += 1
            self.first_empty = self.first_empty or row
            return
        if len(self.different) <= self.max_texts:
            self.different.add(str(value))
        number = as_number(value)
        if number is None:
            self.n_texts += 1
            self.first_text = self.first_text or row
        else:
            self.n_numbers += 1
            self.is_whole = self.is_whole and number.is_integer()

    def decide(self, code_for_gaps: bool) -> None:
        """Gives the different texts their numbers, once all rows were looked at.

        Args:
            code_for_gaps: a gap is a text too, the empty one.

        Raises:
            DataFileError: too many different texts.
        """
        if not self.has_texts:
            return
        if len(self.different) > self.max_texts:
            raise DataFileError(
                f"column {self.name!r} has more than {self.max_texts} different texts, so it does "
                "not name categories. Choose --columns without it."
            )
        if code_for_gaps and self.n_empty:
            self.different.add("")
        self.code_of = {text: code for code, text in enumerate(sorted(self.different))}

    @property
    def has_texts(self) -> bool:
        return self.n_texts > self.n_numbers

    @property
    def texts(self) -> list[str]:
        """The texts of the numbers 0, 1, 2 …; empty when the column holds numbers."""
        return list(self.code_of)

    @property
    def n_gaps(self) -> int:
        mistakes = 0 if self.has_texts or self.mixes else self.n_texts
        return self.n_empty + mistakes

    def number_in(self, row: Row) -> float | None:
        """The number of a row, or the number of its text; None for a gap."""
        value = row.values[self.name]
        if self.has_texts:
            return self.code_of.get("" if is_gap(value) else str(value))
        return None if is_gap(value) else as_number(value)

    def describe_gaps(self, n_rows: int) -> str:
        """Such as: age: 3 of 100 rows, first in row 8."""
        row = self.first_empty
        shown = ""
        if self.first_text and self.n_gaps > self.n_empty:
            row = self.first_text
            shown = f" ({row.values[self.name]!r} among numbers)"
        number = row.number if row else 0
        return f"{self.name}: {self.n_gaps} of {n_rows} rows, first in row {number}{shown}"


def is_gap(value: Any) -> bool:
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or str(value).strip() in GAPS


def as_number(value: Any) -> float | None:
    try:
        return float(value)
    except (ValueError, TypeError):
        return None


def look_at_columns(rows: Iterable[Row], columns: Mapping[str, Column]) -> int:
    """Looks at every value of the columns; returns the number of rows."""
    n_rows = 0
    for row in rows:
        n_rows += 1
        for column in columns.values():
            column.look_at(row)
    return n_rows
