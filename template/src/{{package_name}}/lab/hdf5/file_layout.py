# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The layout of a data file: what is where in it, and what is wrong with a file that is none."""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from ..errors import LabError, nearest

FORMAT, VERSION = "lab-hdf5", 1
OFFSETS = "_offsets"
NUMBERS = "?bhilqBHILQefdFD"  # NumPy's codes of the types that torch has too
BLOCK_BYTES = 8 << 20
AGAIN = "Copy the file again, or pack it again: lab data pack {}"
MAGIC = b"\x89HDF\r\n\x1a\n"  # how every HDF5 file begins


class DataFileError(LabError, ValueError):
    """A data file, or what should become one, is not as it must be: path, found, expected, what to do."""


def require(ok: Any, message: str) -> None:
    """Raises DataFileError(message) unless `ok`."""
    if not ok:
        raise DataFileError(message)


def require_undamaged(ok: Any, path: Path, damage: str) -> None:
    """`require` for a file that is no longer, or was never, as it was meant."""
    require(ok, f"{path}{damage}. {AGAIN.format(path.stem)}")


def check_numbers(where: str, dtype: np.dtype) -> None:
    """Raises DataFileError unless an array of `dtype` can be mapped as a tensor."""
    expected = "expected numbers of up to 64 bits in this machine's byte order; texts and images go into a ragged uint8"
    require(
        dtype.isnative and dtype.char in NUMBERS, f"{where} has type {dtype}, {expected} field."
    )


