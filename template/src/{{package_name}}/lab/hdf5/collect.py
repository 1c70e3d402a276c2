# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Collects samples that come one at a time, each field in a temporary file."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .atomic_file import explain_write_errors
from .columns import Field, RaggedField, check_name
from .file_errors import DataFileError
from .file_layout import BLOCK_BYTES

NOT_FIELDS = ("key", "split", "group")  # they decide where a sample goes, and are not stored


def collect_fields(
    path: Path,
    directory: Path,
    samples: Iterable[Mapping[str, Any]],
    *,
    on_sample: Callable[[Mapping[str, Any]], None],
    ragged: Collection[str] = (),
) -> dict[str, Field]:
    """The fields of `samples` (see `H5DataModule.samples`), as memory maps of files in `directory`.

    One-dimensional fields that differ in length become ragged. Memory holds one sample and a few
    numbers for each, however large the source is.

    Args:
        path: the data file they are for, to name it in errors.
        on_sample: called with each sample.
        ragged: fields that are ragged even if all samples have one length.

    Raises:
        DataFileError: samples that differ in fields, type or shape, or no space for them in
            `directory`.
    """
    collected: dict[str, _CollectedField] = {}
    with ExitStack() as stack:
        for i, sample in enumerate(samples):
            where = f"{path}: sample {sample.get('key', i)}"
            values = {
                name: np.asarray(value) for name, value in sample.items() if name not in NOT_FIELDS
            }
            with explain_write_errors(path):
                if i == 0:
                    for name, value in values.items():
                        check_name(f"{where}: field {name!r}", name)  # it becomes a file's name
                        file = stack.enter_context(open(directory / name, "wb", BLOCK_BYTES))
                        collected[name] = _CollectedField(file, value)
                if values.keys() != collected.keys():
                    raise DataFileError(
                        f"{where} has the fields {[*values]}, others have {[*collected]}."
                    )
                for name, value in values.items():
                    collected[name].append(f"{where}: {name!r}", value)
            on_sample(sample)
        with explain_write_errors(path):
            stack.close()
    return {name: field.mapped(name in ragged) for name, field in collected.items()}


class _CollectedField:
    """One field of the samples so far, in `file`; all have the type and shape of the `first`."""

    def __init__(self, file: BinaryIO, first: np.ndarray) -> None:
        self.file = file
        self.dtype = first.dtype
        self.shape = first.shape
        self.lengths: list[int] = []

    def append(self, where: str, value: np.ndarray) -> None:
        """Writes the value of one sample.

        Raises:
            DataFileError: another type or shape than the first; `where` names the sample.
        """
        found = f"{where} is {value.dtype} {list(value.shape)}"
        expected = f"{self.dtype} {list(self.shape)} as the first"
        if value.dtype.kind not in "biufc":
            raise DataFileError(f"{found}. Convert it to numbers.")
        if value.dtype != self.dtype:
            raise DataFileError(f"{found}, expected {expected}. Convert all to one type.")
        one_dimensional = value.ndim == len(self.shape) == 1
        if value.shape != self.shape and not one_dimensional:
            raise DataFileError(f"{found}, expected {expected}. {_advice(value)}")
        self.lengths.append(value.size)
        self.file.write(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)

    def mapped(self, ragged: bool) -> Field:
        lengths = np.array(self.lengths)
        values = np.empty(0, self.dtype)
        if lengths.any():
            values = np.asarray(np.memmap(self.file.name, self.dtype, "r"))
        if not ragged and len(set(self.lengths)) == 1:
            return values.reshape(len(lengths), *self.shape)
        ends = lengths.cumsum()
        return RaggedField(
            self.dtype, lengths, lambda row: values[ends[row] - lengths[row] : ends[row]]
        )


def _advice(value: np.ndarray) -> str:
    """What to do about a sample of another shape."""
    if value.dtype == np.uint8 and value.ndim == 3:
        return (
            "Give all images one size: --size HEIGHT WIDTH. "
            "Or keep them as they are, to be sized when they are read: --as encoded"
        )
    return "Only fields of one dimension may vary in length: give all samples one shape."
