# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Samples of one split as tensors, a whole batch at a time, gathered from the memory map without HDF5 in
between."""

import io
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from .file_layout import OFFSETS, DataFileError, Layout, layout, require
from .order import Batch

LENGTHS = "_lengths"
Size = tuple[int, int]  # height, width
Rng = Callable[[], np.random.Generator]


class FieldReader:
    """Reads rows of one field: `reader(rows, rng)` gives an array (B, ...), never a view of the map.

    The map is made at the first call in each process, and left behind when the reader is pickled.
    """

    def __init__(self, layout: Layout, name: str) -> None:
        self.layout, self.name = layout, name
        self.values: np.ndarray | None = None

    def __call__(self, rows: np.ndarray, rng: Rng) -> np.ndarray:
        if self.values is None:
            self.open()
        return self.read(rows, rng)

    def open(self) -> None:
        self.values = self.layout.map(self.layout.field(self.name))

    def read(self, rows: np.ndarray, rng: Rng) -> np.ndarray:
        return self.values.take(rows, 0)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"values": None, "offsets": None}


class Ragged(FieldReader):
    """Samples of varying length, cropped or padded with zeros to `length` (None: the longest of the
    batch)."""

    def __init__(self, layout: Layout, name: str, length: int | None, crop: str) -> None:
        super().__init__(layout, name)
        self.length, self.crop = length, crop

    def open(self) -> None:
        super().open()
        self.offsets = self.layout.map(self.layout.arrays[self.name + OFFSETS])

    def spans(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First value and number of values of each sample."""
        first, stop = self.offsets.take(rows), self.offsets.take(rows + 1)
        intact = (stop >= first).all() and stop.max(initial=0) <= len(self.values)
        check = f"lab data verify {self.layout.path}"
        require(intact, f"{self.layout.path}: {self.name + OFFSETS} are damaged. See: {check}")
        return first, stop - first

    def read(self, rows: np.ndarray, rng: Rng) -> np.ndarray:
        first, lengths = self.spans(rows)
        length = int(lengths.max(initial=0)) if self.length is None else self.length
        if self.crop == "random" and (spare := np.maximum(lengths - length, 0)).any():
            first = first + rng().integers(0, spare, endpoint=True)
        out = np.zeros((len(rows), length), self.values.dtype)
        sizes = np.minimum(lengths, length).tolist()
        for row, start, size in zip(out, first.tolist(), sizes, strict=True):
            row[:size] = self.values[start : start + size]
        return out


class Lengths(Ragged):
    """Valid values (int64) of each sample of a ragged field, after the crop."""

    def read(self, rows: np.ndarray, rng: Rng) -> np.ndarray:
        lengths = self.spans(rows)[1]
        return lengths if self.length is None else np.minimum(lengths, self.length)


class EncodedImages(Ragged):
    """JPEG, PNG ... bytes decoded to RGB uint8 (B, 3, height, width): scaled to cover that, then cropped."""

    def __init__(self, layout: Layout, name: str, size: Size, crop: str) -> None:
        super().__init__(layout, name, None, crop)
        self.size = size

    def read(self, rows: np.ndarray, rng: Rng) -> np.ndarray:
        out = np.empty((len(rows), 3, *self.size), np.uint8)
        where = rng().random((len(rows), 2)) if self.crop == "random" else np.full((len(rows), 2), 0.5)
        for i, (start, size) in enumerate(zip(*self.spans(rows), strict=True)):
            try:
                image_HWC = decode(self.values[start : start + size].tobytes(), self.size)
            except Exception as error:  # whatever a decoder raises for damaged bytes
                what = f"{self.layout.path}: image {rows[i]} of field {self.name!r} cannot be decoded"
                raise DataFileError(f"{what} ({error}). See: lab data verify {self.layout.path}") from error
            out[i] = crop(image_HWC, self.size, *where[i]).transpose(2, 0, 1)
        return out


def crop(image_HWC: np.ndarray, size: Size, down: float = 0.5, right: float = 0.5) -> np.ndarray:
    """A window of `size` (height, width), `down` and `right` in 0..1 of the way; the centre by default."""
    top = int(down * (image_HWC.shape[0] - size[0] + 1))
    left = int(right * (image_HWC.shape[1] - size[1] + 1))
    return image_HWC[top : top + size[0], left : left + size[1]]


def decode(encoded: bytes, size: Size | None) -> np.ndarray:
    """An encoded image as RGB uint8 (height, width, 3), scaled to just cover `size` (height, width).

    Raises:
        Exception: of Pillow's choice, when the bytes are no image or cut short.
    """
    from PIL import Image  # only data sets of images need it

    with Image.open(io.BytesIO(encoded)) as image:
        if size is None:
            return np.asarray(image.convert("RGB"))
        height, width = size
        image.draft("RGB", (width, height))  # a JPEG is decoded at the smallest eighth that still covers it
        scale = max(height / image.height, width / image.width)
        covering = (max(width, round(image.width * scale)), max(height, round(image.height * scale)))
        return np.asarray(image.convert("RGB").resize(covering, Image.Resampling.BILINEAR))


