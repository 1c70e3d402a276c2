"""Makes samples of tables: some columns become x, one becomes the label y."""

import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...machine.text_formats import and_more, counted
from ..file.errors import DataFileError
from ..file.names import OTHER_NAMES
from .collect import Field
from .folders import class_attrs
from .options import PackOptions
from .samples import Collected, DamagedSamples
from .sources import source_labels
from .table_columns import TableColumn, Texts, check_bits, text_column, texts_of, type_for, x_column
from .table_files import TableFile
from .texts import RAGGED, text_field, with_tokens

MAX_TOLD = 20  # columns with gaps
USUAL = {"train", "val", "test", "Train", "Test", *OTHER_NAMES}
INDEX_NAMES = ("", "Unnamed: 0", "__index_level_0__")


def read_table(options: PackOptions, damaged: DamagedSamples) -> Collected:
    """The fields x (number of columns,), or one text of each row; y of the label; where each row goes.

    Texts become the numbers of their categories, in the order of their names; the attributes of the
    field hold the names. x is float32, or float64 or int64 where that alone tells its values apart.
    """
    files = [TableFile(source, options) for source in options.sources]
    require_same_columns(files)
    check_cut(files, options)
    names = x_names(files, options)
    is_text = options.kind == "text"
    columns = {} if is_text else {name: x_column(name, files, options) for name in names}
    label = text_column(options.label, files, options, is_label=True) if options.label else None
    groups = texts_of(files, options.group, options) if options.group else None
    used = [*columns.values(), *([label] if label else [])]
    if groups is not None:
        used.append(TableColumn(str(options.group), np.zeros(0), groups.is_gap))
    is_kept = _without_gaps(used, names, files, options)
    keys, cut_keys = _keys(files, options)
    texts = text_field(files, keys, is_kept, options) if is_text else None
    damaged.skipped_keys += [keys[row] for row in np.flatnonzero(~is_kept)] + cut_keys
    fields: dict[str, Field] = {"x": texts or _x(columns, is_kept, options)}
    if label:
        fields["y"] = _y(label, is_kept)
    for line in [column.describe(is_kept) for column in columns.values()][:MAX_TOLD]:
        print(f"  column {line}")
    x_attrs = {"columns": json.dumps(names, ensure_ascii=False)}
    categories = {column.name: column.texts for column in columns.values() if column.texts}
    if categories:
        x_attrs["categories"] = json.dumps(categories, ensure_ascii=False)
    attrs = {"x": RAGGED if is_text else x_attrs} | class_attrs(label.texts if label else [])
    finish = partial(with_tokens, options) if is_text else None
    if groups is None and not (options.names or options.split_file or options.sources[0].split):
        return Collected(fields, attrs, finish=finish)
    placements = _placements(files, keys, groups, is_kept)
    return Collected(fields, attrs, placements, finish=finish)


def require_same_columns(files: Sequence[TableFile]) -> None:
    """Raises DataFileError unless all tables have the same columns, and one of them a row."""
    for file in files[1:]:
        if file.names != files[0].names:
            raise DataFileError(
                f"{file.path}: row 1 has the columns {', '.join(file.names)}; {files[0].path} has "
                f"{', '.join(files[0].names)}. Give all tables the same."
            )
    if not sum(file.n_rows for file in files):
        raise DataFileError(f"{files[0].path} has no rows. Name a table with a head line and rows.")


def x_names(files: Sequence[TableFile], options: PackOptions) -> list[str]:
    """The columns whose values are packed."""
    names = files[0].names
    special = (options.label, options.group, options.series, options.time)
    asked = [name for name in (*special, *options.columns) if name is not None]
    unknown = [name for name in [*asked, *options.texts] if name not in names]
    if unknown:
        raise DataFileError(f"{files[0].path} has no column {unknown}. It has: {', '.join(names)}")
    for name in options.columns:
        if options.columns.count(name) > 1:
            raise DataFileError(f"--columns has the column {name!r} twice. Name each column once.")
    if options.label in options.columns:
        raise DataFileError(
            f"--columns has the label {options.label!r}: x would hold the answer. Leave it out there."
        )
    others = [name for name in names if name not in special]
    if options.columns and options.known.only_of:
        new = [name for name in others if name not in options.columns]
        print(f"  columns that are not read: {', '.join(new) or 'none'}")
    if options.columns:
        return options.columns
    for name in others:
        if name.lower() == "split" and USUAL.intersection(texts_of(files, name, options).counts):
            raise DataFileError(
                f"{files[0].path}: the column {name!r} does not divide the rows. Write a table of each split "
                "and type train=PATH test=PATH; or lines such as 0,train and type --split-file FILE. Then, or "
                "to divide them anew, leave it out with --columns."
            )
    if not others:
        raise DataFileError(f"{files[0].path} has no x, only {', '.join(names)}. Add a column.")
    index = [name for name in others if name in INDEX_NAMES and len(others) > 1]
    for name in index:
        is_empty = all(file.typed[name].null_count == file.typed.num_rows for file in files)
        what = "it is empty" if is_empty else "the number of the row"
        print(f"  column {name!r} left out: {what}. To take it in: --columns")
    return [name for name in others if name not in index]


