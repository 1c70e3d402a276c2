"""The layout of a data file: which array lies where. Reads it and checks it."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ...errors import nearest
from .attributes import COMPLETE, HASH, check_json, plain_values, seal_of
from .errors import DataFileError, ForeignFileError, damaged, unreadable
from .open_file import OpenFile

FORMAT = "lab-hdf5"
VERSION = 1
# Ends the name of the array that says where each sample of a ragged field begins
GROUP = "group"  # the field that says which samples belong together, such as those of a patient
TIME = "time"  # the field of series: of each step, seconds since 1970 where the table had dates
OFFSETS = "_offsets"
TORCH_TYPES = "?bhilqBHILQefdFD"  # NumPy's codes of the types that torch has too
BLOCK_BYTES = 8 << 20  # read and written at once


class Rows(Protocol):
    """The rows of an array in one file, or in several."""

    @property
    def dtype(self) -> Any: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    def __len__(self) -> int: ...
    def take(self, rows: np.ndarray, axis: int, /) -> np.ndarray: ...
    def __getitem__(self, part: slice, /) -> np.ndarray: ...


@dataclass(frozen=True)
class Array:
    """One array of the file: `shape` of `dtype`, from byte `offset` on."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int
    sha256: str
    attrs: dict[str, Any]

    @property
    def n_rows(self) -> int:
        return self.shape[0]

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Layout:
    """A checked data file. `arrays` are its fields and their offsets."""

    file: OpenFile
    n_samples: int
    arrays: dict[str, Array]
    splits: dict[str, Array]
    attrs: dict[str, Any]
    seal: str | None  # the hash of all attributes; None while it is written

    @property
    def parts(self) -> "tuple[Layout, ...]":
        """The files that are read: this one; of several that are read as one, each."""
        return (self,)

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def size_bytes(self) -> int:
        return self.file.identity.size_bytes

    @property
    def fields(self) -> dict[str, Array]:
        """The arrays that hold samples, without the offsets of the ragged ones."""
        offsets = {name + OFFSETS for name in self.arrays}
        return {name: array for name, array in self.arrays.items() if name not in offsets}

    @property
    def class_names(self) -> list[str]:
        """The names of the classes y, in the order of their numbers; none where they have no names."""
        label = self.fields.get("y")
        return json.loads(label.attrs.get("classes", "[]")) if label is not None else []

    @property
    def arrays_by_path(self) -> dict[str, Array]:
        """All arrays, of fields and of splits, by their paths in the file."""
        data = {f"data/{name}": array for name, array in self.arrays.items()}
        return data | {f"splits/{name}": array for name, array in self.splits.items()}

    def is_ragged(self, name: str) -> bool:
        return name + OFFSETS in self.arrays

    def field(self, name: str) -> Array:
        """The values of field `name`.

        Raises:
            DataFileError: there is no such field; names the nearest one.
        """
        if name not in self.fields:
            raise DataFileError(self._missing("field", name, self.fields))
        return self.fields[name]

    def split(self, name: str) -> Array:
        """The row numbers of split `name`.

        Raises:
            DataFileError: there is no such split; names the nearest one.
        """
        if name not in self.splits:
            raise DataFileError(self._missing("split", name, self.splits))
        return self.splits[name]

    def _missing(self, kind: str, name: str, names: Mapping[str, Array]) -> str:
        listed = ", ".join(names) or "none"
        return f"{self.path} has no {kind} {name!r}{nearest(name, names)}. It has: {listed}"

    def map(self, array: Array, is_told: bool = False) -> np.ndarray:
        """A read-only memory map of `array`, see `OpenFile.map`.

        Raises:
            DataFileError: the file was cut short since it was checked.
        """
        if array.n_bytes == 0:
            return np.empty(array.shape, array.dtype)
        return self.file.map(array.dtype, array.offset, array.shape, is_told)

    def rows(self, array: Array, is_told: bool = False) -> Rows:
        """What gives rows of `array` without a copy of all of it: the map."""
        return self.map(array, is_told)

    def tell_ahead(self, array: Array, first: int, stop: int) -> None:
        """Lets the disk begin to read the rows of `array` from `first` to before `stop`."""
        row_bytes = array.n_bytes // array.n_rows
        self.file.tell_ahead(array.offset + first * row_bytes, (stop - first) * row_bytes)


