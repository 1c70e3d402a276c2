# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Collects samples that come one at a time in raw files, so that memory holds one sample."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from .file_layout import BLOCK_BYTES, require
from .writer import RaggedField, cannot_be_written

NOT_FIELDS = ("key", "split", "group")  # of a sample: told to the splitter, not stored


def write_raw_fields(
    path: Path,
    scratch: Path,
    samples: Iterable[Mapping[str, Any]],
    tell: Callable[[Mapping], Any],
    attrs: Mapping,
) -> dict[str, np.ndarray | RaggedField]:
    """Fields from `samples`, dicts of arrays that come one at a time (see `H5DataModule.samples`), by way of raw files in
    `scratch`. 1-D fields that differ in length become ragged. Memory holds one sample and a few numbers per sample,
    however large the source is. Each sample is told to `tell`; `attrs`: see `write_fields`.

    Raises:
        DataFileError: samples that differ in fields, type or shape, or no space for them beside `path`.
    """
    like: dict[str, np.ndarray] = {}  # the first sample
    with ExitStack() as stack:
        for i, sample in enumerate(samples):
            values = {
                name: np.asarray(value) for name, value in sample.items() if name not in NOT_FIELDS
            }
            where = f"{path}: sample {sample.get('key', i)}"
            with cannot_be_written(path):
                if i == 0:
                    like, lengths = values, {name: [] for name in values}
                    files = {
                        name: stack.enter_context(open(scratch / name, "wb", BLOCK_BYTES))
                        for name in values
                    }
                require(
                    values.keys() == like.keys(),
                    f"{where} has the fields {[*values]}, others {[*like]}.",
                )
                for name, value in values.items():
                    _check_like(f"{where}: {name!r}", value, like[name])
                    lengths[name].append(value.size)
                    files[name].write(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
            tell(sample)
        with cannot_be_written(path):
            stack.close()
    ragged = {
        name for name in like if "ragged" in attrs.get(name, {}) or len(set(lengths[name])) > 1
    }
    return {
        name: _mapped(scratch / name, one, np.array(lengths[name]), name in ragged)
        for name, one in like.items()
    }


def _check_like(where: str, value: np.ndarray, like: np.ndarray) -> None:
    fits = value.shape == like.shape or (value.ndim == like.ndim == 1)
    fits &= value.dtype == like.dtype and value.dtype.kind in "biufc"
    kind = f"of type {value.dtype} {list(value.shape)}, expected {like.dtype} {list(like.shape)}"
    remedy = (
        "Convert it to numbers. Only 1-D fields may vary in length; give images a target --size."
    )
    require(fits, f"{where} is {kind}. {remedy}")


def _mapped(
    file: Path, like: np.ndarray, lengths: np.ndarray, ragged: bool
) -> np.ndarray | RaggedField:
    values = (
        np.asarray(np.memmap(file, like.dtype, "r")) if lengths.any() else np.empty(0, like.dtype)
    )
    if not ragged:
        return values.reshape(len(lengths), *like.shape)
    ends = lengths.cumsum()
    return RaggedField(
        like.dtype, lengths, lambda row: values[ends[row] - lengths[row] : ends[row]]
    )
