"""Collects samples that come one at a time, each field in a temporary file."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from ..file.atomic_file import explain_write_errors
from ..file.errors import DataFileError
from ..file.layout import BLOCK_BYTES
from .columns import Field, RaggedField, check_name

NOT_FIELDS = ("key", "split", "group")  # they decide where a sample goes, and are not stored


def collect_fields(
    path: Path,
    directory: Path,
    samples: Iterable[Mapping[str, Any]],
    *,
    on_sample: Callable[[Mapping[str, Any]], None],
    ragged: Collection[str] = (),
    last_file: Callable[[], str] = str,
) -> dict[str, Field]:
    """The fields of `samples` (see `H5DataModule.samples`), as memory maps of files in `directory`.

    One-dimensional fields that differ in length become ragged. Memory holds one sample and a few
    numbers for each, however large the source is.

    Args:
        path: the data file they are for, to name it in errors.
        on_sample: called with each sample.
        ragged: fields that are ragged even if all samples have one length.
        last_file: says behind the name of a sample where it comes from; "" when nobody knows.
    """
    with Collector(path, directory) as collector:
        for i, sample in enumerate(samples):
            values = {
                name: np.asarray(value) for name, value in sample.items() if name not in NOT_FIELDS
            }
            collector.add(f"{path}: sample {sample.get('key', i)}{last_file()}", values)
            on_sample(sample)
    return collector.fields(ragged)


class Collector:
    """Writes each field of samples that come bit by bit into a file of `directory`; a context manager.

    Args:
        path: the data file they are for, to name it in errors.
    """

    def __init__(self, path: Path, directory: Path) -> None:
        self.path = path
        self.directory = directory
        self._files = ExitStack()
        self._collected: dict[str, _CollectedField] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with explain_write_errors(self.path):
            self._files.close()

    def add(self, where: str, values: Mapping[str, np.ndarray]) -> None:
        """Takes the values of one sample."""
        self._begin(where, values, lambda value: value.shape)
        with explain_write_errors(self.path):
            for name, value in values.items():
                self._collected[name].append(f"{where}: {name!r}", value)

    def add_batch(self, where: str, values: Mapping[str, np.ndarray | list[np.ndarray]]) -> None:
        """Takes the values of several samples: each an array (B, ...), or a list of B arrays."""
        self._begin(where, values, lambda value: np.shape(value[0]))
        with explain_write_errors(self.path):
            for name, value in values.items():
                if isinstance(value, list):
                    for item in value:
                        self._collected[name].append(f"{where}: {name!r}", item)
                else:
                    self._collected[name].extend(f"{where}: {name!r}", value)

    def fields(self, ragged: Collection[str] = ()) -> dict[str, Field]:
        """The fields as memory maps, once all files are closed."""
        return {name: field.mapped(name in ragged) for name, field in self._collected.items()}

    def _begin(
        self, where: str, values: Mapping[str, Any], shape_of: Callable[[Any], tuple[int, ...]]
    ) -> None:
        """Opens a file for each field of the first sample, and compares the others with it."""
        if not self._collected:
            for name, value in values.items():
                check_name(f"{where}: field {name!r}", name)  # it becomes a file's name
                first = value[0] if isinstance(value, list) else value
                with explain_write_errors(self.path):
                    file = open(self.directory / name, "wb", BLOCK_BYTES)  # noqa: SIM115
                    self._files.enter_context(file)
                self._collected[name] = _CollectedField(file, first.dtype, shape_of(value))
        if values.keys() != self._collected.keys():
            raise DataFileError(
                f"{where} has the fields {[*values]}, others have {[*self._collected]}. "
                "Give all samples the same."
            )


class _CollectedField:
    """One field of the samples so far, in `file`; all have the type and shape of the first."""

    def __init__(self, file: BinaryIO, dtype: np.dtype, shape: tuple[int, ...]) -> None:
        self.file = file
        self.dtype = dtype
        self.shape = shape
        self.lengths: list[int] = []

    def append(self, where: str, value: np.ndarray) -> None:
        """Writes the value of one sample."""
        self._check(where, value, value.dtype, value.shape)
        self.lengths.append(value.size)
        self._write(value)

    def extend(self, where: str, values: np.ndarray) -> None:
        """Writes the values (B, ...) of several samples."""
        self._check(where, values, values.dtype, values.shape[1:])
        self.lengths += [values[0].size] * len(values)
        self._write(values)

    def _write(self, values: np.ndarray) -> None:
        self.file.write(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)

    def _check(
        self, where: str, value: np.ndarray, dtype: np.dtype, shape: tuple[int, ...]
    ) -> None:
        description = f"{where} is {dtype} {list(shape)}"
        expected = f"{self.dtype} {list(self.shape)} as the first"
        if dtype.kind not in "biufc":
            raise DataFileError(f"{description}. Convert it to numbers.")
        if dtype != self.dtype:
            raise DataFileError(f"{description}, expected {expected}. Convert all to one type.")
        one_dimensional = len(shape) == len(self.shape) == 1
        if shape != self.shape and not one_dimensional:
            raise DataFileError(f"{description}, expected {expected}. {_advice(value)}")

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
            "Give all images one size: --as images --size HEIGHT WIDTH does it, samples() of your "
            "own has to. Or keep them as they are, to be sized when they are read: --as encoded"
        )
    return "Only fields of one dimension may vary in length: give all samples one shape."
