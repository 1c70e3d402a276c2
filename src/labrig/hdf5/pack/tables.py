"""Reads tables (CSV, TSV, Parquet): some columns become x, one becomes the label y."""

import csv
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from ...errors import require_package
from ...machine.counted import counted
from ..file.errors import DataFileError
from .folders import class_attrs
from .options import PackOptions
from .samples import DamagedSamples, RawSamples
from .sources import Source, hint

# The rows of tables: CSV, TSV, Parquet.

ROWS_AT_ONCE = 8192


class Missing:
    """A value that a line of CSV is too short to have; a gap as well."""

    def __str__(self) -> str:
        return ""


MISSING = Missing()


@dataclass(frozen=True)
class Row:
    """One row of a table: `number` counts from 1 below the head line."""

    source: Source
    number: int
    values: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.source.path}: row {self.number}"

    @property
    def is_cut(self) -> bool:
        """Whether the line is shorter than the head line."""
        return any(value is MISSING for value in self.values.values())


def table_rows(sources: Sequence[Source]) -> Iterator[Row]:
    """The rows of all sources, one after another.

    Raises:
        DataFileError: a file cannot be read, or differs in its head line.
    """
    head = None
    for source in sources:
        for number, values in enumerate(_values(source.path), start=1):
            row = Row(source, number, values)
            head = head or row
            if values.keys() != head.values.keys():
                raise DataFileError(
                    f"{row} has the columns {_listed(values)}; {head} has {_listed(head.values)}."
                )
            yield row


def _listed(values: Iterable[str | None]) -> str:
    return ", ".join("(more than in the head line)" if name is None else name for name in values)


def _values(path: Path) -> Iterator[dict[str, Any]]:
    read = _parquet_rows if path.suffix in (".parquet", ".pq") else _csv_rows
    try:
        yield from read(path)
    except DataFileError:
        raise
    except (OSError, ValueError, csv.Error) as error:  # ValueError: damaged Parquet, or no UTF-8
        raise DataFileError(
            f"{path} cannot be read as a table with a head line: {error}. "
            f"Correct it there.{hint(path, 'table')}"
        ) from error


def _parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    require_package("pyarrow", "reading Parquet", "pyarrow")
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        _refuse_equal_names(f"{path} has", file.schema_arrow.names)
        for batch in file.iter_batches(ROWS_AT_ONCE):
            yield from batch.to_pylist()


def _csv_rows(path: Path) -> Iterator[dict[str, Any]]:
    delimiter = "\t" if path.suffix == ".tsv" else ","
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file, delimiter=delimiter, restval=cast("Any", MISSING))
        _refuse_equal_names(f"{path} has", reader.fieldnames or [])
        yield from reader


def _refuse_equal_names(where: str, names: Sequence[str]) -> None:
    """Raises DataFileError for a column named twice, of which only one would be read."""
    for name in names:
        if names.count(name) > 1:
            raise DataFileError(f"{where} the column {name!r} twice. Name each column once.")


# What the columns of a table hold: numbers or texts, and where they have gaps.

