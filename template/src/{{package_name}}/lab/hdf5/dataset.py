# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""A split of a data file as a torch Dataset that reads a whole batch at a time."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from .fields import Batch, Mapped, field_reader
from .file_layout import Layout, read_layout, require

Transform = Callable[[tuple[torch.Tensor, ...], np.random.Generator], tuple[torch.Tensor, ...]]


def as_is(batch: Any) -> Any:
    """The collate_fn for a DataLoader over an H5Dataset, whose `__getitems__` already gives the batch."""
    return batch


class H5Dataset(Mapped, Dataset):
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
        self.layout = path if isinstance(path, Layout) else read_layout(path)
        self.split, self.fields, self.transform = split, tuple(fields), transform
        self.n = self.layout.known("split", split).shape[0]
        unused = set(shapes or {}) - set(self.fields)
        require(
            not unused,
            f"shapes name {sorted(unused)}, which are not among the fields {self.fields}.",
        )
        self.readers = [field_reader(self.layout, name, shapes or {}, crop) for name in self.fields]

    @cached_property
    def rows(self) -> np.ndarray:
        """(n,) int64, where the samples of the split lie in the file; mapped once in each process."""
        return self.layout.map(self.layout.known("split", self.split))

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        if not -self.n <= index < self.n:
            raise IndexError(f"sample {index} of split {self.split!r}, which has {self.n}")
        return tuple(tensor[0] for tensor in self.__getitems__([index]))

    def __getitems__(self, indices: Batch | Sequence[int] | np.ndarray) -> tuple[torch.Tensor, ...]:
        """One tensor (B, ...) per field. `indices` count within the split, in any order, repeats allowed."""
        batch = indices if isinstance(indices, Batch) else Batch(np.asarray(indices, np.int64))
        rows = self.rows[batch.indices]
        tensors = tuple(torch.from_numpy(reader.read(rows, batch)) for reader in self.readers)
        return self.transform(tensors, batch.rng) if self.transform else tensors
