"""The layout of a data file: which array lies where. Reads it and checks it."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import nearest
from .file_errors import DataFileError, damaged, unreadable
from .open_file import OpenFile

FORMAT = "lab-hdf5"
VERSION = 1
# Ends the name of the array that says where each sample of a ragged field begins
OFFSETS = "_offsets"
TORCH_TYPES = "?bhilqBHILQefdFD"  # NumPy's codes of the types that torch has too
BLOCK_BYTES = 8 << 20  # read and written at once


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
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


@dataclass(frozen=True)
class Layout:
    """A checked data file. `arrays` are its fields and their offsets."""

    file: OpenFile
    n_samples: int
    arrays: dict[str, Array]
    splits: dict[str, Array]
    attrs: dict[str, Any]

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

    def map(self, array: Array) -> np.ndarray:
        """A read-only memory map of `array`, see `OpenFile.map`.

        Raises:
            DataFileError: the file was cut short since it was checked.
        """
        if array.n_bytes == 0:
            return np.empty(array.shape, array.dtype)
        return self.file.map(array.dtype, array.offset, array.shape)


def check_type(where: str, dtype: np.dtype) -> None:
    """Raises DataFileError unless an array of `dtype` can be mapped as a tensor."""
    if not dtype.isnative or dtype.char not in TORCH_TYPES:
        raise DataFileError(
            f"{where} has type {dtype}, expected numbers of up to 64 bits "
            "in this machine's byte order. Store texts and images in a ragged uint8 field."
        )


def read_layout(path: str | Path) -> Layout:
    """Checks the structure of `path` and the hashes of its splits (a few milliseconds).

    Raises:
        DataFileError: missing, cut short, damaged, unfinished, foreign, or stored so that it cannot
            be mapped.
    """
    import h5py  # here, so that a mistyped command is answered without it

    opened = OpenFile(Path(path))
    try:
        with h5py.File(path, "r", locking=False) as file:
            layout = _read_open_file(opened, file)
        _check_fields(layout)
        _check_splits(layout)
        # h5py opened the path by itself
        if os.stat(path).st_ino != opened.identity.inode:
            raise opened.replaced()
    except (OSError, KeyError, IndexError, RuntimeError, AttributeError, TypeError) as error:
        raise unreadable(opened.path, opened.identity.size_bytes, error) from error
    return layout


def _read_open_file(opened: OpenFile, file: Any) -> Layout:
    attrs = _plain_values(file.attrs)
    _check_attrs(opened.path, attrs)
    return Layout(
        opened,
        n_samples=int(attrs["n"]),
        arrays=_read_group(opened, file["data"]),
        splits=_read_group(opened, file["splits"]),
        attrs=attrs,
    )


def _plain_values(attrs: Mapping[str, Any]) -> dict[str, Any]:
    plain = {}
    for key, value in attrs.items():
        plain[key] = value.item() if isinstance(value, np.generic) else value
    return plain


def _check_attrs(path: Path, attrs: dict[str, Any]) -> None:
    if attrs.get("format") != FORMAT:
        raise DataFileError(
            f"{path} was not written by `lab data pack`: format {attrs.get('format')!r}, "
            f"expected {FORMAT!r}. Pack it: lab data pack --help"
        )
    if attrs.get("version") != VERSION:
        raise DataFileError(
            f"{path} has version {attrs.get('version')} of the layout, "
            f"this project reads {VERSION}. Update the project: copier update"
        )
    if attrs.get("complete") != 1:
        raise damaged(path, "it was never finished (complete is not 1)")


def _read_group(opened: OpenFile, group: Mapping[str, Any]) -> dict[str, Array]:
    arrays = {}
    for name in sorted(group):
        dataset = group[name]  # by name: items() gives None for a damaged object
        arrays[name] = _read_array(opened.path, name, dataset, opened.identity.size_bytes)
    return arrays


def _read_array(path: Path, name: str, dataset: Any, file_bytes: int) -> Array:
    check_type(f"{path}: {dataset.name}", dataset.dtype)
    if dataset.chunks is not None or dataset.is_virtual or dataset.external:
        command = f"h5repack -l CONTI -f NONE '{path}' '{path.stem}-contiguous.h5'"
        raise DataFileError(
            f"{path}: {dataset.name} is chunked, compressed or stored in another file, "
            f"so it cannot be memory-mapped. Convert it: {command}"
        )
    attrs = _plain_values(dataset.attrs)
    sha256 = str(attrs.pop("sha256", ""))
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
    for name, array in layout.fields.items():
        ragged = layout.is_ragged(name)
        n_samples = layout.arrays[name + OFFSETS].n_rows - 1 if ragged else array.n_rows
        if n_samples != layout.n_samples:
            raise damaged(
                layout.path, f"field {name!r} has {n_samples} samples, expected {layout.n_samples}"
            )
        if ragged:
            _check_offsets(layout, name, array)


def _check_offsets(layout: Layout, name: str, array: Array) -> None:
    offsets = layout.map(layout.arrays[name + OFFSETS])
    if offsets.dtype != np.int64 or offsets[0] != 0 or offsets[-1] != array.n_rows:
        raise damaged(layout.path, f"{name + OFFSETS} does not fit {name!r}")


def _check_splits(layout: Layout) -> None:
    for name, split in layout.splits.items():
        rows = layout.map(split)
        if hashlib.sha256(rows.data).hexdigest() != split.sha256:
            raise damaged(layout.path, f"split {name!r} does not match its sha256")
        inside = rows.size == 0 or 0 <= rows[0] <= rows[-1] < layout.n_samples
        if rows.dtype != np.int64 or not inside:
            raise damaged(layout.path, f"split {name!r} has rows outside 0..{layout.n_samples - 1}")
