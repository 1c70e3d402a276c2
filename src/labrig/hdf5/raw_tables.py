"""Reads tables (CSV, TSV, Parquet): some columns become x, one becomes the label y."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .file_errors import DataFileError
from .pack_options import PackOptions
from .raw_folders import class_attrs
from .raw_samples import DamagedSamples, RawSamples
from .table_columns import MAX_CLASSES, MAX_TEXTS, Column, is_gap, look_at_columns
from .table_rows import Row, table_rows


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
    columns = {name: Column(name, MAX_TEXTS) for name in x_names}
    if options.label:
        columns[options.label] = Column(options.label, MAX_CLASSES)
    if options.group:
        columns.setdefault(options.group, Column(options.group, MAX_CLASSES, mixes=True))
    n_rows = look_at_columns(table_rows(sources), columns)
    for name in (*x_names, options.label):
        if name:
            columns[name].decide(code_for_gaps=options.fill is not None and name in x_names)
    drops = options.drop_rows or options.skip_damaged
    if not drops:
        _check_gaps(columns, n_rows, options, x_names)
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
    return options.columns or others


def _check_gaps(
    columns: dict[str, Column], n_rows: int, options: PackOptions, x_names: list[str]
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
    row: Row, x_columns: Sequence[Column], label: Column | None, options: PackOptions
) -> dict[str, Any] | None:
    """The sample of a row; None when it has a gap that nothing fills."""
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
