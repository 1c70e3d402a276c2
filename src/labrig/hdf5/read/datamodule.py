"""Lightning's side of a data file: finds it, stages it, and gives each rank its loaders."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import numpy as np
import torch
from lightning.pytorch.core.hooks import DataHooks
from lightning.pytorch.strategies import ModelParallelStrategy
from lightning.pytorch.utilities import rank_zero_only
from torch.utils.data import DataLoader

from ...errors import LabError
from ...machine.resources import cores, memory_limit_bytes
from ...machine.text_formats import counted
from ..file.checksum import Fingerprint, fingerprint, hash_of_rows
from ..file.errors import DataFileError
from ..file.find import find_data_files, place_of, require_pushed
from ..file.groups import SOURCE, SPAN, refuse_overlap
from ..file.joined import join_layouts, read_layouts
from ..file.layout import GROUP, Layout, read_layout
from ..file.tokens import N_TOKENS
from ..pack.sources import KINDS
from .dataset import H5Dataset, Transform, as_is
from .field_readers import Shape, is_encoded
from .loader import Loader, set_steps_done
from .order import Order, check_fold, rows_of_fold, rows_of_fraction, samples_in_block
from .stage import read_into_cache, stage
from .standardize import (
    Statistics,
    check_scaling,
    of_groups_in,
    require_statistics,
    standardized,
    training_statistics,
)
from .windows import check_windows

ORDERS = ("auto", "random", "blocks", "lengths")
DRAWS = ("seed", "torch")
STATISTICS = "standardize"  # in the state that a checkpoint keeps


class H5DataModule(L.LightningDataModule):
    """Train, val, test and predict loaders over one data file.

    Subclass it in data.py: what a sample is (`samples`), how a batch is transformed in a worker
    (`transform`) and on the device (`on_after_batch_transfer`).

    Args:
        path: the file, looked up along `search` unless absolute; or several with the same fields, read
            as one: a folder, a pattern such as `climate-*.h5`, or a list.
        search: directories, first wins.
        batch_size: samples per step and rank.
        seed: of the order and of all random augmentation.
        fields: what to read; see `H5Dataset`.
        shapes: of ragged fields; see `H5Dataset`. Training crops longer samples at random, else the start.
        windows: parts of longer samples; see `H5Dataset`. {x: 65}: in training at random places, which
            follow from seed, epoch and index, else piece after piece. {past: 96, next: 24, stride: 4}: each
            once an epoch.
        windows_per_epoch: random ones; null: as many as there are pieces.
        num_workers: processes that read; 0: one thread; `auto`: 0, for encoded images the cores per rank.
        stage: copy the file to `shm`, `tmpdir` or a directory of the node first; null: read it once.
        drop_last: leave out the last, smaller step of a training epoch (other samples each epoch).
        scale: field -> the number that it is divided by on the device, which gives float32: {x: 255}
            makes 0..1 of uint8 images.
        standardize: fields of which the mean is subtracted on the device, then divided by the deviation,
            which gives float32: those of the training rows of the run, of its fold too. They lie in the
            checkpoint, and hold for all data that the run is evaluated on.
        standardize_per_group: by those of the group of each sample; `fields` has group.
        pack: the command that makes the file, for the message when it is missing.
        url, sha256: of the raw data, which `lab data pack` and `lab prefetch` download once.
        stored: where `lab data push` has put the files, for that message and `lab data pull`.
        folds: parts of the file's train and val for cross-validation; groups stay whole. null: its splits.
        fold: the part that is held out as val, in 0..folds-1.
        fraction: share of the training samples that is used, the same ones in every run; groups stay whole.
        stratify: a field of classes, of which each fold and `fraction` get equal parts; null: none.
        order: how training reads: `random`; `blocks`: whole blocks of the file, of which some are mixed;
            `lengths`: samples of similar length share a step. `auto`: blocks when the fields are larger than
            the memory of the job, else random.
        draws: what the order of training follows from: `seed`, the seed and the epoch, so that a run
            resumes to the last bit; or `torch`, torch's generator, from which a DataLoader of torch
            draws it on one process. Then a port of a script has the script's bits, with dropout too.
        copy_ahead: on a GPU, the next batch is copied while the training computes with the last. It
            takes the memory of one batch. Not where a hook wants the batch before its copy.

    Raises:
        LabError: no samples per step, a scale of something that is not read, no such fold or order.
    """

    def __init__(
        self,
        path: str | Sequence[str],
        search: str | Sequence[str] = ("data",),
        batch_size: int = 64,
        seed: int = 0,
        fields: Sequence[str] = ("x", "y"),
        shapes: Mapping[str, Shape] | None = None,
        windows: Mapping[str, int] | None = None,
        windows_per_epoch: int | None = None,
        num_workers: int | str = "auto",
        stage: str | None = None,
        drop_last: bool = False,
        scale: Mapping[str, float] | None = None,
        standardize: str | Sequence[str] | None = None,
        standardize_per_group: bool = False,
        pack: str | None = None,
        folds: int | None = None,
        fold: int | None = None,
        fraction: float = 1.0,
        stratify: str | None = None,
        order: str = "auto",
        draws: str = "seed",
        copy_ahead: bool = True,
        url: str | None = None,
        sha256: str | None = None,
        stored: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if batch_size < 1:
            raise LabError(f"data.batch_size is {batch_size}, expected at least 1.")
        self.path = path if isinstance(path, str) else list(path)
        self.search = [search] if isinstance(search, str) else list(search)
        self.batch_size = batch_size
        self.seed = seed
        self.fields = tuple(fields)
        self.shapes = dict(shapes or {})
        self.windows = dict(windows or {})
        self.windows_per_epoch = windows_per_epoch
        check_windows(self.windows, windows_per_epoch, order)
        self.num_workers = num_workers
        self.stage = stage
        self.drop_last = drop_last
        self.scale = dict(scale or {})
        self.pack = pack
        self.url = url
        self.sha256 = sha256
        self.stored = stored
        check_fold(folds, fold)
        if not 0 < fraction <= 1:
            raise LabError(f"data.fraction is {fraction}, expected a share: above 0, at most 1.")
        chosen = "folds" if folds is not None else "fraction" if fraction < 1 else None
        if chosen and type(self).rows is not H5DataModule.rows:
            raise LabError(
                f"{type(self).__name__}.rows() chooses the rows itself, so data.{chosen} has no "
                "effect. Delete one of the two."
            )
        self.folds = folds
        self.fold = fold
        self.fraction = fraction
        self.stratify = stratify
        if order not in ORDERS:
            raise LabError(f"data.order is {order!r}, expected one of: {', '.join(ORDERS)}.")
        self.order = order
        if draws not in DRAWS:
            raise LabError(f"data.draws is {draws!r}, expected one of: {', '.join(DRAWS)}.")
        self.draws = draws
        self.copy_ahead = copy_ahead
        self.standardize = (
            (standardize,) if isinstance(standardize, str) else tuple(standardize or ())
        )
        self.standardize_per_group = standardize_per_group
        check_scaling(self.scale, self.standardize, standardize_per_group, self.fields)
        self.loaders: dict[str, Loader] = {}
        self.predict_split = "test"  # what `predict_dataloader` gives; "all": every sample

    @classmethod
    def samples(cls, source: Path | None) -> Iterator[dict[str, Any]]:
        """Yields what `lab data pack` packs, one sample at a time: {"x": array, "y": number}.
        Further keys are further fields; "split" puts a sample into that split, "group" keeps all
        samples of one group in one split. A text "y" names a class, and a text "name" the sample. No two
        splits or folds may share a step of a "source" within the "span" (first, last) of a sample.
        """
        raise LabError(
            f"{cls.__name__} has no samples(): write one in data.py, or say what the source holds: "
            f"--as {', '.join(KINDS[:-1])} or {KINDS[-1]}"
        )

    transform: Transform | None = None
    """Called as transform(batch, rng) on whole training batches, in the reading thread or worker;
    draw from `rng` only."""

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        """On the device: divides the fields of `scale`, standardises those of `standardize`, and makes
        int64 of tokens, which are small in the file. Override it to normalise or augment, and call
        super() first to keep that.
        """
        if not self.scale and not self.standardize and not self.tokens:
            return batch
        scaled = []
        group = batch[self.fields.index(GROUP)] if self.standardize_per_group else None
        for name, tensor in zip(self.fields, batch, strict=True):
            if name in self.scale:
                tensor = (tensor if tensor.is_complex() else tensor.float()) / self.scale[name]
            elif name in self.standardize:
                tensor = standardized(tensor, self.statistics[name], group)
            elif name in self.tokens:
                tensor = tensor.long()
            scaled.append(tensor)
        return tuple(scaled)

    @cached_property
    def tokens(self) -> set[str]:
        """The fields that hold tokens."""
        return {name for name, array in self.layout.fields.items() if N_TOKENS in array.attrs}

    @cached_property
    def statistics(self) -> Statistics:
        """Mean and deviation of each field of `standardize`: of the training rows, unless a checkpoint
        brought them.
        """
        if not self.standardize:
            return {}
        rows = self.rows("train")
        if rows is None:
            rows = self.layout.map(self.layout.split("train"))
        how = self.standardize_per_group
        return {
            name: training_statistics(self.layout, name, rows, how) for name in self.standardize
        }

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps of the data: the statistics."""
        return {STATISTICS: self.statistics} if self.standardize else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if self.standardize and STATISTICS in state_dict:
            self.statistics = of_groups_in(self.layout, state_dict[STATISTICS])

    @cached_property
    def files(self) -> list[Path]:
        """The data files, found along `search`; one that comes later is not read."""
        files = find_data_files(self.path, self.search, self.pack, self.stored)
        require_pushed(self.path, files, self.stored)
        return files

    @property
    def file(self) -> Path:
        """The data file; the first of several."""
        return self.files[0]

    @cached_property
    def layout(self) -> Layout:
        """Of what is read: the staged copies, if there are any."""
        layout = self._read_files()
        if not self.stage:
            return layout
        copies = [stage(part.path, self.stage, owner=self) for part in layout.parts]
        return join_layouts([read_layout(copy) for copy in copies])

    def _read_files(self) -> Layout:
        return read_layouts(self.files, is_whole=isinstance(self.path, str))

    @property
    def n_classes(self) -> int | None:
        """One more than the largest label y; None when y is no class, or not read."""
        label = self.layout.fields.get("y")
        is_class = label is not None and label.dtype.kind in "iu" and len(label.shape) == 1
        if label is None or not is_class or "y" not in self.fields:
            return None
        return int(self.layout.map(label).max()) + 1

    def prepare_data(self) -> None:
        """Once per node: refuses a damaged file, and splits that share steps; reads a cold one."""
        layout = self._read_files()
        if {SOURCE, SPAN} <= layout.fields.keys():
            source, span = (layout.map(layout.field(name)) for name in (SOURCE, SPAN))
            of_file = {split: layout.map(layout.split(split)) for split in layout.splits}
            refuse_overlap(str(layout.path), source, span, of_file | self._own_rows())
        if not self.stage and self.order != "blocks":
            read_into_cache(*self.files)

    def train_dataloader(self) -> Loader | DataLoader:
        overfits = bool(self.trainer and self.trainer.overfit_batches)
        return self._loader_of_fit("train", shuffle=not overfits)

    def val_dataloader(self) -> Loader | DataLoader | list:
        has_val = self.folds is not None or "val" in self.layout.splits
        return self._loader_of_fit("val") if has_val else []

    def test_dataloader(self) -> Loader | list:
        return self.loader("test") if "test" in self.layout.splits else []

    def predict_dataloader(self) -> Loader:
        return self.loader(self.predict_split)

    def loader(self, split: str, shuffle: bool = False) -> Loader:
        """This rank's part of `split`; a shuffled loader crops at random and applies `transform`.

        Raises:
            DataFileError: the split has fewer samples than there are ranks (or none).
        """
        self._agree_on_files()
        dataset = self._dataset(split, shuffle)
        if self.standardize_per_group:
            require_statistics(self.layout, dataset.rows, self.statistics)
        rank, world_size = self.ranks()
        if dataset.windows and rank == 0:
            dataset.windows.tell_of_short_samples(split)
        if len(dataset) < world_size:
            raise DataFileError(
                f"{self.layout.path}: split {split!r} has {counted(len(dataset), 'sample')}, fewer "
                f"than the {world_size} processes. Pack it with a larger share."
            )
        lengths = dataset.padded_lengths() if shuffle and self.order == "lengths" else None
        order = Order(
            len(dataset),
            self.batch_size,
            self.seed,
            shuffle=shuffle,
            drop_last=self.drop_last and shuffle,
            rank=rank,
            world_size=world_size,
            block=self._block() if shuffle else 0,
            lengths=lengths,
            bucket=0 if lengths is None else world_size * self.batch_size,
        )
        loader = Loader(
            dataset,
            order,
            num_workers=self._number_of_workers(),
            pin_memory=torch.cuda.is_available(),
            device=self._copies_to(),
        )
        trainer = self.trainer
        if trainer and shuffle:
            loader.current_epoch = lambda: trainer.current_epoch
            loader.on_resume_with_other_steps = partial(set_steps_done, trainer)
        self.loaders[split] = loader
        return loader

    def _dataset(self, split: str, shuffle: bool) -> H5Dataset:
        return H5Dataset(
            self.layout,
            split,
            self.fields,
            shapes=self.shapes,
            windows=self.windows,
            n_windows=self.windows_per_epoch,
            crop="random" if shuffle else "start",
            transform=self.transform if shuffle else None,
            rows=self.rows(split),
        )

    def _loader_of_fit(self, split: str, shuffle: bool = False) -> Loader | DataLoader:
        """The loader of a split; with `draws: torch` a DataLoader of torch.

        Raises:
            LabError: `draws: torch` with several processes, or with another order than random.
        """
        if self.draws != "torch":
            return self.loader(split, shuffle)
        if self.ranks()[1] > 1 or self._block() or self.order == "lengths":
            raise LabError(
                "data.draws=torch has the order of a DataLoader on one process, which reads at random. "
                "Type: data.order=random trainer.devices=1, or leave out data.draws"
            )
        return DataLoader(
            self._dataset(split, shuffle),
            self.batch_size,
            shuffle,
            num_workers=self._number_of_workers(),
            collate_fn=as_is,
            pin_memory=torch.cuda.is_available(),
            drop_last=self.drop_last and shuffle,
        )

    def _copies_to(self) -> torch.device | None:
        """The GPU that batches are copied to ahead; None: Lightning copies each when its turn comes."""
        if not self.copy_ahead or self.trainer is None:
            return None
        device = self.trainer.strategy.root_device
        wanted = [
            getattr(type(owner), hook) is not getattr(DataHooks, hook)
            for owner in (self, self.trainer.lightning_module)
            for hook in ("on_before_batch_transfer", "transfer_batch_to_device")
        ]
        return None if device.type != "cuda" or any(wanted) else device

    def rows(self, split: str) -> np.ndarray | None:
        """The rows of the file that make `split`, (n,) int64; None: those of the file's own split.
        Override it for folds or a part of your own. The file's own rows
        are `self.layout.map(self.layout.split(split))`.

        Raises:
            LabError: too few samples or groups for `folds`, or `stratify` names no classes.
        """
        rows = None
        if self.folds is not None and self.fold is not None:
            rows = rows_of_fold(self.layout, split, self.folds, self.fold, self.stratify)
        if self.fraction < 1 and split == "train":
            if rows is None:
                rows = self.layout.map(self.layout.split(split))
            rows = rows_of_fraction(self.layout, rows, self.fraction, self.stratify)
        return rows

    def ranks(self) -> tuple[int, int]:
        """This process's rank and the number of ranks; with speed.tensor_parallel, of its group and
        of the groups.
        """
        if self.trainer and isinstance(self.trainer.strategy, ModelParallelStrategy):
            return data_ranks(self.trainer)
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
        if self.draws == "torch":
            drawn = torch.empty((), dtype=torch.int64).random_()
            return torch.Generator(device).manual_seed(int(drawn))
        loader = self.loaders["train"]
        entropy = (self.seed, loader.epoch, loader.position, loader.order.rank)
        seed = int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> 1)
        return torch.Generator(device).manual_seed(seed)

    def _own_rows(self) -> dict[str, np.ndarray]:
        """The rows of the splits that are not as in the file."""
        rows = {split: self.rows(split) for split in self.layout.splits}
        return {split: of_split for split, of_split in rows.items() if of_split is not None}

    def fingerprint(self) -> Fingerprint | None:
        """What the file that is read is by its content; None on all ranks but the first."""
        if rank_zero_only.rank != 0:
            return None
        rows = {split: hash_of_rows(of_split) for split, of_split in self._own_rows().items()}
        content: Any = {**fingerprint(self.layout), "path": str(place_of(self.files).resolve())}
        for part, file in zip(content.get("files", []), self.files, strict=False):
            part["path"] = str(file.resolve())  # not that of a staged copy
        if self.block:
            content["order"] = "blocks"
        return content | {"rows": rows} if rows else content

    def teardown(self, stage: str) -> None:
        for loader in self.loaders.values():
            loader.close()

    def _agree_on_files(self) -> None:
        """Leaves out files that were added after the first rank has looked.

        Raises:
            DataFileError: this node does not see all that the first rank sees.
        """
        decided = [len(self.files)]
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.broadcast_object_list(decided)
        if decided[0] > len(self.files):
            raise DataFileError(
                f"{place_of(self.files)} has {len(self.files)} files here, and {decided[0]} for the "
                "first process. Wait until this node sees them, then start again."
            )
        if decided[0] < len(self.files):
            self.files = self.files[: decided[0]]
            self.layout = join_layouts(self.layout.parts[: decided[0]])

    def _block(self) -> int:
        """Samples in a block, as the first rank decides; 0: training reads at random."""
        decided = [self.block]
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.broadcast_object_list(decided)  # nodes may differ in their memory
        return decided[0]

    @cached_property
    def block(self) -> int:
        """Samples in a block, as this machine has memory; 0: training reads at random."""
        if self.windows:
            return 0
        tells = rank_zero_only.rank == 0
        return samples_in_block(self.layout, self.fields, self.order, memory_limit_bytes(), tells)

    def _number_of_workers(self) -> int:
        if self.num_workers != "auto":
            return int(self.num_workers)
        arrays = [array for name, array in self.layout.fields.items() if name in self.fields]
        if not any(map(is_encoded, arrays)):
            return 0
        ranks_here = self.trainer.num_devices if self.trainer else 1
        return max(1, cores() // ranks_here - 1)


def data_ranks(trainer: L.Trainer) -> tuple[int, int]:
    """Which part of the samples this process reads, and of how many.

    Processes that share each layer (speed.tensor_parallel) read the same.
    """
    if not isinstance(trainer.strategy, ModelParallelStrategy):
        return trainer.global_rank, trainer.world_size
    groups = trainer.strategy.device_mesh["data_parallel"]
    return groups.get_local_rank(), groups.size()
