"""The order of samples in an epoch, the same on any number of ranks.

And the rows that a fold holds out, or a share of the training rows: the same with every seed and on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...errors import LabError
from ...machine.text_formats import counted
from ..file.groups import group_hashes
from ..file.layout import GROUP, OFFSETS, Layout

DIVIDED = ("train", "val")  # the splits of a file that folds divide anew; test stays as it is


def permutation(n: int, *entropy: int) -> np.ndarray:
    """(n,) int64, random. Sorting raw 64-bit draws, unlike Generator.permutation, is the same in
    every version of NumPy.
    """
    return np.random.PCG64(entropy).random_raw(n).argsort()


BLOCK_BYTES = 4 << 20  # read at once
IN_FLIGHT = 16  # blocks whose samples are mixed; as many again are read ahead


def mix_blocks(n: int, block: int, seed: int, epoch: int) -> tuple[np.ndarray, np.ndarray]:
    """The order (n,) int64 of an epoch that reads whole blocks, and the block of each turn.

    Blocks of `block` samples take turns at random. Groups of at most IN_FLIGHT turns follow one
    another, and the samples of a group are mixed. Groups are as large as each other, so that no
    epoch ends with a few blocks alone.
    """
    n_blocks = -(-n // block)
    blocks = permutation(n_blocks, seed, epoch)
    n_groups = -(-n_blocks // IN_FLIGHT)
    group_of_block = np.empty(n_blocks, np.int64)
    group_of_block[blocks] = np.arange(n_blocks) * n_groups // n_blocks
    draws = np.random.PCG64((seed, epoch, n)).random_raw(n)
    return np.lexsort((draws, group_of_block[np.arange(n) // block])), blocks


POOL = 64  # steps among which samples of similar length are sought


def mix_lengths(lengths: np.ndarray, step: int, seed: int, epoch: int) -> np.ndarray:
    """The order (n,) int64 of an epoch whose steps have samples of similar length.

    The samples are mixed and cut into pools of POOL steps. A pool is sorted by length and cut into
    steps, of which the samples are mixed again; the steps take turns at random. The samples that are
    too few for a step come last.

    Args:
        lengths: (n,) of the samples.
        step: samples of similar length that follow one another.
    """
    n_steps = len(lengths) // step
    mixed = permutation(len(lengths), seed, epoch)
    whole, rest = np.split(mixed, [n_steps * step])
    pool = np.arange(len(whole)) // (POOL * step)
    sorted_within_pools = whole[np.lexsort((lengths[whole], pool))]
    steps = sorted_within_pools.reshape(n_steps, step)[permutation(n_steps, seed, epoch, 1)]
    draws = np.random.PCG64((seed, epoch, 2)).random_raw(steps.shape)
    return np.append(np.take_along_axis(steps, draws.argsort(axis=1), axis=1), rest)


def samples_in_block(
    layout: Layout, fields: Collection[str], order: str, limit_bytes: int, tells: bool
) -> int:
    """How many samples a training reads at once; 0: at random.

    Args:
        fields: that are read.
        order: as data.order says it; `auto`: blocks above `limit_bytes`, of which a line `tells`.
    """
    names = {*fields, *(name + OFFSETS for name in fields if layout.is_ragged(name))}
    n_bytes = sum(layout.arrays[name].n_bytes for name in names if name in layout.arrays)
    if order in ("random", "lengths") or (order == "auto" and n_bytes <= limit_bytes):
        return 0
    if order == "auto" and tells:
        print(
            f"lab: {layout.path.name} ({n_bytes / 1e9:.1f} GB) does not fit into the memory "
            f"of the job ({limit_bytes / 1e9:.1f} GB), so training reads it in whole blocks: "
            "data.order=blocks. See: lab docs data",
            file=sys.stderr,
        )
    return max(1, BLOCK_BYTES * layout.n_samples // max(1, n_bytes))


@dataclass
class Batch:
    """What is read at once.

    Args:
        indices: of its samples within the split.
        end: samples of all ranks since the epoch began, this step's included; 0 without a planned
            order.
        entropy: seeds whatever is random in this batch; None without a planned order.
        ahead: blocks to be told to the disk before this batch is read, as indices within the split,
            which then count in the order of the file; None where no blocks are read.
        starts: of windows, where in its sample each begins, (B,) int64; None without windows.
        page_locked: into memory from which a GPU copies while it computes.
    """

    indices: np.ndarray
    end: int = 0
    entropy: tuple[int, ...] | None = None
    ahead: list[range] | None = None
    starts: np.ndarray | None = None
    page_locked: bool = False

    @cached_property
    def rng(self) -> np.random.Generator:
        """Draws the same numbers for this batch whenever, and in whichever process, it is made.
        Without a planned order it follows torch.manual_seed and the seed of a DataLoader's worker.
        """
        if self.entropy:
            return np.random.default_rng(self.entropy)
        import torch  # here, so that packing, which orders samples too, does not import it

        return np.random.default_rng(int(torch.randint(2**62, ()).item()))


@dataclass(frozen=True)
class Order:
    """Cuts the samples 0..n-1 of an epoch into steps, and each step into ranks.

    Every sample comes once per epoch. The last step is smaller and split evenly; when it would
    leave a rank without a sample (fewer samples than ranks) they join the step before. `drop_last`
    leaves out the incomplete step. A shuffled epoch reads at random; whole blocks of `block` samples,
    where that is not 0; or `bucket` samples of similar `lengths` (n,) after one another.
    """

    n: int
    batch_size: int
    seed: int = 0
    shuffle: bool = False
    drop_last: bool = False
    rank: int = 0
    world_size: int = 1
    block: int = 0
    lengths: np.ndarray | None = field(default=None, compare=False)
    bucket: int = 0

    @property
    def step(self) -> int:
        """Samples of all ranks per step."""
        return self.world_size * self.batch_size

    @property
    def name(self) -> str:
        """As data.order calls it."""
        return "blocks" if self.block else "lengths" if self.bucket else "random"

    def starts(self, position: int = 0) -> range:
        """Where the steps begin that follow after `position` samples of the epoch."""
        smallest_step = self.step if self.drop_last else self.world_size
        return range(position, self.n - smallest_step + 1, self.step)

    def batches(self, epoch: int, position: int = 0) -> Iterator[Batch]:
        """This rank's batches of `epoch` from the sample `position` on."""
        blocks = None
        if not self.shuffle:
            order = np.arange(self.n)
        elif self.block:
            order, blocks = mix_blocks(self.n, self.block, self.seed, epoch)
        elif self.lengths is not None and self.bucket:
            order = mix_lengths(self.lengths, self.bucket, self.seed, epoch)
        else:
            order = permutation(self.n, self.seed, epoch)
        starts = self.starts(position)
        n_told = self.n_due(position) - 2 * IN_FLIGHT
        for start in starts:
            end = start + self.step
            if start == starts[-1] and not self.drop_last:
                end = self.n
            first = start + (end - start) * self.rank // self.world_size
            stop = start + (end - start) * (self.rank + 1) // self.world_size
            batch = Batch(order[first:stop], end, (self.seed, epoch, start, self.rank))
            if blocks is not None:
                batch.ahead = self.ranges(blocks[max(0, n_told) : self.n_due(end)])
                n_told = self.n_due(end)
            yield batch

    def n_due(self, position: int) -> int:
        """How many blocks are to be told before the sample at `position` is read: those of its group,
        and the next ones, a block of them for each block that was read.
        """
        return position // self.block + IN_FLIGHT + 1 if self.block else 0

    def ranges(self, blocks: np.ndarray) -> list[range]:
        """The samples of each block."""
        starts = (blocks * self.block).tolist()
        return [range(start, min(start + self.block, self.n)) for start in starts]