def check_type(where: str, dtype: np.dtype) -> None:
    """Raises DataFileError unless an array of `dtype` can be mapped as a tensor."""
    if dtype.names:
        raise DataFileError(
            f"{where} has rows of the named values {', '.join(dtype.names)}. Save each as an array of its "
            "own in an .npz, or all of them as a table."
        )
    if not dtype.isnative or dtype.char not in TORCH_TYPES:
        raise DataFileError(
            f"{where} has type {dtype}, expected numbers of up to 64 bits "
            "in this machine's byte order. Store texts and images in a ragged uint8 field."
        )


def read_layout(path: str | Path, *, is_sealed: bool = True) -> Layout:
    """Checks the structure of `path` and the hashes of its splits (a few milliseconds).

    Raises:
        DataFileError: missing, cut short, damaged, unfinished, foreign, or stored so that it cannot
            be mapped. Damaged are also links to other places, splits that share a row, and, where it
            `is_sealed`, any attribute that was changed.
    """
    import h5py  # here, so that a mistyped command is answered without it

    opened = OpenFile(Path(path))
    try:
        with h5py.File(path, "r", locking=False) as file:
            layout = _read_open_file(opened, file)
    except DataFileError:
        raise
    except Exception as error:  # whatever h5py raises for a damaged file
        raise unreadable(opened.path, opened.identity.size_bytes, error) from error
    _check_fields(layout)
    _check_splits(layout)
    if is_sealed and layout.seal != seal_of(layout.attrs, layout.arrays_by_path):
        raise damaged(layout.path, "its attributes were changed since it was written")
    if not opened.has_its_name():  # h5py opened the path by itself
        raise opened.replaced()
    return layout


def _read_open_file(opened: OpenFile, file: Any) -> Layout:
    path = opened.path
    attrs = plain_values(file.attrs)
    _check_attrs(path, attrs)
    data = _group(path, file, "data")
    splits = _group(path, file, "splits")
    if [*file] != ["data", "splits"] or len(data.attrs) or len(splits.attrs):
        raise damaged(path, "it holds something else than data and splits")
    return Layout(
        opened,
        n_samples=attrs["n"],
        arrays=_read_group(opened, data),
        splits=_read_group(opened, splits),
        attrs={key: value for key, value in attrs.items() if key != HASH},
        seal=str(attrs[HASH]) if HASH in attrs else None,
    )


def _check_attrs(path: Path, attrs: dict[str, Any]) -> None:
    if not _is(attrs.get("format"), FORMAT):
        raise ForeignFileError(
            f"{path} was not written by `lab data pack`: format {attrs.get('format')!r}, "
            f"expected {FORMAT!r}. Pack it: lab data pack --help"
        )
    if not _is(attrs.get("version"), VERSION):
        raise DataFileError(
            f"{path} has version {attrs.get('version')} of the layout, "
            f"this project reads {VERSION}. Update the project: copier update"
        )
    if not _is(attrs.get(COMPLETE), 1):
        raise damaged(path, "it was never finished (complete is not 1)")
    if type(attrs.get("n")) is not int:
        raise damaged(path, f"its number of samples is {attrs.get('n')!r}")


def _is(value: Any, expected: Any) -> bool:
    """Whether an attribute has a value; arrays, which `==` compares item by item, have not."""
    return type(value) is type(expected) and value == expected


def _group(path: Path, file: Any, name: str) -> Any:
    """A group of the file itself."""
    import h5py

    group = _member(path, file, name)
    if not isinstance(group, h5py.Group):
        raise damaged(path, f"/{name} is no group")
    return group


