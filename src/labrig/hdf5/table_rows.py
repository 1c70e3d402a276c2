"""The rows of tables: CSV, TSV, Parquet."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .file_errors import DataFileError
from .raw_samples import require_package
from .raw_sources import Source, hint

ROWS_AT_ONCE = 8192


@dataclass(frozen=True)
class Row:
    """One row of a table: `number` counts from 1 below the head line."""

    source: Source
    number: int
    values: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.source.path}: row {self.number}"


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
    require_package("pyarrow", "parquet", "reading Parquet")
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        for batch in file.iter_batches(ROWS_AT_ONCE):
            yield from batch.to_pylist()


def _csv_rows(path: Path) -> Iterator[dict[str, Any]]:
    delimiter = "\t" if path.suffix == ".tsv" else ","
    with path.open(newline="", encoding="utf-8-sig") as file:
        yield from csv.DictReader(file, delimiter=delimiter)
