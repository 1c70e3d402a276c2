# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Samples of one split as tensors, a whole batch at a time, gathered from the memory map without HDF5 in
between."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from .file_layout import Layout, layout, require
from .gather import field_reader
from .order import Batch

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
