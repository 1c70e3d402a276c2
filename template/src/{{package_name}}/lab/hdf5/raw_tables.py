# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Reads tables (CSV, TSV, Parquet): some columns become x, one becomes the label y."""

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .file_errors import DataFileError
from .raw_folders import class_attrs
from .raw_samples import DamagedSamples, RawSamples, require_package

MAX_CLASSES = 65536
ROWS_AT_ONCE = 8192
HOLES = ("", "None", "nan", "NaN")

Row = Mapping[str, Any]


def read_table(
    path: Path,
    *,
    label: str | None,
    group: str | None,
    columns: Sequence[str],
    damaged: DamagedSamples,
) -> RawSamples:
    """Samples {"x": float32 (number of columns,), "y": the label, "group": the group}.

    Args:
        label: column that becomes y. Whole numbers become int64, other numbers float32, names the
            number of the class in the order of their names.
        group: column that keeps rows in one split.
        columns: of x; empty: all but label and group.

    Raises:
        DataFileError: no rows, or no such column.
    """
    first_row = next(_rows(path), None)
    if first_row is None:
        raise DataFileError(f"{path} has no rows.")
    names = [name for name in (label, group, *columns) if name is not None]
    unknown = [name for name in names if name not in first_row]
    if unknown:
        listed = ", ".join(map(str, first_row))
        raise DataFileError(f"{path} has no column {unknown}. It has: {listed}")
    x_columns = list(columns) or [name for name in first_row if name not in (label, group)]
    label_column = _read_label_column(path, label) if label else None

    def read_sample(number: int, row: Row) -> dict[str, Any]:
        x = np.array([_parse_number(row, name) for name in x_columns], np.float32)
        sample = {"key": str(number), "x": x}
        if label_column:
            sample["y"] = label_column.value(row)
        if group:
            sample["group"] = row[group]
        return sample

    def samples() -> Iterator[dict[str, Any]]:
        for number, row in enumerate(_rows(path)):
            sample = None
            with damaged.handle(f"{path}: row {number + 1}, ", str(number)):
                sample = read_sample(number, row)
            if sample is not None:
                yield sample

    x_attrs = {"columns": json.dumps(x_columns, ensure_ascii=False)}
    classes = list(label_column.class_numbers) if label_column else []
    return RawSamples(samples(), {"x": x_attrs} | class_attrs(classes))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    read = _parquet_rows if path.suffix in (".parquet", ".pq") else _csv_rows
    try:
        yield from read(path)
    except (OSError, ValueError, csv.Error) as error:  # ValueError: damaged Parquet, or no UTF-8
        raise DataFileError(
            f"{path} cannot be read as a table with a head line: {error}"
        ) from error


def _parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    require_package("pyarrow", "pyarrow", "reading Parquet")
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        for batch in file.iter_batches(ROWS_AT_ONCE):
            yield from batch.to_pylist()


def _csv_rows(path: Path) -> Iterator[dict[str, Any]]:
    delimiter = "\t" if path.suffix == ".tsv" else ","
    with path.open(newline="", encoding="utf-8-sig") as file:
        yield from csv.DictReader(file, delimiter=delimiter)


def _parse_number(row: Row, name: str) -> float:
    try:
        value = float(row[name])
    except (ValueError, TypeError, KeyError):
        value = math.nan
    if math.isnan(value):
        raise DataFileError(
            f"column {name!r}: {row.get(name)!r} is not a number; "
            "correct it, or choose other --columns"
        )
    return value


@dataclass(frozen=True)
class LabelColumn:
    """The column that becomes y, of `dtype`. `class_numbers` is empty when it holds numbers."""

    name: str
    class_numbers: dict[str, int]
    dtype: type[np.number]

    def value(self, row: Row) -> np.number:
        text = row[self.name]
        if text in self.class_numbers:
            return self.dtype(self.class_numbers[text])
        return self.dtype(_parse_number(row, self.name))


def _read_label_column(path: Path, name: str) -> LabelColumn:
    """Reads the column once to see whether it holds whole numbers, numbers or names. Holes are
    reported later, with their rows.
    """

    def filled_rows() -> Iterator[Row]:
        return (row for row in _rows(path) if str(row[name]) not in HOLES)

    try:
        dtype = np.int64
        for row in filled_rows():
            if not _parse_number(row, name).is_integer():
                dtype = np.float32
        return LabelColumn(name, {}, dtype)
    except DataFileError:  # not a number
        classes = sorted({row[name] for row in filled_rows()}, key=str)
    if len(classes) > MAX_CLASSES:
        raise DataFileError(
            f"{path}: column {name!r} has {len(classes)} different texts; a label may have at most "
            f"{MAX_CLASSES}. Choose another, or leave it out."
        )
    return LabelColumn(name, {text: number for number, text in enumerate(classes)}, np.int64)
