# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Samples from arrays (.npy, .npz) and tables (.csv, .tsv, .parquet), a row each."""

import csv
import json
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .file_layout import DataFileError, require
from .from_files import Samples, Skipped

MAX_CLASSES = 65536


def open_arrays(sources: Sequence[Path], scratch: Path) -> dict[str, np.ndarray]:
    """Memory maps of .npy files by their stems, and of the members of .npz files, unpacked into `scratch`."""
    arrays = {}
    for source in sources:
        try:
            if source.suffix == ".npz":
                with zipfile.ZipFile(source) as archive:
                    for member in archive.namelist():
                        unpacked = scratch / Path(member).name
                        with archive.open(member) as packed, unpacked.open("wb") as plain:
                            shutil.copyfileobj(packed, plain, 1 << 20)
                        arrays |= open_arrays([unpacked], scratch)
            else:
                arrays[source.stem] = np.load(source, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise DataFileError(f"{source} cannot be read as .npy or .npz of numbers: {error}") from error
    return arrays


def from_table(path: Path, label: str | None, columns: Sequence[str], group: str | None, skipped: Skipped) -> Samples:
    """Samples {"x": float32 of the `columns` (all but label and group), "y": the label} and field attributes.

    A label column of whole numbers is int64, of other numbers float32, of names the class number (sorted
    names).
    """
    first = next(_rows(path), None)
    require(first, f"{path} has no rows.")
    named = [name for name in (label, group, *columns) if name is not None]
    unknown = [name for name in named if name not in first]
    require(not unknown, f"{path} has no column {unknown}. It has: {', '.join(map(str, first))}")
    chosen = list(columns) or [name for name in first if name not in (label, group)]
    classes, kind = _kind_of(path, label) if label else ({}, None)

    def samples() -> Iterator[dict[str, Any]]:
        for number, row in enumerate(_rows(path)):
            name = None
            try:
                sample: dict[str, Any] = {"key": str(number), "x": np.empty(len(chosen), np.float32)}
                for i, name in enumerate(chosen):
                    sample["x"][i] = _number(row[name])
                if label:
                    name = label
                    sample["y"] = np.int64(classes[row[label]]) if classes else kind(_number(row[label]))
            except (ValueError, TypeError, KeyError) as error:
                where = f"{path}: row {number + 1}, column {name!r}: {row.get(name)!r} is no number"
                if skipped is None:
                    raise DataFileError(f"{where}. Correct it, or use --columns or --skip-damaged.") from error
                skipped.append(str(number))
                continue
            yield sample | ({"group": row[group]} if group else {})

    attrs = {"x": {"columns": json.dumps(chosen, ensure_ascii=False)}}
    names = {"y": {"classes": json.dumps(list(classes), ensure_ascii=False)}} if classes else {}
    return samples(), attrs | names


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix in (".parquet", ".pq"):
        try:
            from pyarrow import ArrowException
            from pyarrow.parquet import ParquetFile
        except ImportError as error:
            raise DataFileError("reading Parquet needs pyarrow: pip install pyarrow") from error
        try:
            with ParquetFile(path) as file:
                for batch in file.iter_batches(8192):
                    yield from batch.to_pylist()
        except (ArrowException, OSError) as error:
            raise DataFileError(f"{path} cannot be read: {error}") from error
        return
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            yield from csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ",")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataFileError(f"{path} is no UTF-8 table with a head line: {error}") from error


def _number(text: Any) -> float:
    value = float(text)
    if value != value:
        raise ValueError("NaN")
    return value


def _kind_of(path: Path, label: str) -> tuple[dict[str, int], type | None]:
    """({name: number}, None) for names; ({}, int64 or float32) for numbers."""
    every, kind, named = set(), np.int64, False
    for row in _rows(path):
        if (value := row[label]) in (None, "", "nan", "NaN"):
            continue  # told later, with its row
        try:
            kind = kind if _number(value).is_integer() else np.float32
        except (ValueError, TypeError):
            named = True
        if len(every) <= MAX_CLASSES:
            every.add(value)
    many = named and len(every) > MAX_CLASSES
    require(not many, f"{path}: column {label!r} has over {MAX_CLASSES} different texts: no label.")
    return ({name: i for i, name in enumerate(sorted(every, key=str))}, None) if named else ({}, kind)
