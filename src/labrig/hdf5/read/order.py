"""The order of samples in an epoch, the same on any number of ranks."""

import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..file.layout import OFFSETS, Layout


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
