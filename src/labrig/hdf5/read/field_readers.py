"""Reads one field of a batch of samples from the memory map."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from typing import Any

import numpy as np

from ...machine.resources import cores
from ..file.errors import DataFileError
from ..file.images import Colour, Size, decode_image
from ..file.joined import JoinedRows
from ..file.layout import OFFSETS, Array, Layout, Rows
from .order import Batch

# What ends the name of a field that is computed from a ragged one
LENGTHS = "_lengths"
MASK = "_mask"
CENTRE = 0.5
# One thread copies 9 GB/s out of a map in memory, eight copy 38: near to what a bus carries.
COPYING_THREADS = 8
LARGE_BYTES = 8 << 20  # a batch from which on it pays to wake them
Shape = int | Sequence[int]


def field_of(layout: Layout, name: str) -> str:
    """The field that a mask is of; of a field of the file the name itself."""
    return name if name in layout.fields else name.removesuffix(MASK)


class PickledWithoutMaps:
    """Leaves its memory maps out when it is pickled: a pickled map would be the whole array."""

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in self.__dict__.items()
            if not isinstance(value, np.ndarray | JoinedRows)
        }


class FieldReader(PickledWithoutMaps):
    """Reads rows of one field. The map is made at the first call in each process."""

    def __init__(self, layout: Layout, name: str) -> None:
        self.layout = layout
        self.name = name
        self.is_told = False  # what is read was told ahead, see `tell_ahead`

    @cached_property
    def values(self) -> Rows:
        return self.layout.rows(self.layout.field(self.name), self.is_told)

    def read(self, rows: np.ndarray, batch: Batch) -> np.ndarray:
        """A new array (B, ...) of the samples in `rows` (B,), never a view of the map."""
        raise NotImplementedError

    def tell_ahead(self, first: int, stop: int) -> None:
        """Lets the disk begin with the samples in the rows from `first` to before `stop`."""
        self.layout.tell_ahead(self.layout.field(self.name), first, stop)


class RowReader(FieldReader):
    """Samples of one shape, each a row."""

    def read(self, rows: np.ndarray, batch: Batch) -> np.ndarray:
        return self.values.take(rows, 0)

    def read_into(self, rows: np.ndarray, out: np.ndarray) -> None:
        """Copies the samples in `rows` (B,) to `out` (B, ...), many bytes in several threads."""
        if not isinstance(self.values, np.ndarray):
            out[...] = self.values.take(rows, 0)
            return
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(self.values):
            raise IndexError(f"rows {rows.min()} to {rows.max()} of {len(self.values)}")
        values = self.values
        n_threads = min(COPYING_THREADS, cores()) if out.nbytes >= LARGE_BYTES else 1
        n_rows = max(1, -(-len(rows) // n_threads))

        def copy(start: int) -> None:
            part = slice(start, start + n_rows)
            # numpy's own check of the rows would make a copy of them
            values.take(rows[part], 0, out=out[part], mode="clip")

        if n_threads == 1:
            copy(0)
        else:
            list(copying_threads(os.getpid()).map(copy, range(0, len(rows), n_rows)))


@cache
def copying_threads(_process: int) -> ThreadPoolExecutor:
    """Those of this process: a fork has none of its parent's threads."""
    return ThreadPoolExecutor(COPYING_THREADS, "copy")