def field_reader(layout: Layout, name: str, shapes: Mapping[str, Any], crop: str) -> FieldReader:
    """The reader that fits how field `name` is stored and the shape asked for."""
    base, where = name.removesuffix(LENGTHS), f"{layout.path}: field {name!r}"
    shape = shapes.get(base)
    if name not in layout.fields and layout.is_ragged(base):
        return Lengths(layout, base, shape, crop)
    stored = layout.field(name)
    if not layout.is_ragged(name):
        require(shape is None, f"{where} has one shape, {stored.shape[1:]}; shapes are for ragged fields.")
        return FieldReader(layout, name)
    if "encoding" in stored.attrs:
        pair = isinstance(shape, Sequence) and len(shape) == 2
        require(pair, f"{where} holds encoded images; give their size: shapes={{{name!r}: (height, width)}}")
        return EncodedImages(layout, name, (int(shape[0]), int(shape[1])), crop)
    number = shape is None or (isinstance(shape, int) and shape > 0)
    require(number, f"{where} is one-dimensional; its shape is a number of values, found {shape!r}.")
    return Ragged(layout, name, shape, crop)


Transform = Callable[[tuple[torch.Tensor, ...], np.random.Generator], tuple[torch.Tensor, ...]]


def as_is(batch: Any) -> Any:
    """The collate_fn for a DataLoader over an H5Dataset, whose `__getitems__` already gives the batch."""
    return batch


class H5Dataset(Dataset):
    """The samples of one `split`: `dataset[i]` is a tuple of tensors in the order of `fields`.

    Args:
        path: a file that `write` or `lab data pack` made, or the `Layout` of one that was opened already.
        split: its name.
        fields: what to read. A ragged field `wav` also offers `wav_lengths` (int64): valid values of each
            sample.
        shapes: of ragged fields. An int crops or pads with zeros to that many values; (height, width) is the
            size of encoded images, then decoded to uint8 (B, 3, height, width). A ragged field without a
            shape is padded to the longest sample of the batch.
        crop: which part of a longer sample is read, `random` or `start` (images: `random` or the centre).
        transform: called as transform(batch, rng) on a whole batch, in the worker or prefetch thread. Draw
            from `rng` only: it gives the same numbers again after a resume.

    Raises:
        DataFileError: the file is not right, or has no such split or field.
    """

    def __init__(
        self,
        path: str | Path | Layout,
        split: str,
        fields: Sequence[str] = ("x", "y"),
        *,
        shapes: Mapping[str, int | Sequence[int]] | None = None,
        crop: str = "start",
        transform: Transform | None = None,
    ) -> None:
        require(crop in ("random", "start"), f"crop is {crop!r}; expected 'random' or 'start'.")
        self.layout = path if isinstance(path, Layout) else layout(path)
        self.split, self.fields, self.transform = split, tuple(fields), transform
        self.n = self.layout.split(split).shape[0]
        unused = set(shapes or {}) - set(self.fields)
        require(not unused, f"shapes name {sorted(unused)}, which are not among the fields {self.fields}.")
        self.readers = [field_reader(self.layout, name, shapes or {}, crop) for name in self.fields]
        self._rows: np.ndarray | None = None

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        if not -self.n <= index < self.n:
            raise IndexError(f"sample {index} of split {self.split!r}, which has {self.n}")
        return tuple(tensor[0] for tensor in self.__getitems__([index]))

    def __getitems__(self, indices: Batch | Sequence[int] | np.ndarray) -> tuple[torch.Tensor, ...]:
        """One tensor (B, ...) per field. `indices` count within the split, in any order, repeats allowed."""
        rng = cache(indices.rng if isinstance(indices, Batch) else _rng_of_torch)  # one per batch, if any is asked for
        if isinstance(indices, Batch):
            indices = indices.indices
        if self._rows is None:  # mapped once in each process
            self._rows = self.layout.map(self.layout.split(self.split))
        rows = self._rows[np.asarray(indices, np.int64)]
        batch = tuple(torch.from_numpy(reader(rows, rng)) for reader in self.readers)
        return self.transform(batch, rng()) if self.transform else batch

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_rows": None}  # a pickled map would be the whole array


def _rng_of_torch() -> np.random.Generator:
    """For a dataset used without the data module: follows torch.manual_seed and the seed of a DataLoader's
    worker."""
    return np.random.default_rng(torch.randint(2**62, ()).item())
