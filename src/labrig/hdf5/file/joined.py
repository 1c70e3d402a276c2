"""Several data files with the same fields, read as one: the rows of the first, then of the second …"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...project import Project
from .checksum import sha256_of_hashes
from .errors import DataFileError
from .find import data_files_in, data_files_of, place_of, read_data_config
from .layout import OFFSETS, Array, Layout, Rows, read_layout
from .tokens import N_TOKENS

FOLLOWS = "follows"  # the hash of the files before this one, which `lab data append` noted

LARGE_ROW_BYTES = 2048  # faster copied one by one than by way of an array for each file


class JoinedRows:
    """The rows of some arrays, one array after another; what is read of them is a new array.

    Args:
        pieces: (N_k, ...) each, of one type and shape of rows.
    """

    def __init__(self, pieces: Sequence[np.ndarray]) -> None:
        self.pieces = list(pieces)
        self.starts = np.cumsum([0, *map(len, self.pieces)])
        self.start_list = self.starts.tolist()
        self.dtype = self.pieces[0].dtype
        self.shape = (len(self), *self.pieces[0].shape[1:])
        self.nbytes = sum(piece.nbytes for piece in self.pieces)
        self.row_bytes = self.nbytes // max(1, len(self))

    def __len__(self) -> int:
        return self.start_list[-1]

    def take(self, rows: np.ndarray, axis: int = 0) -> np.ndarray:
        """(B, ...) of the rows (B,), in any order and as often as they are named."""
        piece_of = self.starts.searchsorted(rows, "right") - 1
        row_in_piece = rows - self.starts[piece_of]
        out = np.empty((len(rows), *self.shape[1:]), self.dtype)
        if self.row_bytes >= LARGE_ROW_BYTES:
            places = zip(out, piece_of.tolist(), row_in_piece.tolist(), strict=True)
            for sample, number, row in places:
                sample[...] = self.pieces[number][row]
            return out
        for number in set(piece_of.tolist()):
            chosen = np.flatnonzero(piece_of == number)
            out[chosen] = self.pieces[number].take(row_in_piece[chosen], axis)
        return out

    def __getitem__(self, part: slice) -> np.ndarray:
        """The rows of one sample of a ragged field, all of which lie in one file."""
        number = min(bisect_right(self.start_list, part.start), len(self.pieces)) - 1
        start = self.start_list[number]
        return self.pieces[number][part.start - start : part.stop - start]


@dataclass(frozen=True)
class JoinedArray(Array):
    """One array in several files.

    Args:
        parts: of each file; None where it has no such split.
        shifts: what is added to the values of each, where these are row numbers or offsets.
    """

    parts: tuple[Array | None, ...] = ()
    shifts: tuple[int, ...] | None = None


@dataclass(frozen=True)
class JoinedLayout(Layout):
    """Several checked data files. Splits are those of each file, its rows behind those before it.

    `file` is that of the first one: ask `parts` for the others.
    """

    files: tuple[Layout, ...] = ()

    @property
    def parts(self) -> tuple[Layout, ...]:
        return self.files

    @property
    def path(self) -> Path:
        return place_of([part.path for part in self.files])

    @property
    def size_bytes(self) -> int:
        return sum(part.size_bytes for part in self.files)

    def map(self, array: Array, is_told: bool = False) -> np.ndarray:
        """All rows of `array`, copied into memory: meant for labels and row numbers."""
        pieces = self._pieces(array, is_told)
        return np.concatenate(pieces) if pieces else np.empty(array.shape, array.dtype)

    def rows(self, array: Array, is_told: bool = False) -> Rows:
        assert isinstance(array, JoinedArray)
        if array.shifts is not None:
            return self.map(array, is_told)
        return JoinedRows(self._pieces(array, is_told))

    def _pieces(self, array: Array, is_told: bool) -> list[np.ndarray]:
        assert isinstance(array, JoinedArray)
        pieces = []
        for number, (part, own) in enumerate(zip(self.files, array.parts, strict=True)):
            if own is None:
                continue
            piece = part.map(own, is_told)
            if array.shifts is not None:
                is_first = number == 0 or not array.name.endswith(OFFSETS)
                piece = piece[0 if is_first else 1 :] + array.shifts[number]
            pieces.append(piece)
        return pieces

    def tell_ahead(self, array: Array, first: int, stop: int) -> None:
        assert isinstance(array, JoinedArray)
        if array.shifts is not None:  # copied into memory
            return
        start = 0
        for part, own in zip(self.files, array.parts, strict=True):
            n_rows = own.n_rows if own else 0
            begin, end = max(first - start, 0), min(stop - start, n_rows)
            if own and begin < end:
                part.tell_ahead(own, begin, end)
            start += n_rows


def read_data_set(project: Project, name: str) -> Layout:
    """What a data set holds by its name, or by a path, as `data_files_of` finds it."""
    files = data_files_of(project, name)
    is_path = Path(name).exists() or Path(name).suffix
    chosen = not is_path and not isinstance(read_data_config(project, name).path, str)
    return read_layouts(files, is_whole=not chosen)


def read_layouts(paths: Sequence[Path], is_whole: bool = False) -> Layout:
    """The data of one file, or of several as one; see `read_layout`.

    Args:
        is_whole: all files of a folder are wanted, so that none may be missing.

    Raises:
        DataFileError: one of them is not right, they differ in fields, or one of a folder is missing.
    """
    parts = [read_layout(path) for path in paths]
    if is_whole and data_files_in(paths[0].parent) == list(paths):
        _check_none_is_missing(parts)
    return join_layouts(parts)


def _check_none_is_missing(parts: Sequence[Layout]) -> None:
    """Makes sure that the files before each one are those that were there when it was added."""
    for number, part in enumerate(parts):
        before = part.attrs.get(FOLLOWS)
        if before is None:
            continue
        found = sha256_of_hashes(join_layouts(parts[:number])) if number else "none"
        if before != found:
            names = ", ".join(other.path.name for other in parts[:number]) or "no file"
            raise DataFileError(
                f"{part.path.parent}: a file is missing or was changed. {part.path.name} was added "
                f"to files of sha256 {before[:12]}, found {names} of sha256 {found[:12]}. Bring the "
                "file back; or name those that you want: data.path=[FILE,FILE]"
            )


def join_layouts(parts: Sequence[Layout]) -> Layout:
    """Several files as one; one stays what it is.

    Raises:
        DataFileError: they differ in fields, types, shapes, or in what a number means.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    for part in parts[1:]:
        _check_same_fields(first, part)
    names = dict.fromkeys(name for part in parts for name in part.splits)
    shifts = np.cumsum([0, *(part.n_samples for part in parts[:-1])]).tolist()
    return JoinedLayout(
        first.file,
        n_samples=sum(part.n_samples for part in parts),
        arrays={name: _join_arrays(parts, name) for name in first.arrays},
        splits={name: _join_splits(parts, name, tuple(shifts)) for name in names},
        attrs=first.attrs,
        seal=first.seal,
        files=tuple(parts),
    )


