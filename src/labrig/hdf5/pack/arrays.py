"""Opens .npy, .npz and .h5 files of whole arrays as memory maps."""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..file.atomic_file import explain_write_errors
from ..file.errors import DataFileError
from ..file.layout import BLOCK_BYTES, FORMAT, check_type
from .columns import check_name, count_samples
from .sources import Source, hint

Arrays = dict[str, np.ndarray]  # by the names of their fields; (N, ...) each
Parts = dict[str | None, Arrays]  # by splits; None: not split yet


def open_arrays(sources: Sequence[Source], kind: str, directory: Path) -> Parts:
    """Memory maps of what the sources hold: .npy files by their stems, others by the names in them.

    Args:
        kind: arrays or hdf5.
        directory: for what cannot be mapped as it is: packed, compressed, chunked.

    Raises:
        DataFileError: a file is damaged, holds something else than numbers, or a field twice.
    """
    parts: Parts = {}
    for number, source in enumerate(sources):
        unpacked = directory / f".source-{number}"
        unpacked.mkdir()
        open_source = _open_hdf5 if kind == "hdf5" else _open_numpy
        for split, arrays in open_source(source, unpacked).items():
            part = parts.setdefault(split, {})
            for name, array in arrays.items():
                if name in part:
                    raise DataFileError(
                        f"{source.path}: field {name!r} is in two sources. Name only one of them."
                    )
                part[name] = array
    return parts


def join_parts(target: Path, parts: Parts, directory: Path) -> Arrays:
    """The parts one after another, each field as one memory map.

    Raises:
        DataFileError: parts that differ in fields, type or shape.
    """
    if len(parts) == 1:
        return next(iter(parts.values()))
    first_split, first = next(iter(parts.items()))
    for split, arrays in parts.items():
        count_samples(target, arrays)
        if {name: _form(array) for name, array in arrays.items()} != {
            name: _form(array) for name, array in first.items()
        }:
            raise DataFileError(
                f"{target}: the splits differ. {first_split} has {_listed(first)}; "
                f"{split} has {_listed(arrays)}. They need the same fields, types and shapes."
            )
    joined = {}
    for name, array in first.items():
        n_rows = sum(len(arrays[name]) for arrays in parts.values())
        blocks = (block for arrays in parts.values() for block in _blocks(arrays[name]))
        path = directory / f".joined-{name}"
        joined[name] = _stored(target, path, blocks, array.dtype, (n_rows, *array.shape[1:]))
    return joined


def _form(array: np.ndarray) -> tuple[np.dtype, tuple[int, ...]]:
    return array.dtype, array.shape[1:]


def _listed(arrays: Mapping[str, np.ndarray]) -> str:
    return ", ".join(f"{name} {array.dtype} {[*array.shape]}" for name, array in arrays.items())


def _open_numpy(source: Source, unpacked: Path) -> Parts:
    path = source.path
    try:
        if path.suffix != ".npz":
            return {source.split: {path.stem: np.load(path, mmap_mode="r", allow_pickle=False)}}
        arrays = {}
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                name = member.removesuffix(".npy")
                check_name(f"{path}: field {name!r}", name)
                if name in arrays:
                    raise DataFileError(f"{path} holds field {name!r} twice. Save it again.")
                archive.extract(member, unpacked)
                arrays[name] = np.load(unpacked / member, mmap_mode="r", allow_pickle=False)
        return {source.split: arrays}
    except DataFileError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataFileError(
            f"{path} cannot be read as .npy or .npz of numbers: {error}. "
            f"Save it with numpy.save.{hint(path, 'arrays')}"
        ) from error


def _open_hdf5(source: Source, unpacked: Path) -> Parts:
    """The data sets of a file: at its top, or in groups with the same ones, one for each split."""
    import h5py  # here, so that a mistyped command is answered without it

    path = source.path
    try:
        with h5py.File(path, "r", locking=False) as file:
            if file.attrs.get("format") == FORMAT:
                raise DataFileError(
                    f"{path} is packed already. Copy it to a directory of paths.data."
                )
            parts = {}
            for split, datasets in _datasets_of_splits(source, file).items():
                parts[split] = {
                    name: _map_dataset(path, dataset, unpacked / f"{split}-{name}")
                    for name, dataset in datasets.items()
                }
            return parts
    except DataFileError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        raise DataFileError(
            f"{path} cannot be read as HDF5: {error}. Copy it again.{hint(path, 'hdf5')}"
        ) from error


def _datasets_of_splits(source: Source, file: Any) -> dict[str | None, dict[str, Any]]:
    members = {name: file[name] for name in file}
    datasets = {name: item for name, item in members.items() if hasattr(item, "dtype")}
    groups = {name: item for name, item in members.items() if name not in datasets}
    if datasets and not groups:
        return {source.split: datasets}
    fields = [sorted(group) for group in groups.values()]
    same = groups and not datasets and all(names == fields[0] for names in fields)
    flat = same and all(
        hasattr(group[name], "dtype") for group in groups.values() for name in group
    )
    if not flat or source.split is not None:
        listed = ", ".join(members) or "nothing"
        raise DataFileError(
            f"{source.path} holds {listed}. Expected data sets such as x and y; or groups such as "
            "train and val, with the same data sets in each. For others write samples() in data.py."
        )
    return {name: {field: group[field] for field in group} for name, group in groups.items()}


def _map_dataset(path: Path, dataset: Any, copy: Path) -> np.ndarray:
    """A memory map of a data set; of a `copy` when it does not lie in one piece."""
    name = dataset.name.rsplit("/", 1)[-1]
    where = f"{path}: {dataset.name}"
    check_name(where, name)
    check_type(where, dataset.dtype.newbyteorder("="))
    if not dataset.shape:
        raise DataFileError(f"{where} is a single value, expected one row per sample.")
    offset = dataset.id.get_offset()
    is_one_piece = dataset.chunks is None and not dataset.is_virtual and not dataset.external
    if is_one_piece and offset:
        return np.asarray(np.memmap(path, dataset.dtype, "r", offset, dataset.shape))
    return _stored(path, copy, _blocks(dataset), dataset.dtype, dataset.shape)


def _blocks(values: Any) -> Iterator[np.ndarray]:
    """The rows of an array or a data set, about BLOCK_BYTES at once."""
    row_bytes = values.nbytes // max(1, len(values))
    step = max(1, BLOCK_BYTES // max(1, row_bytes))
    for start in range(0, len(values), step):
        yield values[start : start + step]


def _stored(
    target: Path, path: Path, blocks: Iterator[np.ndarray], dtype: np.dtype, shape: tuple[int, ...]
) -> np.ndarray:
    """A memory map of `blocks`, written to `path` (by write(): a map ends with SIGBUS when the
    disk is full).
    """
    with open(path, "wb") as file:
        for block in blocks:
            with explain_write_errors(target):
                file.write(np.ascontiguousarray(block).reshape(-1).view(np.uint8).data)
        with explain_write_errors(target):
            file.flush()
    if path.stat().st_size == 0:
        return np.empty(shape, dtype)
    return np.asarray(np.memmap(path, dtype, "r", 0, shape))
