"""Opens .npy, .npz and .h5 files of whole arrays as memory maps."""

import math
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..file.atomic_file import explain_write_errors
from ..file.errors import DataFileError
from ..file.joined import JoinedRows
from ..file.layout import FORMAT, check_type
from .collect import Field, blocks_of, check_name, count_samples
from .sources import Source, hint

Arrays = dict[str, np.ndarray]  # by the names of their fields; (N, ...) each
Parts = dict[str | None, Arrays]  # by splits; None: not split yet


def open_arrays(sources: Sequence[Source], kind: str, directory: Path) -> Parts:
    """Memory maps of what the sources hold: .npy files by their stems, others by the names in them.

    Args:
        kind: arrays or hdf5.
        directory: for what cannot be mapped as it is: packed, compressed, chunked.
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


def join_parts(target: Path, parts: Parts) -> dict[str, Field]:
    """The parts one after another."""
    forms = {}
    for split, arrays in parts.items():
        count_samples(target, arrays)
        kinds = {name: (array.dtype, array.shape[1:]) for name, array in arrays.items()}
        listed = (f"{name} {array.dtype} {[*array.shape]}" for name, array in arrays.items())
        forms[f"{split} has {', '.join(listed)}"] = kinds
    for form, kinds in forms.items():
        if kinds != next(iter(forms.values())):
            raise DataFileError(
                f"{target}: the splits differ. {next(iter(forms))}; {form}. "
                "They need the same fields, types and shapes."
            )
    first = next(iter(parts.values()))
    if len(parts) == 1:
        return {**first}
    return {name: JoinedRows([arrays[name] for arrays in parts.values()]) for name in first}


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
            parts = _datasets_of_splits(source, file)
            for split, part in parts.items():
                for name, dataset in part.items():
                    part[name] = _read_dataset(dataset, unpacked / f"{split}-{name}")
            return parts
    except DataFileError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        raise DataFileError(
            f"{path} cannot be read as HDF5: {error}. Copy it again, or remove links "
            f"to nothing.{hint(path, 'hdf5')}"
        ) from error


def _datasets_of_splits(source: Source, file: Any) -> dict[str | None, dict[str, Any]]:
    members = {**file}
    datasets = {name: item for name, item in members.items() if hasattr(item, "dtype")}
    if datasets and len(datasets) == len(members):
        return {source.split: datasets}
    splits = {"train", "val", "test"}.difference(datasets)
    parts = {name: {**group} for name, group in members.items() if name in splits}
    are_flat = all(hasattr(item, "dtype") for part in parts.values() for item in part.values())
    if not parts or len(parts) < len(members) or not are_flat or source.split is not None:
        listed = ", ".join(members) or "nothing"
        raise DataFileError(
            f"{source.path} holds {listed}. Expected data sets such as x and y; or groups called "
            "train, val or test, with the same data sets in each. For others write samples() in data.py."
        )
    return parts


CF_SCALES = ("scale_factor", "add_offset")
CF_FILLS = ("_FillValue", "missing_value")
CF_RANGES = ("valid_min", "valid_max", "valid_range", "_Unsigned")


def _read_dataset(dataset: Any, copy: Path) -> np.ndarray:
    """The values of a data set, (N, ...): a memory map of its file where that holds the same bytes, else
    a `copy` that h5py reads.
    """
    path = Path(dataset.file.filename)  # another file where a link leads to it
    where = f"{path}: {dataset.name}"
    check_type(where, dataset.dtype.newbyteorder("="))
    if not dataset.shape:
        raise DataFileError(f"{where} is a single value, expected one row per sample.")
    _require_sources(where, dataset)
    if "enum" in (dataset.dtype.metadata or {}):
        print(f"  {where}: the names of its numbers are left out: {dataset.dtype.metadata['enum']}")
    mapped = _map_dataset(path, dataset)
    if mapped is None:
        mapped = _stored(path, copy, blocks_of(dataset), dataset.dtype, dataset.shape)
    values = _as_matlab_has_it(where, dataset, mapped)
    return _with_cf_attributes(where, dataset, values, copy.with_suffix(".values"))


def _map_dataset(path: Path, dataset: Any) -> np.ndarray | None:
    """A memory map of a data set that lies in one piece in `path`; None of others."""
    import h5py

    offset = dataset.id.get_offset()
    same_type = dataset.id.get_type().equal(h5py.h5t.py_create(dataset.dtype))
    is_apart = dataset.chunks is not None or dataset.is_virtual or dataset.external
    if is_apart or not offset or not same_type or not dataset.size:
        return None
    mapped = np.asarray(np.memmap(path, dataset.dtype, "r", offset, dataset.shape))
    for block in (slice(0, 1), slice(len(mapped) - 1, len(mapped))):
        if mapped[block].tobytes() != dataset[block].tobytes():
            return None
    return mapped


def _require_sources(where: str, dataset: Any) -> None:
    """Makes sure that all values of a data set are stored somewhere: HDF5 reads others as zeros."""
    folder = Path(dataset.file.filename).parent
    if dataset.is_virtual:
        sources = dataset.virtual_sources()
        for source in sources:
            _require_virtual_source(where, dataset, source, folder)
        n_mapped = sum(source.vspace.get_select_npoints() for source in sources)
        if n_mapped < dataset.size:
            raise DataFileError(
                f"{where} is a virtual data set of {dataset.size} values, of which {n_mapped} lie in "
                "a file. The others would be fill values. Map all of them."
            )
    elif not dataset.external and dataset.size:
        sides = dataset.chunks or dataset.shape
        n_parts = math.prod(-(-n // side) for n, side in zip(dataset.shape, sides, strict=True))
        n_written = dataset.id.get_num_chunks() if dataset.chunks else dataset.id.get_storage_size()
        if n_written < n_parts:
            raise DataFileError(
                f"{where}: {n_written} of its {n_parts} parts were ever written. HDF5 reads the others as "
                f"{dataset.fillvalue}: if that is right, write it with h5py, such as x[...] = x[...]"
            )
    for name, offset, n_bytes in dataset.external or ():
        file = next((file for file in (Path(name), folder / name) if file.is_file()), None)
        n_there = file.stat().st_size - offset if file else 0
        n_wanted = min(n_bytes, dataset.nbytes)
        if n_there < n_wanted:
            raise DataFileError(
                f"{where} takes {n_wanted} bytes of {name}, which has {max(0, n_there)} of them. "
                "Copy that file again."
            )


def _require_virtual_source(where: str, dataset: Any, source: Any, folder: Path) -> None:
    import h5py

    name = source.file_name
    files = [Path(dataset.file.filename)] if name == "." else [folder / name, Path(name)]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        raise DataFileError(
            f"{where} is a virtual data set with values in {name}, which is not there. Copy it next "
            "to this file: HDF5 would read zeros."
        )
    with h5py.File(file, "r", locking=False) as opened:
        found = opened.get(source.dset_name)
        if not isinstance(found, h5py.Dataset):
            raise DataFileError(
                f"{where} has values in {source.dset_name} of {file}, which is no data set there. "
                "Copy that file again."
            )
        last = source.src_space.get_select_bounds()[1] if source.src_space.shape else ()
        is_short = any(end >= n for end, n in zip(last, found.shape, strict=False))
        if is_short or found.size < source.vspace.get_select_npoints():
            raise DataFileError(
                f"{where} takes more values of {found.name} in {file} than it has: {found.shape}. "
                "Copy that file again."
            )
        _require_sources(f"{file}: {found.name}", found)


def _as_matlab_has_it(where: str, dataset: Any, values: np.ndarray) -> np.ndarray:
    """The axes in MATLAB's order, which its files hold the other way round; a vector has one axis."""
    kind = dataset.attrs.get("MATLAB_class")
    if kind is None:
        return values
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    if kind in ("char", "cell", "struct") or "MATLAB_empty" in dataset.attrs:
        raise DataFileError(f"{where} is a MATLAB {kind}. Save it there as an array of numbers.")
    values = values.T
    if values.ndim == 2 and 1 in values.shape:
        values = values.reshape(-1)
    print(f"  {where}: written by MATLAB, so its axes are as there: {[*values.shape]}")
    return values


