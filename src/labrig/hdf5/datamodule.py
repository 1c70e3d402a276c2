"""Lightning's side of a data file: finds it, stages it, and gives each rank its loaders."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import numpy as np
import torch
from lightning.pytorch.utilities import rank_zero_only

from ..errors import LabError
from ..machine.counted import counted
from ..machine.cpu import cores
from .checksum import Fingerprint, fingerprint
from .dataset import H5Dataset, Transform
from .field_readers import Shape, is_encoded
from .file_errors import DataFileError
from .file_layout import Layout, read_layout
from .find import find_data_file
from .loader import Loader
from .order import Order
from .page_cache import read_into_cache
from .raw_sources import KINDS
from .stage import stage


class H5DataModule(L.LightningDataModule):
    """Train, val, test and predict loaders over one data file.

    Subclass it in data.py: what a sample is (`samples`), how a batch is transformed in a worker
    (`transform`) and on the device (`on_after_batch_transfer`).

    Args:
        path: the file, looked up along `search` unless absolute.
        search: directories, first wins.
        batch_size: samples per step and rank.
        seed: of the order and of all random augmentation.
        fields: what to read; see `H5Dataset`.
        shapes: of ragged fields; see `H5Dataset`. Longer samples are cropped at random in training,
            else from the start.
        num_workers: processes that read; 0: one thread; `auto`: 0, or for encoded images the cores
            there are per rank.
        stage: copy the file to `shm` (/dev/shm), `tmpdir` or a directory of the node first; null:
            read it once.
        drop_last: leave out the last, smaller step of a training epoch (other samples each epoch).
        scale: field -> the number that it is divided by on the device, which gives float32: {x: 255}
            makes 0..1 of uint8 images.
        pack: the command that makes the file, for the message when it is missing.

    Raises:
        LabError: no samples per step, or a scale of something that is not read.
    """

    def __init__(
        self,
        path: str,
        search: str | Sequence[str] = ("data",),
        batch_size: int = 64,
        seed: int = 0,
        fields: Sequence[str] = ("x", "y"),
        shapes: Mapping[str, Shape] | None = None,
        num_workers: int | str = "auto",
        stage: str | None = None,
        drop_last: bool = False,
        scale: Mapping[str, float] | None = None,
        pack: str | None = None,
    ) -> None:
        super().__init__()
        if batch_size < 1:
            raise LabError(f"data.batch_size is {batch_size}, expected at least 1.")
        self.path = path
        self.search = [search] if isinstance(search, str) else list(search)
        self.batch_size = batch_size
        self.seed = seed
        self.fields = tuple(fields)
        self.shapes = dict(shapes or {})
        self.num_workers = num_workers
        self.stage = stage
        self.drop_last = drop_last
        self.scale = dict(scale or {})
        self.pack = pack
        unread = sorted(self.scale.keys() - set(self.fields))
        if unread:
            raise LabError(f"data.scale names {unread}, expected some of data.fields: {fields}.")
        self.loaders: dict[str, Loader] = {}
        self.predict_split = "test"  # what `predict_dataloader` gives; "all": every sample

    @classmethod
    def samples(cls, source: Path | None) -> Iterator[dict[str, Any]]:
        """Yields what `lab data pack` packs, one sample at a time: {"x": array, "y": number}.
        Further keys are further fields; "split" puts a sample into that split, "group" keeps all
        samples of one group in one split.

        Raises:
            LabError: the class has none of its own.
        """
        raise LabError(
            f"{cls.__name__} has no samples(): write one in data.py, or say what the source holds: "
            f"--as {', '.join(KINDS[:-1])} or {KINDS[-1]}"
        )

    transform: Transform | None = None
    """Called as transform(batch, rng) on whole training batches, in the reading thread or worker;
    draw from `rng` only."""

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        """On the device: divides the fields of `scale`. Override it to normalise or augment, and
        call super() first to keep the division.
        """
        if not self.scale:
            return batch
        scaled = []
        for name, tensor in zip(self.fields, batch, strict=True):
            scaled.append(tensor.float() / self.scale[name] if name in self.scale else tensor)
        return tuple(scaled)

    @property
    def file(self) -> Path:
        """The data file, found along `search`."""
        return find_data_file(self.path, self.search, self.pack)

    @cached_property
    def layout(self) -> Layout:
        """Of the file that is read: the staged copy, if there is one."""
        if self.stage:
            return read_layout(stage(self.file, self.stage, owner=self))
        return read_layout(self.file)

    @property
    def n_classes(self) -> int | None:
        """One more than the largest label y; None when y is no class, or not read."""
        label = self.layout.fields.get("y")
        is_class = label is not None and label.dtype.kind in "iu" and len(label.shape) == 1
        if label is None or not is_class or "y" not in self.fields:
            return None
        return int(self.layout.map(label).max()) + 1

    def prepare_data(self) -> None:
        """Once per node: a missing or damaged file ends the job here; a cold one is read."""
        read_layout(self.file)
        if not self.stage:
            read_into_cache(self.file)

    def train_dataloader(self) -> Loader:
        overfits = bool(self.trainer and self.trainer.overfit_batches)
        return self.loader("train", shuffle=not overfits)

    def val_dataloader(self) -> Loader | list:
        return self.loader("val") if "val" in self.layout.splits else []

    def test_dataloader(self) -> Loader | list:
        return self.loader("test") if "test" in self.layout.splits else []

    def predict_dataloader(self) -> Loader:
        return self.loader(self.predict_split)

    def loader(self, split: str, shuffle: bool = False) -> Loader:
        """This rank's part of `split`; a shuffled loader crops at random and applies `transform`.

        Raises:
            DataFileError: the split has fewer samples than there are ranks (or none).
        """
        dataset = H5Dataset(
            self.layout,
            split,
            self.fields,
            shapes=self.shapes,
            crop="random" if shuffle else "start",
            transform=self.transform if shuffle else None,
            rows=self.rows(split),
        )
        rank, world_size = self.ranks()
        if len(dataset) < world_size:
            raise DataFileError(
                f"{self.layout.path}: split {split!r} has {counted(len(dataset), 'sample')}, fewer "
                f"than the {world_size} processes. Pack it with a larger share."
            )
        order = Order(
            len(dataset),
            self.batch_size,
            self.seed,
            shuffle=shuffle,
            drop_last=self.drop_last and shuffle,
            rank=rank,
            world_size=world_size,
        )
        loader = Loader(
            dataset,
            order,
            num_workers=self._number_of_workers(),
            pin_memory=torch.cuda.is_available(),
        )
        trainer = self.trainer
        if trainer and shuffle:
            loader.current_epoch = lambda: trainer.current_epoch
            loader.on_resume_with_other_steps = partial(set_steps_done, trainer)
        self.loaders[split] = loader
        return loader

    def rows(self, split: str) -> np.ndarray | None:
        """The rows of the file that make `split`, (n,) int64; None: those of the file's own split.
        Override it for k folds, or for a part of the training data.
        """
        return None

    def ranks(self) -> tuple[int, int]:
        """This process's rank and the number of ranks."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return torch.distributed.get_rank(), torch.distributed.get_world_size()
        if self.trainer:
            return self.trainer.global_rank, self.trainer.world_size
        return 0, 1

    def generator(self, device: torch.device | str = "cpu") -> torch.Generator:
        """For random augmentation in `on_after_batch_transfer`: seeded by (seed, epoch, sample
        count, rank), so that a resumed run draws for each batch what an uninterrupted one would
        have drawn.
        """
        loader = self.loaders["train"]
        entropy = (self.seed, loader.epoch, loader.position, loader.order.rank)
        seed = int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> 1)
        return torch.Generator(device).manual_seed(seed)

    def fingerprint(self) -> Fingerprint | None:
        """What the file that is read is by its content; None on all ranks but the first."""
        if rank_zero_only.rank != 0:
            return None
        return {**fingerprint(self.layout), "path": str(self.file.resolve())}

    def teardown(self, stage: str) -> None:
        for loader in self.loaders.values():
            loader.close()

    def _number_of_workers(self) -> int:
        if self.num_workers != "auto":
            return int(self.num_workers)
        arrays = [array for name, array in self.layout.fields.items() if name in self.fields]
        if not any(map(is_encoded, arrays)):
            return 0
        ranks_here = self.trainer.num_devices if self.trainer else 1
        return max(1, cores() // ranks_here - 1)


def set_steps_done(trainer: L.Trainer, n_steps: int) -> None:
    """Tells Lightning how far the epoch is when the number of ranks changed, so that it ends where
    the data end.
    """
    progress = trainer.fit_loop.epoch_loop.batch_progress.current
    shift = n_steps - progress.ready
    for count in ("ready", "started", "processed", "completed"):
        setattr(progress, count, getattr(progress, count) + shift)
