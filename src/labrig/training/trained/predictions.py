"""Predictions: joined in the order of their rows, the mean of several runs, and as a table."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import LabError
from ...failure import shown_path
from ...hdf5.file.errors import DataFileError
from ...hdf5.file.joined import JoinedRows
from ...hdf5.file.layout import OFFSETS, Layout
from ...hdf5.pack.collect import Field, RaggedField, blocks_of
from ...machine.own_output import MARK, PICTURE_FACTS
from ...record.reproduce.recorded_inputs import recorded_files

if TYPE_CHECKING:
    import numpy as np

    from ...hdf5.file.layout import Layout


ROW = "row"  # the field that says where each sample belongs
START = "start"  # of windows the field that says where in its sample each begins
TABLES = (".csv", ".parquet", ".npz")
HEAD_OF_CSV = b"row,split,"
LABEL = "y"  # the field of the data
PREDICTED = "class"  # the field of the predictions


def merge_parts(parts: Sequence[Layout], directory: Path) -> dict[str, Field]:
    """The fields of all parts, their samples sorted by the field `row`; windows of a row by `start`.

    Args:
        directory: takes a file for each field; it must outlive the fields.
    """
    places = {
        name: np.concatenate([part.map(part.field(name)) for part in parts])
        for name in (ROW, START)
        if all(name in part.fields for part in parts)
    }
    order = np.lexsort([*reversed(places.values())])
    is_new = np.any([np.diff(place[order]) != 0 for place in places.values()], axis=0)
    doubled = np.flatnonzero(~is_new)
    if doubled.size:
        raise DataFileError(
            f"{parts[0].path.parent}: row {places[ROW][order][doubled[0]]} came twice. "
            "Predict on one process: trainer.devices=1"
        )
    kinds = {
        str([(name, str(array.dtype)) for name, array in part.fields.items()]) for part in parts
    }
    if len(kinds) > 1:
        raise DataFileError(
            f"{parts[0].path.parent}: the processes gave different fields or types: "
            f"{'; '.join(sorted(kinds))}. Give the same from predict_step on each."
        )
    merged: dict[str, Field] = {name: place[order] for name, place in places.items()}
    for name in parts[0].fields:
        if name not in places:
            merged[name] = _merge_field(parts, name, order, directory / name)
    return merged


def _merge_field(parts: Sequence[Layout], name: str, order: np.ndarray, file: Path) -> Field:
    shapes = {part.field(name).shape[1:] for part in parts}
    values = [part.map(part.field(name)) for part in parts]
    if not any(part.is_ragged(name) for part in parts) and len(shapes) == 1:
        joined = JoinedRows(values)
        if 0 in joined.shape:
            return np.empty(joined.shape, joined.dtype)
        merged = np.memmap(file, joined.dtype, "w+", shape=joined.shape)
        start = 0
        for block in blocks_of(joined, order):
            merged[start : start + len(block)] = block
            start += len(block)
        return merged
    if any(len(shape) > 1 for shape in shapes):
        raise DataFileError(
            f"{file.parent}: the processes gave {name!r} in the shapes {sorted(shapes)}. "
            "Only fields of one dimension may vary in length."
        )
    lengths_of_parts = [
        np.diff(part.map(part.arrays[name + OFFSETS]))
        if part.is_ragged(name)
        else np.full(len(of_part), of_part.shape[1])
        for part, of_part in zip(parts, values, strict=True)
    ]
    lengths = np.concatenate(lengths_of_parts)
    field = RaggedField.of(JoinedRows([each.reshape(-1) for each in values]), lengths)
    return RaggedField(field.dtype, lengths[order], lambda i: field.sample(order[i]))


def mean_of(files: Sequence[Layout]) -> dict[str, np.ndarray]:
    """The mean of each field of floats, in its type.

    A field of whole numbers has no mean. Where it is the place of the largest value of another field, in
    every file, it is so of the mean; else all files must have the same.
    """
    first = files[0]
    if any(file.fields.keys() != first.fields.keys() for file in files):
        raise LabError("the runs predict different fields. A mean needs the same of each")
    ragged = [name for name in first.fields if first.is_ragged(name)]
    if ragged:
        raise LabError(
            f"{', '.join(ragged)} varies in length, so it has no mean. Leave it out of predict_step"
        )
    values = {name: [file.map(file.field(name)) for file in files] for name in first.fields}
    for name, of_files in values.items():
        if any(one.shape != of_files[0].shape for one in of_files):
            raise LabError(
                f"the runs predict {name} in different shapes. A mean needs the same of each"
            )
    means: dict[str, Any] = {
        name: np.mean(of_files, axis=0, dtype=np.float64).astype(of_files[0].dtype)
        for name, of_files in values.items()
        if of_files[0].dtype.kind == "f"
    }
    for name in values.keys() - means.keys():
        scores = [each for each in means if is_largest(values[name], values[each])]
        if scores:
            means[name] = means[scores[0]].argmax(1).astype(values[name][0].dtype)
        elif all(np.array_equal(one, values[name][0]) for one in values[name]):
            means[name] = values[name][0]
        elif name in (ROW, START):
            raise LabError("the runs predicted other samples. Choose the same data and split=NAME")
        else:
            raise LabError(
                f"the runs differ in {name}, whole numbers that have no mean, and that are not the "
                "place of the largest of other values. Return scores from predict_step"
            )
    return {name: means[name] for name in values}


def is_largest(numbers: Sequence[np.ndarray], scores: Sequence[np.ndarray]) -> bool:
    """Whether each of these arrays (N,) is the place of the largest of the N rows of scores (N, C)."""
    return all(
        score.ndim == 2 and np.array_equal(number, score.argmax(1))
        for number, score in zip(numbers, scores, strict=True)
    )


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
