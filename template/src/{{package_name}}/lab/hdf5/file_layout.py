# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Where each array of a data file lies. The file is opened, checked and closed again: no HDF5 handle outlives
`layout`, so what comes after (memory maps at known offsets) is safe under fork, spawn, threads and DDP.

    attrs  format, version, n, complete=1 (written last), created, command, source, seed, packages ...
    /data/x           (N, ...)  contiguous, no filters, native byte order
    /data/wav         (sum L,)  ragged: one flat array, sample i is wav[offsets[i]:offsets[i + 1]]
    /data/wav_offsets (N + 1,)  int64
    /splits/train     (n,)      int64, sorted, disjoint from the other splits
every array with its sha256 as an attribute.
"""

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ..errors import LabError, nearest
from ..project import Project, resolve_paths

FORMAT, VERSION = "lab-hdf5", 1
OFFSETS = "_offsets"
MAGIC = b"\x89HDF\r\n\x1a\n"  # how every HDF5 file begins


class DataFileError(LabError, ValueError):
    """A data file, or what should become one, is not as it must be: path, found, expected, what to do."""


def require(ok: Any, message: str) -> None:
    """Raises DataFileError(message) unless `ok`."""
    if not ok:
        raise DataFileError(message)


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

    def is_ragged(self, name: str) -> bool:
        return name + OFFSETS in self.arrays

    def split(self, name: str) -> Array:
        return self._known("split", name, self.splits)

    def field(self, name: str) -> Array:
        return self._known("field", name, self.fields)

    def _known(self, kind: str, name: str, there: dict[str, Array]) -> Array:
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
        found = identity(self.path)
        change = f"another file now: {found[0]} bytes, {self.identity[0]} when it was opened"
        require(found == self.identity, f"{self.path} is {change}. Start again to read the new one.")
        return np.asarray(np.memmap(self.path, array.dtype, "r", array.offset, array.shape))


def identity(path: Path) -> tuple[int, int]:
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


def layout(path: str | Path) -> Layout:
    """Opens `path`, checks its structure and the hashes of its splits, and closes it (a few milliseconds).

    Raises:
        DataFileError: missing, cut short, damaged, unfinished, foreign, or stored so that it cannot be
        mapped.
    """
    path = Path(path)
    before = identity(path)
    try:
        with h5py.File(path, "r", locking=False) as file:
            attrs = _plain(file.attrs)
            _check_root(path, attrs)
            arrays, splits = (_arrays(path, file[group], before[0]) for group in ("data", "splits"))
            n = int(attrs["n"])
    except (OSError, KeyError, RuntimeError, AttributeError, TypeError) as error:
        raise DataFileError(_why_unreadable(path, before[0], error)) from error
    found = Layout(path, before, n, arrays, splits, attrs)
    _check_lengths(found)
    _check_splits(found)
    return found


def _plain(attrs: h5py.AttributeManager) -> dict[str, Any]:
    return {key: value.item() if isinstance(value, np.generic) else value for key, value in attrs.items()}


def _check_root(path: Path, attrs: dict[str, Any]) -> None:
    foreign = f"was not written by `lab data pack` (format {attrs.get('format')!r}, expected {FORMAT!r})"
    require(attrs.get("format") == FORMAT, f"{path} {foreign}. Pack it: lab data pack --help")
    versions = f"version {attrs.get('version')} of the layout, this lab reads {VERSION}"
    require(attrs.get("version") == VERSION, f"{path} has {versions}. Update the project: copier update")
    again = f"Pack it again: lab data pack {path.stem}"
    require(attrs.get("complete") == 1, f"{path} was never finished (complete is not 1). {again}")


def _arrays(path: Path, group: h5py.Group, size: int) -> dict[str, Array]:
    arrays = {}
    again = f"Copy the file again, or pack it again: lab data pack {path.stem}"
    for name in sorted(group):
        dataset = group[name]  # by name: items() gives None for a damaged object
        where, dtype = f"{path}: {dataset.name}", dataset.dtype
        numbers = "expected numbers in this machine's byte order; texts go into a ragged uint8 field"
        require(dtype.kind in "biufc" and dtype.isnative, f"{where} has type {dtype}, {numbers}.")
        repack = f"h5repack -l CONTI -f NONE '{path}' '{path.stem}-contiguous.h5'"
        stored_apart = dataset.chunks is not None or dataset.is_virtual or dataset.external
        require(not stored_apart, f"{where} is chunked or elsewhere, so not mappable. Use: {repack}")
        attrs = _plain(dataset.attrs)
        sha256, offset = str(attrs.pop("sha256", "")), dataset.id.get_offset() or 0
        array = arrays[name] = Array(name, dtype, dataset.shape, offset, sha256, attrs)
        require(array.n_bytes == 0 or offset, f"{where} was never written. {again}")
        end = offset + array.n_bytes
        require(end <= size, f"{where} ends at byte {end}, the file at {size}: it was cut short. {again}")
    return arrays


def _check_lengths(found: Layout) -> None:
    require(found.n > 0 and found.fields, f"{found.path} holds no samples. Pack it again.")
    for name in found.fields:
        ragged = found.is_ragged(name)
        samples = found.arrays[name + OFFSETS].shape[0] - 1 if ragged else found.arrays[name].shape[0]
        counts = f"field {name!r} has {samples} samples, expected {found.n}"
        require(samples == found.n, f"{found.path}: {counts}. Pack it again.")
        if ragged:
            offsets, values = found.map(found.arrays[name + OFFSETS]), found.arrays[name].shape[0]
            fits = offsets.dtype == np.int64 and offsets[0] == 0 and offsets[-1] == values
            require(fits, f"{found.path}: {name + OFFSETS} does not fit {name!r}: damaged. Pack it again.")


def _check_splits(found: Layout) -> None:
    for name, split in found.splits.items():
        rows, where = found.map(split), f"{found.path}: split {name!r}"
        intact = hashlib.sha256(rows).hexdigest() == split.sha256
        require(intact, f"{where} does not match its sha256: damaged. Copy the file again, or pack it again.")
        inside = rows.size == 0 or 0 <= rows[0] <= rows[-1] < found.n
        inside &= rows.dtype == np.int64
        require(inside, f"{where} has rows outside 0..{found.n - 1}. Pack it again.")


def _why_unreadable(path: Path, size: int, error: Exception) -> str:
    text, again = str(error), f"Copy it again, or pack it again: lab data pack {path.stem}"
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


def find(path: str | Path, search: Sequence[str | Path]) -> Path:
    """`path` in the first directory of `search` that has it; an absolute path is taken as it is.

    Raises:
        DataFileError: no directory has it; lists them and the nearest name there is.
    """
    path = Path(os.path.expandvars(path)).expanduser()
    if path.is_absolute():
        return path
    try:
        root = Project.find().root
    except LabError:  # outside of a project, relative directories lie here
        root = Path.cwd()
    directories = resolve_paths({"runs": ".", "data": [str(entry) for entry in search]}, root)["data"]
    for directory in directories:
        if (directory / path).exists():
            return directory / path
    there = [other.name for directory in directories for other in directory.glob("*.h5")]
    places = ", ".join(map(str, directories)) or "an empty search path"
    found = f"no data file {path} in {places}{nearest(path.name, there)}"
    raise DataFileError(f"{found}. Make it with: lab data pack {path.stem}")
