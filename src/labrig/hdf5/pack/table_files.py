"""Opens tables (CSV, TSV, Parquet) through pyarrow, which is strict about the values of a row."""

import codecs
import gzip
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...errors import require_package
from ...machine.text_formats import counted, short
from ...machine.text_table import is_number_text
from ..file.errors import DataFileError
from .options import PackOptions
from .sources import Source, hint

PARQUET = (".parquet", ".pq")
SEPARATORS = {"tab": "\t", "\\t": "\t", "space": " "}
NAME_OF_SEPARATOR = {"\t": "tab", " ": "space"}
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class CutRow:
    """A line that is shorter or longer than the head line; `number` counts from 1 below that."""

    number: int
    n_values: int


class TableFile:
    """One table: its columns as pyarrow types them, or as the texts that are written there."""

    def __init__(self, source: Source, options: PackOptions) -> None:
        require_package("pyarrow", "reading tables", "pyarrow")
        self.source = source
        self.path = source.path
        self.options = options
        self.cut: list[CutRow] = []
        stem = self.path.name.lower().removesuffix(".gz")
        self.is_text = not stem.endswith(PARQUET)
        by_name = "\t" if stem.endswith((".tsv", ".tab")) else ","
        self.separator = SEPARATORS.get(options.separator or "", options.separator) or by_name
        try:
            self.names: list[str] = self.typed.column_names
        except UnicodeDecodeError as error:
            raise DataFileError(self.other_encoding("its head line")) from error
        for name in self.names:
            if self.names.count(name) > 1:
                raise DataFileError(f"{self.path} has the column {name!r} twice. Rename one.")
        numbers = [name for name in self.names if is_number_text(name.strip())]
        if numbers and self.is_text:
            said = f"{self.path}: the first line has the number {numbers[0]} as a name. "
            if len(numbers) == len(self.names):
                raise DataFileError(f"{said}Write a head line above it.")
            print(f"lab: {said}If it is a row, write a head line above it", file=sys.stderr)

    @cached_property
    def typed(self) -> Any:
        """All columns, as pyarrow.Table."""
        if not self.is_text:
            from pyarrow.parquet import read_table

            try:
                return read_table(str(self.path))
            except (OSError, ValueError) as error:
                raise self._unreadable(error) from error
        from pyarrow.csv import ConvertOptions

        convert = ConvertOptions(null_values=[*self.options.missing], strings_can_be_null=True)
        convert.decimal_point = self.options.decimal
        return self._read(convert)

    @cached_property
    def texts(self) -> Any:
        """All columns of a text file as they are written, as pyarrow.Table."""
        from pyarrow import string
        from pyarrow.csv import ConvertOptions

        return self._read(ConvertOptions(column_types=dict.fromkeys(self.names, string())))

    def column(self, name: str) -> Any:
        """One of `typed`; raises DataFileError when it has no number or text in each row."""
        from pyarrow.types import is_nested

        kind = self.typed[name].type
        is_bytes = "binary" in str(kind)
        if is_bytes and self.is_text:
            raise DataFileError(self.other_encoding(f"column {name!r}"))
        if is_bytes or is_nested(kind):
            raise DataFileError(
                f"column {name!r} holds {kind}, not one number or text for each row. Choose --columns without "
                "it, or write samples() in data.py."
            )
        return self.typed[name]

    @property
    def n_rows(self) -> int:
        """All rows, those that are cut as well."""
        return self.typed.num_rows + len(self.cut)

    def _read(self, convert: Any) -> Any:
        """The rows that are as long as the head line; the others are noted in `cut`."""
        from pyarrow.csv import ParseOptions, ReadOptions, read_csv

        first = self._first_line()
        encoding = self.options.encoding
        if first[:2] in UTF_16 and "16" not in encoding:
            raise DataFileError(f"{self.path} is UTF-16. Type: --encoding utf-16")
        rows: list[Any] = []
        parse = ParseOptions(delimiter=self.separator, newlines_in_values=True)
        parse.invalid_row_handler = lambda row: rows.append(row) or "skip"
        try:
            codecs.lookup(encoding)
            table = read_csv(self.path, ReadOptions(encoding=encoding), parse, convert)
            is_alone = len(table.column_names) == 1 and first.strip()
            if rows or is_alone:  # threads do not number them
                rows.clear()
                parse.ignore_empty_lines = not is_alone  # there they are rows without a value
                read = ReadOptions(encoding=encoding, use_threads=False)
                table = read_csv(self.path, read, parse, convert)
        except LookupError as error:
            raise DataFileError(
                f"--encoding {encoding} is unknown. Type such as latin-1"
            ) from error
        except (OSError, ValueError) as error:
            if "UTF8" in str(error) or isinstance(error, UnicodeError):
                raise DataFileError(self.other_encoding("a value")) from error
            raise self._unreadable(error) from error
        if rows or len(table.column_names) == 1:
            # a banner has blanks, and then the rows are longer than it
            self._refuse_other_separator(first, ";\t|," if rows else ";\t|, ")
        self.cut = [CutRow(row.number - 1, row.actual_columns) for row in rows]
        self._refuse_longer_rows(table)
        return table

    def _refuse_longer_rows(self, table: Any) -> None:
        n_names = len(table.column_names)
        longer = [row for row in self.cut if row.n_values > n_names]
        if not longer:
            return
        row, r_way = longer[0], ""
        if len(longer) == table.num_rows + len(self.cut) and row.n_values == n_names + 1:
            r_way = " R writes tables so: name the first column in the head line."
        raise DataFileError(
            f"{self.path}: row {row.number} has {row.n_values} values, the head line {n_names} "
            f"({short(', '.join(table.column_names))}). So are {counted(len(longer), 'row')}.{r_way} Correct it."
        )

    def _first_line(self) -> bytes:
        opened = gzip.open if self.path.suffix.lower() == ".gz" else open
        try:
            with opened(self.path, "rb") as file:
                return file.readline(1 << 20)
        except (OSError, EOFError) as error:
            raise self._unreadable(error) from error

    def _refuse_other_separator(self, first: bytes, letters: str) -> None:
        """Raises DataFileError when the head line is separated by something else."""
        line = first.decode("latin-1")
        counts = {letter: line.count(letter) for letter in letters if letter != self.separator}
        likely = max(counts, key=lambda letter: counts[letter])
        if self.separator not in line and counts[likely]:
            name = NAME_OF_SEPARATOR.get(likely, f"'{likely}'")
            raise DataFileError(
                f"{self.path} has no {NAME_OF_SEPARATOR.get(self.separator, self.separator)!r} in its head "
                f"line, but {counts[likely]} of another separator. Type: --separator {name}"
            )

    def other_encoding(self, what: str) -> str:
        return (
            f"{self.path}: {what} is not {self.options.encoding}. Type its encoding, such as "
            "--encoding latin-1 or --encoding cp1252"
        )

    def _unreadable(self, error: Exception) -> DataFileError:
        return DataFileError(
            f"{self.path} cannot be read as a table with a head line: {error}. "
            f"Correct it there.{hint(self.path, 'table')}"
        )


def rows_of_texts(source: Source, options: PackOptions) -> list[dict[str, str]]:
    """The rows of a table with each value as it is written."""
    file = TableFile(source, options)
    if file.cut:
        raise DataFileError(f"{file.path}: row {file.cut[0].number} is cut. Correct it.")
    table = file.texts if file.is_text else file.typed
    return [
        {name: "" if value is None else str(value) for name, value in row.items()}
        for row in table.to_pylist()
    ]