# How programs write that there is no value
GAPS = ("", "#N/A", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null")
MAX_TEXTS = 1000  # different texts of a column of x
MAX_CLASSES = 65536  # different texts of the label
MAX_TOLD = 20  # columns with gaps


@dataclass
class TableColumn:
    """A column of which each value was looked at once.

    Texts become numbers: their place in the order of all different ones. A column is of texts when
    it has more of them than numbers; a text among numbers counts as a gap.
    """

    name: str
    max_texts: int
    mixes: bool = False  # texts among numbers are right, as in a group
    known: Sequence[str] = ()  # texts that have the numbers 0, 1, 2 … already
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
        texts = [*self.known, *sorted(self.different.difference(self.known))]
        self.code_of = {text: code for code, text in enumerate(texts)}

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


def look_at_columns(
    rows: Iterable[Row], columns: Mapping[str, TableColumn]
) -> tuple[int, list[Row]]:
    """Looks at every value of whole rows; returns the number of all rows, and those that are cut."""
    n_rows = 0
    cut = []
    for row in rows:
        n_rows += 1
        if row.is_cut:
            cut.append(row)
            continue
        for column in columns.values():
            column.look_at(row)
    return n_rows, cut


def read_table(options: PackOptions, damaged: DamagedSamples) -> RawSamples:
    """Samples {"x": float32 (number of columns,), "y": the label, "group": the group}.

    Texts become the numbers of their categories, in the order of their names; the attributes of the
    field hold the names. A label of whole numbers becomes int64, of other numbers float32.

    Raises:
        DataFileError: no rows, no such column, too many different texts, or gaps that the options
            do not say what to do about.
    """
    sources = options.sources
    first_row = next(table_rows(sources), None)
    if first_row is None:
        raise DataFileError(
            f"{sources[0].path} has no rows. Name a table with a head line and rows."
        )
    x_names = _x_names(first_row, options)
    known = options.known
    columns = {
        name: TableColumn(name, MAX_TEXTS, known=known.categories.get(name, ())) for name in x_names
    }
    if options.label:
        columns[options.label] = TableColumn(options.label, MAX_CLASSES, known=known.classes)
    if options.group:
        columns.setdefault(options.group, TableColumn(options.group, MAX_CLASSES, mixes=True))
    n_rows, cut = look_at_columns(table_rows(sources), columns)
    for name in (*x_names, options.label):
        if name:
            columns[name].decide(code_for_gaps=options.fill is not None and name in x_names)
    drops = options.drop_rows or options.skip_damaged
    if not drops:
        _check_cut(cut)
        _check_gaps(columns, n_rows, options, x_names)
    _tell_gaps(columns, n_rows, options, x_names)
    x_columns = [columns[name] for name in x_names]

    label = columns[options.label] if options.label else None

    def samples() -> Iterator[dict[str, Any]]:
        for row in table_rows(sources):
            sample = _sample(row, x_columns, label, options)
            if sample is None:
                damaged.skipped_keys.append(_key(row, options))
            else:
                yield sample

    categories = {column.name: column.texts for column in x_columns if column.has_texts}
    x_attrs = {"columns": json.dumps(x_names, ensure_ascii=False)}
    if categories:
        x_attrs["categories"] = json.dumps(categories, ensure_ascii=False)
    classes = columns[options.label].texts if options.label else []
    return RawSamples(samples(), {"x": x_attrs} | class_attrs(classes))


def _x_names(first_row: Row, options: PackOptions) -> list[str]:
    names = [name for name in (options.label, options.group, *options.columns) if name is not None]
    unknown = [name for name in names if name not in first_row.values]
    if unknown:
        listed = ", ".join(map(str, first_row.values))
        raise DataFileError(f"{first_row.source.path} has no column {unknown}. It has: {listed}")
    others = [name for name in first_row.values if name not in (options.label, options.group)]
    _refuse_equal_names("--columns has", options.columns)
    if options.label in options.columns:
        raise DataFileError(
            f"--columns has the label {options.label!r}: x would hold the answer. Leave it out there."
        )
    return options.columns or others


def _check_cut(cut: Sequence[Row]) -> None:
    """Raises DataFileError for lines that are shorter than the head line, which nothing fills."""
    if not cut:
        return
    row = cut[0]
    n_there = sum(value is not MISSING for value in row.values.values())
    raise DataFileError(
        f"{row} is cut: it has {n_there} of {len(row.values)} values. There is "
        f"{counted(len(cut), 'such row')}. Correct it, or leave it out with --drop-rows."
    )


def _tell_gaps(
    columns: dict[str, TableColumn], n_rows: int, options: PackOptions, x_names: list[str]
) -> None:
    """Prints what becomes of the gaps, mistakes among numbers first."""
    gaps = [column for column in columns.values() if column.n_gaps]
    gaps.sort(key=lambda column: column.n_gaps == column.n_empty)
    for column in gaps[:MAX_TOLD]:
        is_filled = options.fill is not None and column.name in x_names
        what = f"filled with {options.fill:g}" if is_filled else "left out"
        print(f"lab: {column.describe_gaps(n_rows)}: {what}", file=sys.stderr)
    if len(gaps) > MAX_TOLD:
        print(f"lab: gaps in {len(gaps) - MAX_TOLD} more columns", file=sys.stderr)


def _check_gaps(
    columns: dict[str, TableColumn], n_rows: int, options: PackOptions, x_names: list[str]
) -> None:
    filled = x_names if options.fill is not None else []
    gaps = [column for column in columns.values() if column.n_gaps and column.name not in filled]
    if not gaps:
        return
    lines = [f"{options.sources[0].path} has gaps in these columns:"]
    lines += [f"  {column.describe_gaps(n_rows)}" for column in gaps]
    lines.append("--drop-rows leaves these rows out.")
    if any(column.name in x_names for column in gaps):
        lines.append(
            "--fill NUMBER puts that there; a gap among texts becomes a category of its own."
        )
        lines.append("--columns NAME,NAME takes others. Or correct the table.")
    raise DataFileError("\n".join(lines))


def _sample(
    row: Row, x_columns: Sequence[TableColumn], label: TableColumn | None, options: PackOptions
) -> dict[str, Any] | None:
    """The sample of a row; None when it is cut, or has a gap that nothing fills."""
    if row.is_cut:
        return None
    numbers = [column.number_in(row) for column in x_columns]
    if options.fill is not None:
        numbers = [options.fill if number is None else number for number in numbers]
    if None in numbers:
        return None
    sample = {"key": _key(row, options), "x": np.array(numbers, np.float32)}
    if label:
        number = label.number_in(row)
        if number is None:
            return None
        whole = label.has_texts or label.is_whole
        sample["y"] = np.int64(number) if whole else np.float32(number)
    if options.group:
        if is_gap(row.values[options.group]):
            return None
        sample["group"] = row.values[options.group]
    if row.source.split:
        sample["split"] = row.source.split
    return sample


def _key(row: Row, options: PackOptions) -> str:
    """The number of the row, counted from 0; with several tables the name of its own in front."""
    number = str(row.number - 1)
    return number if len(options.sources) == 1 else f"{row.source.path.name}:{number}"