def check_cut(files: Sequence[TableFile], options: PackOptions) -> None:
    """Raises DataFileError for lines that are shorter than the head line, which nothing fills."""
    cut = [(file, row) for file in files for row in file.cut]
    if not cut or options.drop_rows or options.skip_damaged:
        return
    file, row = cut[0]
    raise DataFileError(
        f"{file.path}: row {row.number} is cut: it has {row.n_values} of {len(file.names)} values. There is "
        f"{counted(len(cut), 'such row')}. Correct it, or leave it out with --drop-rows."
    )


# Gaps, and what becomes of the rows


def _without_gaps(
    columns: list[TableColumn], x_names: list[str], files: list[TableFile], options: PackOptions
) -> np.ndarray:
    """(N,) which rows are packed."""
    n_rows = sum(file.typed.num_rows for file in files)
    gaps = [column for column in columns if column.is_gap.any()]
    gaps.sort(key=lambda column: column.first_bad is None)
    filled = x_names if options.fill is not None else ()
    open_gaps = [column for column in gaps if column.name not in filled]
    if open_gaps and not (options.drop_rows or options.skip_damaged):
        lines = [f"{files[0].path} has gaps in these columns:"]
        lines += [f"  {column.describe_gaps(n_rows)}" for column in open_gaps]
        lines.append("--drop-rows leaves these rows out.")
        if any(column.name in x_names for column in open_gaps):
            lines += ["--fill NUMBER puts that there; a gap among texts becomes a category."]
            lines += ["--columns NAME,NAME takes others. Or correct the table."]
        lines.append("If these words are values: --missing '' takes empty ones alone for gaps.")
        raise DataFileError("\n".join(lines))
    for column in gaps[:MAX_TOLD]:
        what = f"filled with {options.fill:g}" if column.name in filled else "left out"
        print(f"lab: {column.describe_gaps(n_rows)}: {what}", file=sys.stderr)
    if len(gaps) > MAX_TOLD:
        print(f"lab: gaps in {len(gaps) - MAX_TOLD} more columns", file=sys.stderr)
    is_kept = np.ones(n_rows, bool)
    for column in open_gaps:
        is_kept &= ~column.is_gap
    return is_kept


def _x(columns: dict[str, TableColumn], is_kept: np.ndarray, options: PackOptions) -> np.ndarray:
    """(N, columns), in the smallest type that tells the values of each column apart."""
    used = {column.name: column.values[is_kept & ~column.is_gap] for column in columns.values()}
    fill = options.fill or 0.0
    if any((column.is_gap & is_kept).any() for column in columns.values()):
        is_whole = fill.is_integer() and abs(fill) < 2**63
        used["--fill"] = np.array([int(fill) if is_whole else fill])
    types = {name: type_for(values) for name, values in used.items()}
    dtype = np.result_type(*(dtype for dtype, _ in types.values()))
    wants_whole = any(dtype.kind in "iu" for dtype, _ in types.values())
    if wants_whole and all(values.dtype.kind in "iu" for values in used.values()):
        dtype = np.result_type(*used.values())
    if dtype.kind == "f":
        for name, values in used.items():
            check_bits(name, values)
    wide = [f"{name} {reason}" for name, (each, reason) in types.items() if each != np.float32]
    if wide:
        print(f"  x is {dtype}: {and_more(wide, MAX_TOLD, between='; ')}")
    rounded = [name for name in columns if types[name][1]]
    if rounded and dtype == np.float32:
        n = f"{len(rounded)} of {len(columns)} columns, such as {rounded[0]!r}"
        print(f"  x is {dtype}: it rounds the fractions of {n}, to 6 digits")
    x = np.empty((int(is_kept.sum()), len(columns)), dtype)
    for i, column in enumerate(columns.values()):
        with np.errstate(over="ignore", invalid="ignore"):  # of what lies in gaps
            x[:, i] = column.values[is_kept]
        x[column.is_gap[is_kept], i] = fill
    return x


def _y(label: TableColumn, is_kept: np.ndarray) -> np.ndarray:
    values = label.values[is_kept]
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    dtype, reason = type_for(values)
    if reason:
        print(f"  y is {dtype}: {label.name} {reason}")
    return values.astype(dtype)


def _keys(files: Sequence[TableFile], options: PackOptions) -> tuple[list[str], list[str]]:
    """The numbers of the rows, read and cut, from 0; of several tables behind the name of their own."""
    whole, cut = [], []
    for file, label in zip(files, source_labels(options.sources), strict=True):
        prefix = label and f"{label.removesuffix('/')}:"
        is_cut = {row.number - 1 for row in file.cut}
        for row in range(file.n_rows):
            (cut if row in is_cut else whole).append(f"{prefix}{row}")
    return whole, cut


def _placements(
    files: Sequence[TableFile], keys: Sequence[str], groups: Texts | None, is_kept: np.ndarray
) -> Iterator[dict[str, Any]]:
    splits = [file.source.split for file in files for _ in range(file.typed.num_rows)]
    for row in np.flatnonzero(is_kept).tolist():
        sample: dict[str, Any] = {"key": keys[row]}
        if groups is not None:
            sample["group"] = groups.different[groups.codes[row]]
        if splits[row] is not None:
            sample["split"] = splits[row]
        yield sample
