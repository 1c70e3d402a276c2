"""A split of a data file as a torch Dataset that reads a whole batch at a time."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from ..file.checksum import verify_if_written_to
from ..file.errors import DataFileError
from ..file.find import data_files_in
from ..file.joined import read_layouts
from ..file.layout import Layout
from .field_readers import (
    FieldReader,
    PickledWithoutMaps,
    RaggedReader,
    RowReader,
    Shape,
    build_reader,
    field_of,
)
from .order import Batch
from .windows import Windows, lengths_of, stride_of

Tensors = tuple[torch.Tensor, ...]
ALL = "all"  # the name for every sample of a file, in its order, unless a split has it
Transform = Callable[[Tensors, np.random.Generator], Tensors]


def as_is(batch: Any) -> Any:
    """The collate_fn for a DataLoader over an H5Dataset, which already gives whole batches."""
    return batch


def read_tensor(reader: FieldReader, rows: np.ndarray, batch: Batch) -> torch.Tensor:
    """One field of the samples in `rows` (B,); in page-locked memory where the batch asks for it
    and the samples have one shape."""
    if not batch.page_locked or not isinstance(reader, RowReader):
        return torch.from_numpy(reader.read(rows, batch))
    dtype = torch.from_numpy(np.empty(0, reader.values.dtype)).dtype
    shape = (len(rows), *reader.values.shape[1:])
    tensor = torch.empty(shape, dtype=dtype, pin_memory=True)
    reader.read_into(rows, tensor.numpy())
    return tensor


class H5Dataset(PickledWithoutMaps, Dataset):
    """The samples of one `split`: `dataset[i]` is a tuple of tensors in the order of `fields`.

    Args:
        path: a file that `write_data_file` or `lab data pack` made, a folder of such files, or the
            `Layout` of what was opened already.
        split: its name, or `all`.
        fields: what to read. A ragged field `wav` also offers `wav_lengths` (int64): valid values
            of each sample; and `wav_mask` (bool): which are neither padding nor NaN.
        shapes: of ragged fields. An int crops or pads with zeros to that many values; (height,
            width) is the size of encoded images, then decoded to uint8 (B, 3, height, width). A
            ragged field without a shape is padded to the longest sample of the batch.
        crop: which part of a longer sample is read, `random` or `start` (images: `random` or the
            centre).
        windows: the samples are windows of sequences, not the sequences: {"x": 65} of a field, of which
            `crop` says whether they lie at random; {"past": 96, "next": 24} of all fields that vary in
            length, at every place, or at every "stride"-th.
        n_windows: random ones in an epoch; None: as many as there are pieces.
        transform: called as transform(batch, rng) on a whole batch, in the worker or prefetch
            thread. Draw from `rng` only: it gives the same numbers again after a resume.
        rows: (n,) int64, rows of the file in place of those of `split`; None: those of `split`.

    Raises:
        DataFileError: the file is not right, or has no such split or field.
    """

    def __init__(
        self,
        path: str | Path | Layout,
        split: str,
        fields: Sequence[str] = ("x", "y"),
        *,
        shapes: Mapping[str, Shape] | None = None,
        windows: Mapping[str, int] | None = None,
        n_windows: int | None = None,
        crop: str = "start",
        transform: Transform | None = None,
        rows: np.ndarray | None = None,
    ) -> None:
        if crop not in ("random", "start"):
            raise DataFileError(f"crop is {crop!r}; expected 'random' or 'start'.")
        if not isinstance(path, Layout):
            path = read_layouts(data_files_in(Path(path)) or [Path(path)], is_whole=True)
        self.layout = path
        shapes = shapes or {}
        lengths = lengths_of(windows, path, fields) if windows else {}
        unused = sorted({*shapes, *lengths} - {field_of(path, name) for name in fields})
        if unused or shapes.keys() & lengths.keys():
            raise DataFileError(
                f"shapes and windows name {unused or 'one field both'}, expected some of the fields: {fields}."
            )
        self.split = split
        self.fields = tuple(fields)
        self.transform = transform
        self.is_whole = split == ALL and ALL not in self.layout.splits
        self.chosen_rows = rows
        self.n = self._length()
        self.windows: Windows | None = None
        if windows:
            is_random = crop == "random"
            stride = stride_of(windows)
            self.windows = Windows(self.layout, lengths, self.rows, is_random, n_windows, stride)
            self.n = self.windows.n
        self.readers = [
            build_reader(
                self.layout,
                name,
                {**shapes, **lengths},
                "window" if field_of(path, name) in lengths else crop,
            )
            for name in self.fields
        ]

    @cached_property
    def rows(self) -> np.ndarray:
        """(n,) int64, where the samples of the split lie in the file; mapped once a process."""
        if self.chosen_rows is not None:
            return self.chosen_rows
        if self.is_whole:
            return np.arange(self.n)
        return self.layout.map(self.layout.split(self.split))

    @cached_property
    def rows_in_order(self) -> np.ndarray:
        """The same, as they lie in the file: those of a block next to each other."""
        return self.rows if self.chosen_rows is None else np.sort(self.rows)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"chosen_rows": self.chosen_rows}

    def _length(self) -> int:
        if self.chosen_rows is not None:
            return len(self.chosen_rows)
        if self.is_whole:
            return self.layout.n_samples
        return self.layout.split(self.split).n_rows

    def padded_lengths(self) -> np.ndarray:
        """(n,) int64, of the samples: of the first field that is padded to the longest of a batch.

        Raises:
            DataFileError: no field is.
        """
        for reader in self.readers:
            if type(reader) is RaggedReader and reader.length is None:
                return reader.starts_and_lengths(self.rows)[1]
        raise DataFileError(
            f"data.order=lengths: no field of {', '.join(self.fields)} is padded to the longest sample "
            "of a batch, so there is nothing to gain. Delete it: data.order=auto"
        )

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Tensors:
        if not -self.n <= index < self.n:
            raise IndexError(f"sample {index} of split {self.split!r}, which has {self.n}")
        return tuple(tensor[0] for tensor in self.__getitems__([index]))

    def __getitems__(self, indices: Batch | Sequence[int] | np.ndarray) -> Tensors:
        """One tensor (B, ...) per field. `indices` count within the split and may repeat."""
        batch = indices if isinstance(indices, Batch) else Batch(np.asarray(indices, np.int64))
        verify_if_written_to(self.layout)  # before: to read past the end would be SIGBUS
        if self.windows:
            rows, batch.starts = self.windows.places(batch)
        elif batch.ahead is None:
            rows = self.rows[batch.indices]
        else:
            self._tell_ahead(batch.ahead)
            rows = self.rows_in_order[batch.indices]
        tensors = tuple(read_tensor(reader, rows, batch) for reader in self.readers)
        verify_if_written_to(self.layout)  # after: what was read is what the file held
        return self.transform(tensors, batch.rng) if self.transform else tensors

    def _tell_ahead(self, blocks: list[range]) -> None:
        for reader in self.readers:
            reader.is_told = True
        for block in blocks:
            first, last = self.rows_in_order[[block[0], block[-1]]].tolist()
            for reader in self.readers:
                reader.tell_ahead(first, last + 1)
