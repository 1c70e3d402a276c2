"""Windows of long sequences: at random places in training, else all pieces in their order."""

import sys
from collections.abc import Mapping

import numpy as np

from ...errors import LabError
from ...machine.counted import counted
from ..file.errors import DataFileError
from ..file.layout import OFFSETS, Layout
from .order import Batch


def check_windows(lengths: Mapping[str, int], n: int | None, order: str) -> None:
    """Raises LabError for settings of a data module that say nothing together."""
    if n is not None and (not lengths or n < 1):
        raise LabError(
            f"data.windows_per_epoch is {n}, expected a number above 0 that goes with data.windows, such "
            "as {x: 65}."
        )
    if lengths and order in ("blocks", "lengths"):
        raise LabError(f"data.order={order} is not for data.windows. Delete it: data.order=auto")


class Windows:
    """Where the windows of a split lie. Each is in one sample, so that none crosses an edge of it.

    Args:
        lengths: of the windows, for each ragged field; fields of one window have one length.
        rows: (n,) the samples of the split.
        is_random: at places that follow from seed, epoch and index, each as likely as any other;
            else piece after piece, without what is left at the end of a sample.
        n: random windows in an epoch; None: as many as there are pieces.
    """

    def __init__(
        self,
        layout: Layout,
        lengths: Mapping[str, int],
        rows: np.ndarray,
        is_random: bool,
        n: int | None,
    ) -> None:
        self.length, *others = {*lengths.values()}
        if others or self.length < 1:
            raise DataFileError(f"data.windows is {dict(lengths)}, expected one length above 0.")
        self.rows = np.array(rows)
        sizes = [_sizes(layout, name, self.rows) for name in lengths]
        if any((other != sizes[0]).any() for other in sizes):
            raise DataFileError(
                f"{layout.path}: the fields {', '.join(lengths)} differ in the lengths of their samples, so "
                "they have no common windows. Name one of them."
            )
        self.is_random = is_random
        n_pieces = sizes[0] // self.length
        self.n_short = int((n_pieces == 0).sum())
        if not n_pieces.any():
            raise DataFileError(
                f"{layout.path}: no sample of the split has {self.length} values, as data.windows says; "
                f"the longest has {sizes[0].max(initial=0)}. Write a smaller number."
            )
        # how many windows begin in a sample, and in those before it
        n_places = np.maximum(sizes[0] - self.length + 1, 0) if is_random else n_pieces
        self.before = np.cumsum(n_places) - n_places
        self.n_places = int(n_places.sum())
        self.n = n if n is not None and is_random else int(n_pieces.sum())
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
        start = place - self.before[sample]
        return self.rows[sample], start if self.is_random else start * self.length

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
            "length. Name one that --as tokens or samples() made."
        )
    offsets = layout.map(layout.arrays[name + OFFSETS])
    return offsets[rows + 1] - offsets[rows]
