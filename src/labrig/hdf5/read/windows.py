"""Windows of long sequences: at random places in training, or each at its place."""

import sys
from collections.abc import Mapping, Sequence

import numpy as np

from ...errors import LabError
from ...machine.text_formats import counted
from ..file.errors import DataFileError
from ..file.layout import OFFSETS, Layout
from .field_readers import field_of
from .order import Batch

PARTS = ("past", "next")  # together the length of a window, of all sequences that are read
STRIDE = "stride"  # from one window to the next


def check_windows(windows: Mapping[str, int], n: int | None, order: str) -> None:
    """Raises LabError for settings of a data module that say nothing together."""
    if n is not None and (not windows or n < 1):
        raise LabError(
            f"data.windows_per_epoch is {n}, expected a number above 0 that goes with data.windows, such "
            "as {x: 65}."
        )
    if n is not None and stride_of(windows):
        raise LabError(
            f"data.windows_per_epoch is {n}, but data.windows has past, next or stride: each window is read "
            "once an epoch. Delete data.windows_per_epoch, or write data.windows={x: 65}"
        )
    if windows and order in ("blocks", "lengths"):
        raise LabError(f"data.order={order} is not for data.windows. Delete it: data.order=auto")


def stride_of(windows: Mapping[str, int]) -> int | None:
    """From the beginning of a window to that of the next one; None: no window has a place of its own."""
    return windows.get(STRIDE, 1 if set(PARTS) & windows.keys() else None)


def lengths_of(windows: Mapping[str, int], layout: Layout, fields: Sequence[str]) -> dict[str, int]:
    """How long the windows of each field are.

    Args:
        windows: `{x: 65}`, or `{past: 96, next: 24}` for all fields that vary in length; see `Windows`.
    """
    of_fields = {name: n for name, n in windows.items() if name not in (*PARTS, STRIDE)}
    parts = {name: n for name, n in windows.items() if name in PARTS}
    is_whole = all(isinstance(n, int) and n > 0 for n in windows.values())
    if bool(of_fields) == bool(parts) or not is_whole:
        raise DataFileError(
            f"data.windows is {dict(windows)}, expected whole numbers above 0: {{x: 65}} for a field, or "
            "{past: 96, next: 24, stride: 4} for all fields that vary in length."
        )
    if of_fields:
        return of_fields
    read = [field_of(layout, name) for name in fields]
    ragged = [name for name in read if layout.is_ragged(name)]
    if not ragged:
        raise DataFileError(
            f"{layout.path}: none of data.fields, {', '.join(fields)}, varies in length, so data.windows "
            "cuts nothing. It has: "
            f"{', '.join(name for name in layout.fields if layout.is_ragged(name)) or 'no such field'}"
        )
    return dict.fromkeys(ragged, sum(parts.values()))


class Windows:
    """Where the windows of a split lie. Each is in one sample, so that none crosses an edge of it.

    Args:
        lengths: of the windows, for each ragged field; fields of one window have one length.
        rows: (n,) the samples of the split.
        is_random: at places that follow from seed, epoch and index, each as likely as any other;
            else one after the other, without what is left at the end of a sample.
        n: random windows in an epoch; None: as many as there are pieces.
        stride: from one window to the next, if not their length; then none is random.
    """

    def __init__(
        self,
        layout: Layout,
        lengths: Mapping[str, int],
        rows: np.ndarray,
        is_random: bool,
        n: int | None,
        stride: int | None = None,
    ) -> None:
        self.length, *others = {*lengths.values()}
        if others:
            raise DataFileError(f"data.windows is {dict(lengths)}, expected one length.")
        self.rows = np.array(rows)
        sizes = [_sizes(layout, name, self.rows) for name in lengths]
        if any((other != sizes[0]).any() for other in sizes):
            raise DataFileError(
                f"{layout.path}: the fields {', '.join(lengths)} differ in the lengths of their samples, so "
                "they have no common windows. Name one of them."
            )
        self.is_random = is_random and stride is None
        self.stride = 1 if self.is_random else stride or self.length
        is_long = sizes[0] >= self.length
        self.n_short = int((~is_long).sum())
        if not is_long.any():
            raise DataFileError(
                f"{layout.path}: no sample of the split has {self.length} values, as data.windows says; "
                f"the longest has {sizes[0].max(initial=0)}. Write a smaller number."
            )
        # how many windows begin in a sample, and in those before it
        n_places = np.where(is_long, (sizes[0] - self.length) // self.stride + 1, 0)
        self.before = np.cumsum(n_places) - n_places
        self.n_places = int(n_places.sum())
        self.n = self.n_places
        if self.is_random:
            self.n = int((sizes[0] // self.length).sum()) if n is None else n
        self._drawn: tuple[tuple[int, ...], np.ndarray] = ((), np.empty(0, np.uint64))

    def tell_of_short_samples(self, split: str) -> None:
        """Prints how many samples have no window."""
        if self.n_short:
            print(
                f"lab: {counted(self.n_short, 'sample')} of {split} left out: shorter than a window of "
                f"{self.length}",
                file=sys.stderr,
            )

    def places(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """The row of each window of a batch, and where in that sample it begins, (B,) int64 each."""
        place = self._draw(batch) if self.is_random else batch.indices
        sample = np.searchsorted(self.before, place, "right") - 1
        return self.rows[sample], (place - self.before[sample]) * self.stride

    def _draw(self, batch: Batch) -> np.ndarray:
        if not batch.entropy:
            return batch.rng.integers(0, self.n_places, len(batch.indices))
        seed_and_epoch = batch.entropy[:2]
        if self._drawn[0] != seed_and_epoch:
            drawn = np.random.PCG64((*seed_and_epoch, 3)).random_raw(self.n) % self.n_places
            self._drawn = seed_and_epoch, drawn.astype(np.int64)
        return self._drawn[1][batch.indices]


def _sizes(layout: Layout, name: str, rows: np.ndarray) -> np.ndarray:
    """(n,) how many values the samples have."""
    if not layout.is_ragged(name) or "encoding" in layout.field(name).attrs:
        raise DataFileError(
            f"{layout.path}: data.windows names {name}, whose samples are no sequences that vary in "
            "length. Name one that --as series, --as tokens or samples() made."
        )
    offsets = layout.map(layout.arrays[name + OFFSETS])
    return offsets[rows + 1] - offsets[rows]