def check_fold(folds: int | None, fold: int | None) -> None:
    """Makes sure that both numbers fit together."""
    if folds is None and fold is None:
        return
    if folds is None:
        raise LabError(f"data.fold is {fold}, but data.folds is not set. Write: data.folds=5")
    if folds < 2:
        raise LabError(f"data.folds is {folds}, expected at least 2.")
    if fold is None:
        raise LabError(
            f"data.folds is {folds}, and no fold is named. Write which one is held out, data.fold=0, "
            f"or train all of them: 'data.fold=range({folds})' -m"
        )
    if not 0 <= fold < folds:
        raise LabError(f"data.fold is {fold}, expected 0 to {folds - 1} with data.folds={folds}.")


def rows_of_fold(
    layout: Layout, split: str, folds: int, fold: int, stratify: str | None
) -> np.ndarray | None:
    """The rows of train and val: of val those that the fold holds out, (n,) int64, sorted.

    The rows of the file's own train and val are divided; its test is no part of any fold. Samples of
    one group stay together.

    Args:
        stratify: a field of classes, which each fold gets in equal parts as far as groups allow.

    Returns:
        None for other splits, which are those of the file.
    """
    if split not in DIVIDED:
        return None
    rows = divided_rows(layout)
    classes = classes_of(layout, stratify, rows)
    group_of = groups_of(layout, rows)
    if group_of is not None:
        require_enough(layout, group_of.max(initial=-1) + 1, "group", folds)
        fold_of = divide_groups(group_of, classes, np.ones(folds))
    else:
        require_enough(layout, len(rows), "sample", folds)
        fold_of = divide_samples(classes, folds)
    is_held_out = fold_of == fold
    return rows[is_held_out if split == "val" else ~is_held_out]