@np.errstate(all="ignore")  # of a fill value beyond the type
def _with_cf_attributes(where: str, dataset: Any, values: np.ndarray, copy: Path) -> np.ndarray:
    """The values that a file of climate data means (scale_factor, add_offset, _FillValue), as float64.

    A missing value becomes NaN.
    """
    stored, wide = values.dtype, np.result_type(values.dtype, np.float64)
    types: dict[str, np.dtype] = {}
    types |= dict.fromkeys(CF_SCALES, wide) | dict.fromkeys(CF_FILLS, stored)
    given = {name: np.ravel(dataset.attrs[name]) for name in types if name in dataset.attrs}
    unread = [name for name in CF_RANGES if name in dataset.attrs]
    unread += [name for name, value in given.items() if not _holds(types[name], value)]
    if unread:
        raise DataFileError(
            f"{where}, {stored}, has the attribute {unread[0]} {dataset.attrs[unread[0]]}, which is not read "
            "here. Apply it first, such as with xarray, or in samples() of data.py."
        )
    numbers = {name: value.astype(types[name])[0] for name, value in given.items()}
    fills = [numbers[name] for name in CF_FILLS if name in numbers]
    n_missing = sum(int(np.isin(block, fills).sum()) for block in blocks_of(values)) if fills else 0
    scale, offset = numbers.get("scale_factor", 1), numbers.get("add_offset", 0)
    if (scale, offset, n_missing) == (1, 0, 0):
        return values

    def meant(block: np.ndarray) -> np.ndarray:
        is_missing, numbers = np.isin(block, fills), block.astype(wide)
        if stored.kind in "iu" and (np.abs(numbers[~is_missing]) >= 2**53).any():
            raise DataFileError(f"{where}: float64 does not hold its numbers. Subtract an origin.")
        return np.where(is_missing, np.nan, numbers * scale + offset)

    said = ", ".join(f"{name} {value}" for name, value in numbers.items())
    print(f"  {where}: float64 values by its attributes {said}; {n_missing} are missing, now NaN")
    return _stored(Path(where), copy, map(meant, blocks_of(values)), wide, values.shape)


def _holds(dtype: np.dtype, given: np.ndarray) -> bool:
    """Whether an attribute is one number, which `dtype` has, too; a float is rounded as its values are."""
    is_number = given.size == 1 and {dtype.kind, given.dtype.kind} <= {*"iuf"}
    return is_number and (dtype.kind == "f" or bool(given.astype(dtype) == given))


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
