"""Predictions as a table: the name of each sample, its true class, what was predicted, and the scores."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...failure import shown_path
from ...machine.own_output import MARK, PICTURE_FACTS
from ...record.reproduce.recorded_inputs import recorded_files

if TYPE_CHECKING:
    import numpy as np

    from ...hdf5.file.layout import Layout

TABLES = (".csv", ".parquet", ".npz")
HEAD_OF_CSV = b"row,split,"
LABEL = "y"  # the field of the data
PREDICTED = "class"  # the field of the predictions


def write_table(
    target: Path,
    file: Path,
    row: Mapping[str, Any],
    learnt_from: Callable[[], Layout | None] = lambda: None,
) -> None:
    """Writes a data file of predictions again as a .csv, .parquet or .npz.

    An .npz has each field as it is. In a table a field with several values a sample takes a column for
    each, called by its class where there is one for each class; other fields are named and left out.

    Args:
        file: the predictions.
        row: of the record about them; its `data` says what was predicted.
        learnt_from: opens the data of the run, which name the classes where data have no labels.
    """
    import numpy as np  # here, so that a mistyped command is answered without it

    from ...hdf5.file.atomic_file import publish, temporary_directory_next_to
    from ...hdf5.file.joined import read_layouts
    from ...hdf5.file.layout import read_layout
    from .predictions import ROW

    predicted = read_layout(file)
    is_file = "size_bytes" in row["data"]  # not a folder
    places = [Path(each["path"]) for each in recorded_files(row["data"])] if is_file else []
    data = read_layouts(places) if places else None
    has_labels = data is not None and LABEL in data.fields
    named = data if has_labels else learnt_from()
    classes = named.class_names if named is not None else []
    rows = predicted.map(predicted.field(ROW))
    columns = {ROW: rows, "split": splits_of(rows, data, row["split"])}
    fields = {
        name: predicted.map(predicted.arrays[name]) for name in predicted.arrays if name != ROW
    }
    if data is not None:
        columns |= sample_names(rows, columns["split"], data)
        if has_labels and data.fields[LABEL].shape[1:] == () and not data.is_ragged(LABEL):
            columns["true"] = by_name(data.rows(data.field(LABEL)).take(rows, 0), classes)
    if PREDICTED in fields and fields[PREDICTED].shape == rows.shape:
        columns["predicted"] = by_name(fields.pop(PREDICTED), classes)
    suffix = target.suffix.lower()
    if suffix == ".npz":
        columns |= fields
    else:
        columns |= flat_columns(fields, predicted, classes, target)
    with temporary_directory_next_to(target) as directory:
        temporary = directory / target.name
        if suffix == ".csv":
            write_csv(temporary, columns)
        elif suffix == ".parquet":
            write_parquet(temporary, columns)
        else:
            np.savez(temporary, allow_pickle=False, **columns, written_by=np.bytes_(MARK))
        publish(temporary, target)
    print(f"{shown_path(target)}: {', '.join(columns)}")


def splits_of(rows: np.ndarray, data: Layout | None, predicted: str | None) -> np.ndarray:
    """The split of each sample in the data, "" for one in none; what was predicted where they have none.

    Args:
        rows: (N,) of the samples in the data.
    """
    import numpy as np

    if data is None or not data.splits:
        return np.full(len(rows), predicted or "")
    split_of = np.full(data.n_samples, "", dtype=f"U{max(map(len, data.splits))}")
    for name, array in data.splits.items():
        split_of[data.rows(array)[:]] = name
    return split_of[rows]


def sample_names(rows: np.ndarray, splits: np.ndarray, data: Layout) -> dict[str, np.ndarray]:
    """The column `sample` from NAME.names.csv next to the data; none without such a file.

    A file of other data, by its number of rows or the split of a row, is named and not read.
    """
    import numpy as np

    from ...hdf5.pack.split import NAMES_SUFFIX

    path = data.path.with_suffix(NAMES_SUFFIX)
    if not path.is_file():
        return {}
    with open(path, encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    names = np.array([line["sample"] for line in lines])
    recorded = np.array([line["split"] for line in lines])
    if len(lines) != data.n_samples or (data.splits and (recorded[rows] != splits).any()):
        print(f"lab: no column `sample`: {path} is of other data, by its rows", file=sys.stderr)
        return {}
    return {"sample": names[rows]}


def by_name(numbers: np.ndarray, classes: list[str]) -> np.ndarray:
    """(N,) the names of classes, "" for a number without one; the numbers where nothing has a name."""
    import numpy as np

    if not classes or numbers.dtype.kind not in "iu":
        return numbers
    names = np.array([*classes, ""])
    return names[np.where((numbers >= 0) & (numbers < len(classes)), numbers, len(classes))]


def flat_columns(
    fields: Mapping[str, np.ndarray], predicted: Layout, classes: list[str], target: Path
) -> dict[str, np.ndarray]:
    """A column for each value of a sample; says which fields have none."""
    columns = {}
    left_out = []
    for name, values in fields.items():
        if name not in predicted.fields:
            continue  # the offsets of a ragged field
        if predicted.is_ragged(name) or values.ndim > 2:
            left_out.append(name)
        elif values.ndim == 1:
            columns[name] = values
        else:
            n_values = values.shape[1]
            ends = classes if n_values == len(classes) else range(n_values)
            columns |= {f"{name}_{end}": values[:, i] for i, end in enumerate(ends)}
    if left_out:
        print(
            f"lab: {target.name} lacks {', '.join(left_out)}, of several dimensions or lengths: "
            f"--to {target.stem}.npz has all",
            file=sys.stderr,
        )
    return columns


def write_csv(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def write_parquet(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    from pyarrow import table
    from pyarrow.parquet import write_table as write

    write(table(dict(columns)).replace_schema_metadata(PICTURE_FACTS), path)