def rows_of_fraction(
    layout: Layout, rows: np.ndarray, fraction: float, stratify: str | None
) -> np.ndarray:
    """A share of training rows, sorted; at least one sample, or one group: those stay together.

    Args:
        fraction: of the samples, in 0..1.
        stratify: a field of classes, of each of which that share is taken as far as groups allow.
    """
    classes = classes_of(layout, stratify, rows)
    group_of = groups_of(layout, rows)
    if group_of is not None:
        return rows[divide_groups(group_of, classes, np.array([fraction, 1 - fraction])) == 0]
    n_kept = max(1, round(fraction * len(rows)))
    by_class = np.argsort(classes, kind="stable")
    return rows[np.sort(by_class[np.arange(n_kept) * len(rows) // n_kept])]


def divided_rows(layout: Layout) -> np.ndarray:
    """The rows that folds divide, sorted: those of train and val; all of a file without splits."""
    if not layout.splits:
        return np.arange(layout.n_samples)
    parts = [layout.map(layout.split(name)) for name in DIVIDED if name in layout.splits]
    return np.sort(np.concatenate([np.empty(0, np.int64), *parts]))


def groups_of(layout: Layout, rows: np.ndarray) -> np.ndarray | None:
    """The group of each row as a number from 0; None for data without groups."""
    if GROUP not in layout.fields:
        return None
    if len(layout.parts) > 1 and group_hashes(layout) is None:
        raise LabError(
            f"{layout.path} is {len(layout.parts)} files with groups, which each numbers by itself, so "
            "that no group could be kept together. Pack all of it into one file; or the first one, "
            "then the others with lab data append."
        )
    _, group_of = np.unique(layout.map(layout.field(GROUP))[rows], return_inverse=True)
    return group_of


def classes_of(layout: Layout, field: str | None, rows: np.ndarray) -> np.ndarray:
    """The class of each row as a number from 0; one class for all without a field."""
    if field is None:
        return np.zeros(len(rows), np.int64)
    array = layout.fields.get(field)
    if array is None or array.dtype.kind not in "iub" or len(array.shape) != 1:
        raise LabError(
            f"data.stratify is {field!r}, expected a field of whole numbers, one for each sample. "
            f"Fields: {', '.join(layout.fields)}"
        )
    _, classes = np.unique(layout.map(array)[rows], return_inverse=True)
    return classes


def divide_samples(classes: np.ndarray, folds: int) -> np.ndarray:
    """The fold of each sample, (n,): those of a class take turns, in the order of the file.

    `lab data pack` has put them into a random order already.
    """
    fold_of = np.empty(len(classes), np.int64)
    fold_of[np.argsort(classes, kind="stable")] = np.arange(len(classes)) % folds
    return fold_of


def divide_groups(group_of: np.ndarray, classes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The fold of each sample, (n,): each group, the largest first, goes where its classes are rarest.

    Of several such folds it goes to the smallest, so that none stays empty.

    Args:
        wanted: how large each fold shall be in comparison with the others, (folds,).
    """
    n_groups = group_of.max(initial=-1) + 1
    counts = np.zeros((n_groups, classes.max(initial=0) + 1), np.int64)
    np.add.at(counts, (group_of, classes), 1)
    shares = counts / counts.sum(axis=0)
    fold_of_group = np.empty(n_groups, np.int64)
    sizes = counts.sum(axis=1)
    share_in_fold = np.zeros((len(wanted), counts.shape[1]))
    size_of_fold = np.zeros(len(wanted), np.int64)
    for group in np.argsort(-sizes, kind="stable"):
        fullness = share_in_fold @ shares[group] / wanted
        fold = np.lexsort((size_of_fold / wanted, fullness))[0]
        fold_of_group[group] = fold
        share_in_fold[fold] += shares[group]
        size_of_fold[fold] += sizes[group]
    return fold_of_group[group_of]


def require_enough(layout: Layout, n: int, noun: str, folds: int) -> None:
    """Makes sure that no fold is empty."""
    if n < folds:
        raise LabError(
            f"{layout.path} has {counted(n, noun)} in train and val, too few for "
            f"data.folds={folds}. Write a smaller number."
        )
