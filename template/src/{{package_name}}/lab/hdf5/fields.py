# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Readers of one field of a batch of samples, from the memory map."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from .file_layout import OFFSETS, DataFileError, Layout, require
from .readers import decode_image

LENGTHS = "_lengths"


@dataclass
class Batch:
    """What is read at once: `indices` into the split; in a planned order also the `end` of the step in samples of all
    ranks since the epoch began, and the `entropy` that seeds whatever is random in this batch."""

    indices: np.ndarray
    end: int = 0
    entropy: tuple[int, ...] | None = None

    @cached_property
    def rng(self) -> np.random.Generator:
        """Draws the same numbers for this batch whenever, in whichever process it is made. Without a plan it follows
        torch.manual_seed and the seed of a DataLoader's worker."""
        return np.random.default_rng(self.entropy or torch.randint(2**62, ()).item())


class Mapped:
    """Leaves its memory maps behind when it is pickled: a pickled map would be the whole array."""

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in self.__dict__.items()
            if not isinstance(value, np.ndarray)
        }


class FieldReader(Mapped):
    """Reads rows of one field: `read(rows, batch)` gives an array (B, ...), never a view of the map, which is made at the
    first call in each process."""

    def __init__(self, layout: Layout, name: str) -> None:
        self.layout, self.name = layout, name

    @cached_property
    def values(self) -> np.ndarray:
        return self.layout.map(self.layout.known("field", self.name))

    def read(self, rows: np.ndarray, batch: Batch) -> np.ndarray:
        return self.values.take(rows, 0)


class RaggedReader(FieldReader):
    """Samples of varying length, cropped or padded with zeros to `shape` (None: the longest of the
    batch)."""

    def __init__(self, layout: Layout, name: str, shape: Any, crop: str) -> None:
        super().__init__(layout, name)
        self.shape, self.crop = shape, crop

    @cached_property
    def offsets(self) -> np.ndarray:
        return self.layout.map(self.layout.arrays[self.name + OFFSETS])

    def spans(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First value and number of values of each sample."""
        first, stop = self.offsets.take(rows), self.offsets.take(rows + 1)
        intact = (stop >= first).all() and stop.max(initial=0) <= len(self.values)
        check = f"lab data verify {self.layout.path}"
        require(intact, f"{self.layout.path}: {self.name + OFFSETS} are damaged. See: {check}")
        return first, stop - first

    def read(self, rows: np.ndarray, batch: Batch) -> np.ndarray:
        first, lengths = self.spans(rows)
        length = int(lengths.max(initial=0)) if self.shape is None else self.shape
        if self.crop == "random" and (spare := np.maximum(lengths - length, 0)).any():
            first = first + batch.rng.integers(0, spare, endpoint=True)
        out = np.zeros((len(rows), length), self.values.dtype)
        for row, start, size in zip(
            out, first.tolist(), np.minimum(lengths, length).tolist(), strict=True
        ):
            row[:size] = self.values[start : start + size]
        return out


class Lengths(RaggedReader):
    """Valid values (int64) of each sample of a ragged field, after the crop."""

    def read(self, rows: np.ndarray, batch: Batch) -> np.ndarray:
        lengths = self.spans(rows)[1]
        return lengths if self.shape is None else np.minimum(lengths, self.shape)


class EncodedImages(RaggedReader):
    """JPEG, PNG ... bytes decoded to RGB uint8 (B, 3, height, width): scaled to cover that, then cropped."""

    def read(self, rows: np.ndarray, batch: Batch) -> np.ndarray:
        out = np.empty((len(rows), 3, *self.shape), np.uint8)
        where = (
            batch.rng.random((len(rows), 2))
            if self.crop == "random"
            else np.full((len(rows), 2), 0.5)
        )
        for i, (start, size) in enumerate(zip(*self.spans(rows), strict=True)):
            try:
                image_HWC = decode_image(
                    self.values[start : start + size].tobytes(), self.shape, tuple(where[i])
                )
            except Exception as error:  # whatever a decoder raises for damaged bytes
                what = (
                    f"{self.layout.path}: image {rows[i]} of field {self.name!r} cannot be decoded"
                )
                raise DataFileError(
                    f"{what} ({error}). See: lab data verify {self.layout.path}"
                ) from error
            out[i] = image_HWC.transpose(2, 0, 1)
        return out


def field_reader(layout: Layout, name: str, shapes: Mapping[str, Any], crop: str) -> FieldReader:
    """The reader that fits how field `name` is stored and the shape asked for."""
    base, where = name.removesuffix(LENGTHS), f"{layout.path}: field {name!r}"
    shape = shapes.get(base)
    if name not in layout.fields and layout.is_ragged(base):
        return Lengths(layout, base, shape, crop)
    stored = layout.known("field", name)
    if not layout.is_ragged(name):
        require(
            shape is None,
            f"{where} has one shape, {stored.shape[1:]}; shapes are for ragged fields.",
        )
        return FieldReader(layout, name)
    if "encoding" in stored.attrs:
        pair = isinstance(shape, Sequence) and len(shape) == 2
        require(
            pair,
            f"{where} holds encoded images; give their size: shapes={{{name!r}: (height, width)}}",
        )
        return EncodedImages(layout, name, tuple(map(int, shape)), crop)
    number = shape is None or (isinstance(shape, int) and shape > 0)
    require(
        number, f"{where} is one-dimensional; its shape is a number of values, found {shape!r}."
    )
    return RaggedReader(layout, name, shape, crop)
