# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Packs samples that come one after the other: first to raw files beside the target, then in random order
into it.

Memory holds one sample, one block, and a few numbers per sample, however large the source is.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .file_layout import DataFileError
from .split import as_given, by_group, by_ratio
from .writer import BLOCK_BYTES, Column, cannot_write, ragged_columns, rows_per_block, write_columns

NOT_FIELDS = ("split", "group")


@dataclass
class Spooled:
    """One field on its way: its values lie one after the other in `file`, sample i has `shapes[i]`."""

    name: str
    dtype: np.dtype
    file: BinaryIO
    shape: tuple[int, ...]
    lengths: list[int] = field(default_factory=list)


def pack_samples(
    path: Path,
    samples: Iterable[Mapping[str, Any]],
    *,
    ratios: Mapping[str, float],
    seed: int,
    attrs: Mapping[str, Mapping[str, Any]] | None = None,
    **provenance: Any,
) -> Path:
    """Writes `samples` (a dict of arrays each; see `H5DataModule.samples`) to `path`, rows in a seeded random
    order.

    A field whose samples are one-dimensional and differ in length becomes ragged. `attrs` are attributes per
    field.

    Raises:
        DataFileError: samples that differ in fields, type or shape; and as `write`. Nothing is left on the
        disk.
    """
    path = Path(path)
    directory = path.with_name(f".{path.name}.{os.getpid()}.spool")
    try:
        directory.mkdir(parents=True)
        fields, split_names, groups = _spool(path, directory, samples)
        n = len(next(iter(fields.values())).lengths) if fields else 0
        order = np.random.PCG64([seed, n, 1]).random_raw(n).argsort(kind="stable")
        columns = [
            column
            for one in fields.values()
            for column in _columns(path, one, order, (attrs or {}).get(one.name, {}))
        ]
        if split_names:
            splits = as_given([split_names[row] for row in order])
        elif groups:
            splits = by_group([groups[row] for row in order], ratios, seed)
        else:
            splits = by_ratio(n, ratios, seed)
        return write_columns(path, columns, splits, {"seed": seed, **provenance})
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _spool(
    path: Path, directory: Path, samples: Iterable[Mapping[str, Any]]
) -> tuple[dict[str, Spooled], list[str], list[Any]]:
    fields: dict[str, Spooled] = {}
    split_names, groups = [], []
    try:
        for i, sample in enumerate(samples):
            values = {name: np.asarray(value) for name, value in sample.items() if name not in NOT_FIELDS}
            if not fields:
                for name, value in values.items():
                    fields[name] = Spooled(
                        name, value.dtype, open(directory / name, "wb", BLOCK_BYTES), value.shape
                    )
            _check(path, i, fields, values)
            for name, value in values.items():
                one = fields[name]
                one.lengths.append(len(value) if value.ndim else 1)
                if value.shape != one.shape:
                    one.shape = (-1,)  # ragged from now on
                one.file.write(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
            split_names += [sample["split"]] if "split" in sample else []
            groups += [sample["group"]] if "group" in sample else []
            for name, given in (("split", split_names), ("group", groups)):
                if given and len(given) != i + 1:
                    raise DataFileError(
                        f"{path}: sample {i} has no {name!r}, others do; give it for all samples or for none."
                    )
    finally:
        for one in fields.values():
            one.file.close()
    return fields, split_names, groups


def _check(path: Path, i: int, fields: Mapping[str, Spooled], values: Mapping[str, np.ndarray]) -> None:
    if set(values) != set(fields):
        raise DataFileError(
            f"{path}: sample {i} has the fields {sorted(values)}, the first one had {sorted(fields)}."
        )
    for name, value in values.items():
        one = fields[name]
        if value.dtype != one.dtype or value.dtype.kind not in "biufc":
            raise DataFileError(
                f"{path}: field {name!r} of sample {i} has type {value.dtype}; expected "
                f"{one.dtype if i else 'numbers'}. "
                "Convert it in the generator, e.g. with numpy.asarray(value, dtype)."
            )
        if value.shape != one.shape and not (value.ndim == 1 and len(one.shape) == 1):
            raise DataFileError(
                f"{path}: field {name!r} of sample {i} has shape {value.shape}, others have {one.shape}. "
                "Bring all to one shape "
                "(for images: a target size); only one-dimensional fields may vary in length."
            )


def _columns(path: Path, one: Spooled, order: np.ndarray, attrs: Mapping[str, Any]) -> list[Column]:
    file = Path(one.file.name)
    lengths = np.array(one.lengths, np.int64)
    if one.shape == (-1,):
        return ragged_columns(
            one.name,
            one.dtype,
            lengths[order],
            lambda: _shuffled_flat(file, one.dtype, lengths, order),
            dict(attrs),
        )
    shape = (len(order), *one.shape)
    return [
        Column(one.name, one.dtype, shape, lambda: _shuffled_rows(file, one.dtype, shape, order), dict(attrs))
    ]


def _shuffled_rows(
    file: Path, dtype: np.dtype, shape: tuple[int, ...], order: np.ndarray
) -> Iterator[np.ndarray]:
    if 0 in shape:
        return
    rows = np.asarray(np.memmap(file, dtype, "r", shape=shape))
    step = rows_per_block(dtype, shape)
    for start in range(0, len(order), step):
        yield rows.take(order[start : start + step], 0)


def _shuffled_flat(
    file: Path, dtype: np.dtype, lengths: np.ndarray, order: np.ndarray
) -> Iterator[np.ndarray]:
    if not lengths.sum():
        return
    flat = np.asarray(np.memmap(file, dtype, "r"))
    starts = np.cumsum(lengths) - lengths
    pieces, n_bytes = [], 0
    for row in order:
        pieces.append(flat[starts[row] : starts[row] + lengths[row]])
        n_bytes += pieces[-1].nbytes
        if n_bytes >= BLOCK_BYTES:
            yield np.concatenate(pieces)
            pieces, n_bytes = [], 0
    if pieces:
        yield np.concatenate(pieces)