class RaggedReader(FieldReader):
    """Samples of varying length, cropped or padded with zeros to `length` values.

    Args:
        length: None: the longest sample of the batch.
        crop: `random` or `start`; or `window`: from where the batch says.
    """

    def __init__(self, layout: Layout, name: str, length: int | None, crop: str) -> None:
        super().__init__(layout, name)
        self.length = length
        self.crop = crop

    @cached_property
    def offsets(self) -> np.ndarray:
        return self.layout.map(self.layout.arrays[self.name + OFFSETS], self.is_told)

    def starts_and_lengths(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First value and number of values of each sample, (B,) int64 each."""
        starts = self.offsets.take(rows)
        stops = self.offsets.take(rows + 1)
        if (stops < starts).any() or stops.max(initial=0) > len(self.values):
            path = self.layout.path
            raise DataFileError(
                f"{path}: {self.name + OFFSETS} are damaged. See: lab data verify {path}"
            )
        return starts, stops - starts

    def tell_ahead(self, first: int, stop: int) -> None:
        self.layout.tell_ahead(self.layout.arrays[self.name + OFFSETS], first, stop + 1)
        self.layout.tell_ahead(self.layout.field(self.name), *self.offsets[[first, stop]].tolist())

    def read(self, rows: np.ndarray, batch: Batch) -> np.ndarray:
        starts, lengths = self.starts_and_lengths(rows)
        length = int(lengths.max(initial=0)) if self.length is None else self.length
        if self.crop == "random":
            spare = np.maximum(lengths - length, 0)
            if spare.any():
                starts = starts + batch.rng.integers(0, spare, endpoint=True)
        elif self.crop == "window" and batch.starts is not None:
            starts, lengths = starts + batch.starts, lengths - batch.starts
        out = np.zeros((len(rows), length), self.type_read)
        sizes = np.minimum(lengths, length)
        for sample, start, size in zip(out, starts.tolist(), sizes.tolist(), strict=True):
            sample[:size] = self.converted(self.values[start : start + size])
        return out

    @property
    def type_read(self) -> np.dtype:
        return self.values.dtype

    def converted(self, values: np.ndarray) -> np.ndarray:
        """What is read in place of some values."""
        return values


class LengthsReader(RaggedReader):
    """Number of valid values (int64) of each sample of a ragged field, after the crop."""

    def read(self, rows: np.ndarray, batch: Batch) -> np.ndarray:
        _, lengths = self.starts_and_lengths(rows)
        return lengths if self.length is None else np.minimum(lengths, self.length)

    def tell_ahead(self, first: int, stop: int) -> None:
        self.layout.tell_ahead(self.layout.arrays[self.name + OFFSETS], first, stop + 1)


class MaskReader(RaggedReader):
    """True where a ragged field has a value, False where it is NaN or padded: bool (B, length)."""

    @property
    def type_read(self) -> np.dtype:
        return np.dtype(bool)

    def converted(self, values: np.ndarray) -> np.ndarray:
        return values == values  # which NaN is not


class ImageReader(RaggedReader):
    """Decodes images to RGB uint8 (B, 3, height, width): scaled to cover `size`, then cropped."""

    def __init__(self, layout: Layout, name: str, size: Size, crop: str) -> None:
        super().__init__(layout, name, None, crop)
        self.size = size
        background = layout.field(name).attrs.get("background")
        self.background: Colour | None = None
        if background is not None:
            red, green, blue = map(int, background)
            self.background = red, green, blue

    def read(self, rows: np.ndarray, batch: Batch) -> np.ndarray:
        out = np.empty((len(rows), 3, *self.size), np.uint8)
        centres = np.full((len(rows), 2), CENTRE)
        if self.crop == "random":
            centres = batch.rng.random((len(rows), 2))
        starts, lengths = self.starts_and_lengths(rows)
        for i, row in enumerate(rows):
            encoded = self.values[starts[i] : starts[i] + lengths[i]].tobytes()
            image_HWC = self._decode(encoded, row, (centres[i, 0], centres[i, 1]))
            out[i] = image_HWC.transpose(2, 0, 1)
        return out

    def _decode(self, encoded: bytes, row: int, centre: tuple[float, float]) -> np.ndarray:
        try:
            return decode_image(encoded, self.size, centre, self.background)
        except Exception as error:  # whatever a decoder raises for damaged bytes
            path = self.layout.path
            raise DataFileError(
                f"{path}: image {row} of field {self.name!r} cannot be decoded ({error}). "
                f"See: lab data verify {path}"
            ) from error


def build_reader(layout: Layout, name: str, shapes: Mapping[str, Shape], crop: str) -> FieldReader:
    """The reader that fits how field `name` is stored and the shape asked for."""
    base = name.removesuffix(LENGTHS)
    if name not in layout.fields and layout.is_ragged(base):
        return LengthsReader(layout, base, _length(layout, base, shapes.get(base)), crop)
    base = field_of(layout, name)
    if name not in layout.fields and layout.is_ragged(base):
        length = _length(layout, base, shapes.get(base))
        if length and crop == "random":
            raise DataFileError(
                f"{layout.path}: data.shapes crops {base} at random, so {name} would be of another part. "
                f"Use data.windows: {{{base}: {length}}}"
            )
        return MaskReader(layout, base, length, crop)
    array = layout.field(name)
    shape = shapes.get(name)
    if not layout.is_ragged(name):
        if shape is not None:
            raise DataFileError(
                f"{layout.path}: field {name!r} has one shape, {array.shape[1:]}; "
                "shapes are for ragged fields."
            )
        return RowReader(layout, name)
    if is_encoded(array):
        return ImageReader(layout, name, _size(layout, name, shape), crop)
    return RaggedReader(layout, name, _length(layout, name, shape), crop)


def is_encoded(array: Array) -> bool:
    """Whether a field holds images as the bytes of their files."""
    return "encoding" in array.attrs


def _size(layout: Layout, name: str, shape: Shape | None) -> Size:
    if not isinstance(shape, Sequence) or len(shape) != 2:
        raise DataFileError(
            f"{layout.path}: field {name!r} holds encoded images; give their height and width: "
            f"data.shapes.{name}=[224,224], in Python shapes={{{name!r}: (224, 224)}}"
        )
    height, width = shape
    return int(height), int(width)


def _length(layout: Layout, name: str, shape: Shape | None) -> int | None:
    if shape is None or (isinstance(shape, int) and shape > 0):
        return shape
    raise DataFileError(
        f"{layout.path}: field {name!r} is one-dimensional; "
        f"its shape is a number of values, found {shape!r}."
    )
