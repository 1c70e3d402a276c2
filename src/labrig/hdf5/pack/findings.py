"""What is worth a word about data that are packed: values that are no numbers, equal samples in two splits.

It costs 3 to 7 % of the packing: each block is looked at while it is in the cache, and only samples
with equal keys are read again. Memory holds a key of 8 bytes for each sample.
"""

import hashlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import combinations, islice

import numpy as np

from ..file.layout import OFFSETS, TIME, Layout
from .collect import Field, RaggedField

LABEL = "y"
WORD_BYTES = 8
ALL_WORDS = 128  # samples of up to so many words are looked at as a whole
PROBES = 32  # words, at random places, of larger samples
MAX_TOLD = 6  # pairs of splits


class Findings:
    """Looks at each block of `fields` as it is written; then `tell` prints what it found.

    Args:
        order: (N,) the samples in the order of the file; None: as they come.
    """

    def __init__(self, fields: Mapping[str, Field], order: np.ndarray | None) -> None:
        self.n_bad: Counter[str] = Counter()  # field -> samples with NaN or inf
        # two samples are equal by their x, else by their largest field that is no label
        inputs = [name for name in fields if name not in (LABEL, TIME)] or [*fields]
        largest = max(inputs, key=lambda name: fields[name].nbytes)
        self.compared = "x" if "x" in fields else largest
        self.n_seen = dict.fromkeys(fields, 0)  # samples
        self.offsets = {
            name: np.cumsum(np.append(0, field.lengths if order is None else field.lengths[order]))
            for name, field in fields.items()
            if isinstance(field, RaggedField)
        }
        self.keys = np.zeros(len(fields[self.compared]), np.uint64)

    def look_at(self, name: str, block: np.ndarray) -> None:
        """Takes the next samples of a field, all of each: (B, ...), or joined if they vary in length."""
        if name not in self.n_seen or not block.size:  # offsets, or nothing to look at
            return
        first, offsets = self.n_seen[name], self.offsets.get(name)
        starts = np.arange(len(block))  # of each sample, in the block
        if offsets is not None:
            stop = np.searchsorted(offsets, offsets[first] + len(block), "right") - 1
            starts = offsets[first:stop] - offsets[first]
        self.n_seen[name] = first + len(starts)
        if not _is_finite(block):
            is_bad = ~np.isfinite(block).reshape(len(block), -1).all(1)
            samples = np.searchsorted(starts, np.flatnonzero(is_bad), "right")
            self.n_bad[name] += len(np.unique(samples))
        if name == self.compared:
            keys = _keys(block) if offsets is None else _ragged_keys(block, starts)
            self.keys[first : first + len(starts)] = keys

    def tell(self, layout: Layout) -> None:
        """Prints a line for each finding; nothing is refused.

        Args:
            layout: of the file that was written.
        """
        lines = [
            f"{n_bad} of {layout.n_samples} samples have NaN or inf in field {name}"
            for name, n_bad in self.n_bad.items()
        ]
        for line in [*lines, *islice(self._equal_samples(layout), MAX_TOLD)]:
            print(f"lab: {line}", file=sys.stderr)

    def _equal_samples(self, layout: Layout) -> Iterator[str]:
        """A line for each two splits that share samples, the smaller one first."""
        if len(layout.splits) < 2:
            return
        ordered = np.sort(self.keys)
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        rows = np.flatnonzero(np.isin(self.keys, repeated[repeated != 0]))  # 0: without a value
        if not rows.size:
            return
        _, samples = np.unique(_digests(layout, self.compared, rows), return_inverse=True)
        samples_of = {
            name: samples[np.isin(rows, layout.map(split), assume_unique=True)]
            for name, split in layout.splits.items()
        }
        by_size = sorted(samples_of, key=lambda name: layout.splits[name].n_rows)
        for small, large in combinations(by_size, 2):
            n_equal = int(np.isin(samples_of[small], samples_of[large]).sum())
            if n_equal:
                n_samples = layout.splits[small].n_rows
                yield (
                    f"{n_equal} of {n_samples} samples of {small} are in {large} too: "
                    f"their field {self.compared} is equal"
                )


def _is_finite(values: np.ndarray) -> bool:
    if values.dtype.kind not in "fc":
        return True
    if values.itemsize > 2:
        flat = values.reshape(-1)
        if np.isfinite(np.vdot(flat, flat)):  # three times as fast as to look at each value
            return True
    return bool(np.isfinite(values).all())


def _keys(block: np.ndarray) -> np.ndarray:
    """A key (B,) for each sample of (B, ...): its words, or some of them, by fixed random weights."""
    n = len(block)
    content = block.reshape(n, -1).view(np.uint8)
    n_words = content.shape[1] // WORD_BYTES
    words = content[:, : n_words * WORD_BYTES].view(np.uint64)
    if n_words > ALL_WORDS:
        words = words.take(_places(n_words), 1)
    rest = content[:, n_words * WORD_BYTES :].astype(np.uint64)
    return _weighted(words) + _weighted(rest) + np.uint64(1)


def _ragged_keys(block: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """A key for each sample of a block that joins them: its length, and values all over it."""
    lengths = np.diff(starts, append=len(block))
    places = np.linspace(0, 1, PROBES, endpoint=False)
    probed = starts[:, None] + (lengths[:, None] * places).astype(np.int64)
    values = block[np.minimum(probed, len(block) - 1)]
    return _keys(values) + lengths.astype(np.uint64)


@cache
def _places(n_words: int) -> np.ndarray:
    return np.sort(np.random.default_rng(0).choice(n_words, PROBES, replace=False))


@cache
def _weights(n: int) -> np.ndarray:
    """Odd, so that no bit of a word is lost."""
    return np.random.default_rng(1).integers(2**63, size=n, dtype=np.uint64) * 2 + 1


def _weighted(words: np.ndarray) -> np.ndarray:
    return np.einsum("ij,j->i", words, _weights(words.shape[1]))


def _digests(layout: Layout, name: str, rows: np.ndarray) -> np.ndarray:
    """(B,) a hash of all bytes of each of these samples."""
    values = layout.map(layout.field(name))
    offsets = np.arange(len(values) + 1)
    if layout.is_ragged(name):
        offsets = layout.map(layout.arrays[name + OFFSETS])
    contents = (values[offsets[row] : offsets[row + 1]].tobytes() for row in rows)
    digests = (hashlib.blake2b(content, digest_size=8).digest() for content in contents)
    return np.frombuffer(b"".join(digests), np.uint64)