@dataclass(frozen=True)
class Array:
    """One array as it lies in the file: `shape` of `dtype` from byte `offset` on."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int
    sha256: str
    attrs: dict[str, Any]

    @property
    def n_bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


@dataclass(frozen=True)
class Layout:
    """A checked data file: `n` samples, its `arrays` (fields and offsets), `splits` and root `attrs`."""

    path: Path
    identity: tuple[int, int]  # size in bytes and inode, to notice another file under the same name
    n: int
    arrays: dict[str, Array]
    splits: dict[str, Array]
    attrs: dict[str, Any]

    @property
    def fields(self) -> dict[str, Array]:
        """The arrays that hold samples, not the offsets of the ragged ones."""
        offsets = {name + OFFSETS for name in self.arrays}
        return {name: array for name, array in self.arrays.items() if name not in offsets}

    @property
    def every(self) -> dict[str, Array]:
        """All arrays by their names in the file."""
        data = {f"data/{name}": array for name, array in self.arrays.items()}
        return data | {f"splits/{name}": array for name, array in self.splits.items()}

    def is_ragged(self, name: str) -> bool:
        return name + OFFSETS in self.arrays

    def known(self, kind: str, name: str) -> Array:
        """The array of the `field` or `split` of that name."""
        there = {"field": self.fields, "split": self.splits}[kind]
        hint = f"{nearest(name, there)}. It has: {', '.join(there) or 'none'}"
        require(name in there, f"{self.path} has no {kind} {name!r}{hint}")
        return there[name]

    def map(self, array: Array) -> np.ndarray:
        """The array as a read-only memory map (a plain ndarray, which indexes twice as fast as np.memmap).

        Raises:
            DataFileError: the file under this name is no longer the one that was checked.
        """
        if array.n_bytes == 0:
            return np.empty(array.shape, array.dtype)
        found = file_identity(self.path)
        change = f"another file now: {found[0]} bytes, {self.identity[0]} when it was opened"
        require(
            found == self.identity, f"{self.path} is {change}. Start again to read the new one."
        )
        return np.asarray(np.memmap(self.path, array.dtype, "r", array.offset, array.shape))


def file_identity(path: Path) -> tuple[int, int]:
    """Size in bytes and inode (not mtime: a `touch` against the purge of scratch is no change).

    Raises:
        DataFileError: there is no such file, or it may not be read.
    """
    make_it = f"Expected a data file; make it with: lab data pack {path.stem}"
    try:
        stat = os.stat(path)
    except OSError as error:
        raise DataFileError(f"{path}: {error.strerror}. {make_it}") from error
    require(os.path.isfile(path), f"{path} is not a file. {make_it}")
    return stat.st_size, stat.st_ino


def read_layout(path: str | Path) -> Layout:
    """Opens `path`, checks its structure and the hashes of its splits, and closes it (a few milliseconds).

    Raises:
        DataFileError: missing, cut short, damaged, unfinished, foreign, or stored so that it cannot be
        mapped.
    """
    import h5py  # here, so that a mistyped command is answered without it

    path = Path(path)
    before = file_identity(path)
    try:
        with h5py.File(path, "r", locking=False) as file:
            attrs = _plain(file.attrs)
            _check_root(path, attrs)
            arrays, splits = (_arrays(path, file[group], before[0]) for group in ("data", "splits"))
        found = Layout(path, before, int(attrs["n"]), arrays, splits, attrs)
        _check_fields(found)
        _check_splits(found)
    except (OSError, KeyError, IndexError, RuntimeError, AttributeError, TypeError) as error:
        raise DataFileError(_why_unreadable(path, before[0], error)) from error
    return found


def _plain(attrs: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value.item() if isinstance(value, np.generic) else value
        for key, value in attrs.items()
    }


def _check_root(path: Path, attrs: dict[str, Any]) -> None:
    foreign = (
        f"was not written by `lab data pack` (format {attrs.get('format')!r}, expected {FORMAT!r})"
    )
    require(attrs.get("format") == FORMAT, f"{path} {foreign}. Pack it: lab data pack --help")
    versions = f"version {attrs.get('version')} of the layout, this lab reads {VERSION}"
    require(
        attrs.get("version") == VERSION, f"{path} has {versions}. Update the project: copier update"
    )
    require_undamaged(attrs.get("complete") == 1, path, " was never finished (complete is not 1)")


def _arrays(path: Path, group: Mapping[str, Any], size: int) -> dict[str, Array]:
    arrays = {}
    repack = f"h5repack -l CONTI -f NONE '{path}' '{path.stem}-contiguous.h5'"
    for name in sorted(group):
        dataset = group[name]  # by name: items() gives None for a damaged object
        where, attrs = f"{path}: {dataset.name}", _plain(dataset.attrs)
        check_numbers(where, dataset.dtype)
        stored_apart = dataset.chunks is not None or dataset.is_virtual or dataset.external
        require(
            not stored_apart, f"{where} is chunked or elsewhere, so not mappable. Use: {repack}"
        )
        sha256, offset = str(attrs.pop("sha256", "")), dataset.id.get_offset() or 0
        array = arrays[name] = Array(name, dataset.dtype, dataset.shape, offset, sha256, attrs)
        require_undamaged(array.n_bytes == 0 or offset, path, f": {dataset.name} was never written")
        end = offset + array.n_bytes
        require_undamaged(
            end <= size,
            path,
            f": {dataset.name} ends at byte {end}, the file at {size} bytes: it was cut short",
        )
    return arrays


def _check_fields(found: Layout) -> None:
    require_undamaged(found.n > 0 and found.fields, found.path, " holds no samples")
    for name, array in found.fields.items():
        counted = found.arrays.get(name + OFFSETS)
        samples = counted.shape[0] - 1 if counted else array.shape[0]
        require_undamaged(
            samples == found.n,
            found.path,
            f": field {name!r} has {samples} samples, expected {found.n}",
        )
        if counted:
            offsets = found.map(counted)
            fits = offsets.dtype == np.int64 and offsets[0] == 0 and offsets[-1] == array.shape[0]
            require_undamaged(fits, found.path, f": {name + OFFSETS} does not fit {name!r}")


def _check_splits(found: Layout) -> None:
    for name, split in found.splits.items():
        rows, where = found.map(split), f": split {name!r}"
        require_undamaged(
            hashlib.sha256(rows).hexdigest() == split.sha256,
            found.path,
            f"{where} does not match its sha256",
        )
        inside = rows.dtype == np.int64 and (rows.size == 0 or 0 <= rows[0] <= rows[-1] < found.n)
        require_undamaged(inside, found.path, f"{where} has rows outside 0..{found.n - 1}")


def _why_unreadable(path: Path, size: int, error: Exception) -> str:
    text, again = str(error), AGAIN.format(path.stem)
    if cut := re.search(r"truncated file: eof = (\d+).*stored_eof = (\d+)", text):
        return f"{path} is cut short: {cut[1]} bytes found, {cut[2]} expected. {again}"
    if "signature not found" in text:
        with open(path, "rb") as file:
            head = file.read(8)
        return f"{path} is no HDF5 file: {size} bytes that begin with {head!r}, expected {MAGIC!r}. {again}"
    if "already open for write" in text or "consistency flags" in text:
        return f"{path} is open for writing, or its writer was killed: it is not complete. {again}"
    if "locking flag" in text:
        return f"{path} is open in this process through h5py. Close it there first."
    if isinstance(error, OSError) and error.errno:
        return f"{path} cannot be read: {os.strerror(error.errno)}. Check its permissions and disk."
    return f"{path} ({size} bytes) is damaged: {text}. {again}"


def byte_progress(what: str, n_bytes: int) -> tqdm:
    """A progress bar in a terminal, once the work has taken a second."""
    return tqdm(
        desc=what, total=n_bytes, unit="B", unit_scale=True, delay=1, leave=False, disable=None
    )