def _member(path: Path, group: Any, name: str) -> Any:
    """What has `name` in a group; by name, since items() gives None for a damaged object."""
    import h5py

    where = f"{group.name.rstrip('/')}/{name}"
    link = group.get(name, getlink=True)
    if link is None:
        raise damaged(path, f"{where} is missing")
    if not isinstance(link, h5py.HardLink):
        raise damaged(path, f"{where} is a link to another place")
    return group[name]


def _read_group(opened: OpenFile, group: Any) -> dict[str, Array]:
    arrays = {}
    for name in sorted(group):
        dataset = _member(opened.path, group, name)
        arrays[name] = _read_array(opened.path, name, dataset, opened.identity.size_bytes)
    return arrays


def _read_array(path: Path, name: str, dataset: Any, file_bytes: int) -> Array:
    if not hasattr(dataset, "chunks") or not dataset.shape:
        raise damaged(path, f"{dataset.name} is no array with a row for each sample")
    check_type(f"{path}: {dataset.name}", dataset.dtype)
    if dataset.chunks is not None or dataset.is_virtual or dataset.external:
        command = f"h5repack -l CONTI -f NONE '{path}' '{path.stem}-contiguous.h5'"
        raise DataFileError(
            f"{path}: {dataset.name} is chunked, compressed or stored in another file, "
            f"so it cannot be memory-mapped. Convert it: {command}"
        )
    attrs = plain_values(dataset.attrs)
    sha256 = str(attrs.pop(HASH, ""))
    offset = dataset.id.get_offset() or 0
    array = Array(name, dataset.dtype, dataset.shape, offset, sha256, attrs)
    if array.n_bytes and not offset:
        raise damaged(path, f"{dataset.name} was never written")
    end = offset + array.n_bytes
    if end > file_bytes:
        raise damaged(
            path, f"cut short: {dataset.name} ends at byte {end}, the file at {file_bytes} bytes"
        )
    return array


def _check_fields(layout: Layout) -> None:
    if layout.n_samples <= 0 or not layout.fields:
        raise damaged(layout.path, "it holds no samples")
    if layout.n_samples > layout.size_bytes:
        raise damaged(layout.path, f"it cannot hold the {layout.n_samples} samples that it names")
    for name, array in layout.fields.items():
        ragged = layout.is_ragged(name)
        n_samples = layout.arrays[name + OFFSETS].n_rows - 1 if ragged else array.n_rows
        if n_samples != layout.n_samples:
            raise damaged(
                layout.path, f"field {name!r} has {n_samples} samples, expected {layout.n_samples}"
            )
        if ragged:
            _check_offsets(layout, name, array)
        check_json(layout.path, name, array.attrs)


def _check_offsets(layout: Layout, name: str, array: Array) -> None:
    offsets = layout.arrays[name + OFFSETS]
    fits = offsets.dtype == np.int64 and len(offsets.shape) == len(array.shape) == 1
    if fits:
        first, last = layout.map(offsets)[[0, -1]]
        fits = first == 0 and last == array.n_rows
    if not fits:
        raise damaged(layout.path, f"{name + OFFSETS} does not fit {name!r}")


def _check_splits(layout: Layout) -> None:
    is_taken = np.zeros(layout.n_samples, bool)
    for name, split in layout.splits.items():
        if split.dtype != np.int64 or len(split.shape) != 1:
            raise damaged(layout.path, f"split {name!r} is no list of row numbers")
        rows = layout.map(split)
        if hashlib.sha256(rows.data).hexdigest() != split.sha256:
            raise damaged(layout.path, f"split {name!r} does not match its sha256")
        if (np.diff(rows) <= 0).any():
            raise damaged(layout.path, f"the rows of split {name!r} are not in order")
        if rows.size and not 0 <= rows[0] <= rows[-1] < layout.n_samples:
            raise damaged(layout.path, f"split {name!r} has rows outside 0..{layout.n_samples - 1}")
        if is_taken[rows].any():
            row = rows[is_taken[rows]][0]
            raise damaged(layout.path, f"row {row} is in split {name!r} and in another one")
        is_taken[rows] = True