def _check_same_fields(first: Layout, part: Layout) -> None:
    other, own = _kinds(first), _kinds(part)
    if other == own:
        return
    name = next(name for name in [*other, *own] if other.get(name) != own.get(name))
    raise DataFileError(
        f"{part.path}: field {name!r} is {own.get(name, 'missing')}, expected "
        f"{other.get(name, 'no such field')} as in {first.path}. Both are read as one: pack it with "
        "the same options, or take it away from there."
    )


def _kinds(layout: Layout) -> dict[str, str]:
    """What each field holds, in words."""
    kinds = {}
    for name, array in layout.fields.items():
        shape = "of varying length" if layout.is_ragged(name) else [*array.shape[1:]]
        kinds[name] = f"{array.dtype} {shape}"
    return kinds


def _join_arrays(parts: Sequence[Layout], name: str) -> JoinedArray:
    arrays = [part.arrays[name] for part in parts]
    first = arrays[0]
    n_rows = sum(array.n_rows for array in arrays)
    shifts = None
    base = name.removesuffix(OFFSETS)
    if base != name and parts[0].is_ragged(base):
        n_rows -= len(parts) - 1
        n_values = [part.field(base).n_rows for part in parts[:-1]]
        shifts = tuple(np.cumsum([0, *n_values]).tolist())
    attrs = _join_attrs(parts, name)
    shape = (n_rows, *first.shape[1:])
    return JoinedArray(name, first.dtype, shape, -1, "", attrs, tuple(arrays), shifts)


def _join_splits(parts: Sequence[Layout], name: str, shifts: tuple[int, ...]) -> JoinedArray:
    splits = tuple(part.splits.get(name) for part in parts)
    n_rows = sum(split.n_rows for split in splits if split)
    return JoinedArray(name, np.dtype(np.int64), (n_rows,), -1, "", {}, splits, shifts)


def _join_attrs(parts: Sequence[Layout], name: str) -> dict[str, Any]:
    """The attributes of a field, of which a number means the same in each file."""
    joined = dict(parts[0].arrays[name].attrs)
    for part in parts[1:]:
        own = part.arrays[name].attrs
        for key in sorted(joined.keys() | own.keys()):
            value = _value_for_both(key, joined.get(key), own.get(key))
            if value is None:
                raise DataFileError(
                    f"{part.path}: {key} of field {name!r} is {own.get(key)}, expected "
                    f"{joined.get(key)} as in {parts[0].path}: a number would mean something else. "
                    "Pack it again with lab data append, or take it away from there."
                )
            joined[key] = value
    return joined


def _value_for_both(key: str, before: Any, own: Any) -> Any:
    """The value of an attribute that holds for two files; None where there is none.

    A later file may know more classes, and masks may hold more values.
    """
    if before is None or own is None:
        return None
    if key == "classes":
        names = _longer(json.loads(before), json.loads(own))
        return None if names is None else json.dumps(names, ensure_ascii=False)
    if key == "categories":
        return _joined_categories(json.loads(before), json.loads(own))
    if key == N_TOKENS:
        return max(before, own)
    if key == "values":
        return json.dumps(sorted({*json.loads(before), *json.loads(own)}))
    return before if np.array_equal(before, own) else None


def _longer(names: list[str], others: list[str]) -> list[str] | None:
    """The longer of two lists of which one is the beginning of the other; None where it is not."""
    shorter, longer = sorted([names, others], key=len)
    return longer if longer[: len(shorter)] == shorter else None


def _joined_categories(before: dict[str, list[str]], own: dict[str, list[str]]) -> str | None:
    """The texts of the columns of two files, as an attribute; None where they differ."""
    if before.keys() != own.keys():
        return None
    joined = {}
    for column in before:
        texts = _longer(before[column], own[column])
        if texts is None:
            return None
        joined[column] = texts
    return json.dumps(joined, ensure_ascii=False)
