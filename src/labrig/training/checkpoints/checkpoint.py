"""Checkpoints of plain types, written to a temporary file that is renamed: last.ckpt,
previous.ckpt, best.ckpt."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from enum import Enum
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import lightning.pytorch as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Checkpoint as LightningCheckpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO
from omegaconf import Container, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch.distributed.checkpoint.api import CheckpointException

from ... import env
from ...config.trainer_arguments import WRITES_DIRECTORIES
from ...errors import LabError
from ...record.files.atomic import read_advisory
from ...record.files.checkpoint_files import SUMS, link_or_copy, put_back, remove, take_place
from ...record.files.checkpoint_hashes import HashedFile, known_hash, known_hashes, remember_hash
from ...record.reproduce.weight_tensors import with_left_out
from ...record.write.attempt import RowsHash, note_attempt
from ..exact.random_state import RandomState, read_random_state, set_random_state
from ..exact.steps import accumulates, ends_epoch, is_logging_step, nothing_pending, steps_done
from ..exact.unsaved import gradients_wait
from ..lightning_internals import (
    begin_after_finished_epoch,
    count_finished_epoch,
    forget_skipped_batch,
    load_loader_states,
    resume_epoch,
)
from .state_copy import copied, disk_error

# What `torch.load(weights_only=True)` accepts, besides None, tensors, lists, tuples, sets and dicts.
PLAIN = (bool, int, float, complex, str, bytes, torch.dtype)
BASES = (int, float, complex, str, bytes)  # a value of a class derived from one of them becomes it
NOT_IN_FILE = "hyper_parameters_not_in_file"  # a key of checkpoints, for load_from_checkpoint


class AtomicCheckpointIO(TorchCheckpointIO):
    """Saves plain types only, to a temporary file that is then renamed.

    A disk that takes no more does not raise: only one rank writes, and the others would wait for it.
    Its error is in `error` until `Checkpoints` raises it on all ranks, at the end of the epoch at the
    latest.

    Args:
        directory: where last.ckpt, when it is written again, becomes previous.ckpt; None: nowhere.
        background: what is saved there is written as a copy, while the training goes on. `wait` waits
            for it.
    """

    def __init__(self, directory: Path | None = None, *, background: bool = False) -> None:
        super().__init__()
        self.last = directory / "last.ckpt" if directory else None
        self.error: OSError | None = None
        self.thread = ThreadPoolExecutor(1) if background else None
        self.steps: list[Future[None]] = []  # in the thread, in order
        self.ended_s = 0.0  # when the newest save was whole

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        content = plain_checkpoint(checkpoint)
        self.wait()
        if self.is_in_background(path):
            content = copied(content)
        self.do(partial(self._write, content, Path(path)), path)

    def load_checkpoint(self, path: str | Path, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return with_left_out(super().load_checkpoint(path, *args, **kwargs), Path(path))

    def _write(self, content: dict[str, Any], path: Path) -> None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        with self._errors_kept(path, temporary):
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(temporary, "wb") as file, HashedFile(file) as hashed:
                torch.save(content, cast("Any", hashed))
                file.flush()
                os.fsync(file.fileno())
            # Before it gets its name, so that a kill leaves no checkpoint without a hash.
            if self.last and path.parent == self.last.parent:  # no other place is the record's
                remember_hash(temporary, hashed.hexdigest())
            self._take_place(temporary, path)

    @contextmanager
    def _errors_kept(self, path: Path, temporary: Path) -> Iterator[None]:
        """Keeps the error of a disk, and removes what was written."""
        try:
            yield
        except (OSError, RuntimeError, CheckpointException) as error:
            remove(temporary)
            self.error = self.error or disk_error(error, path)
        self.ended_s = time.monotonic()

    def _take_place(self, temporary: Path, path: Path) -> None:
        if path == self.last and path.exists():
            take_place(path, path.with_name("previous.ckpt"))
        take_place(temporary, path)

    def is_in_background(self, path: str | Path) -> bool:
        """Whether a checkpoint is that of `Checkpoints`: others may read theirs at once."""
        return bool(self.thread and self.last and Path(path).parent == self.last.parent)

    def do(self, step: Callable[[], None], path: str | Path) -> None:
        """Does a step of the save of `path`: now, or in the thread after those before."""
        if self.thread and self.is_in_background(path):
            self.steps.append(self.thread.submit(step))
        else:
            step()

    def wait(self) -> None:
        """Until what was saved is whole."""
        steps, self.steps = self.steps, []
        for step in steps:
            step.result()


BEST_VALUE = "_best"  # behind the name of a metric: its value at best.ckpt


class Checkpoints(LightningCheckpoint):
    """Keeps last.ckpt and previous.ckpt, and best.ckpt by a metric. Each holds the random
    generators of every rank.

    Args:
        directory: where they are.
        every_min: minutes between checkpoints within an epoch, > 0.
        every_steps: optimizer steps between those that stay, step-<steps>.ckpt; None: none stay.
        monitor: metric that chooses best.ckpt, such as "val/loss"; None for no best.ckpt.
        mode: "min" or "max" of it.
        test_with: which of them is tested: last, best or auto.
    """

    def __init__(
        self,
        directory: Path,
        *,
        every_min: float,
        every_steps: int | None = None,
        monitor: str | None,
        mode: str,
        test_with: str = "auto",
    ) -> None:
        self.directory = Path(directory)
        self.every_s = 60 * every_min
        self.every_steps = every_steps
        self.monitor = monitor
        self.mode = mode
        self.test_with = test_with
        self.best: float | None = None
        self.saved_at_s = time.monotonic()
        self.checkpoint_loops: dict[str, Any] = {}
        self.random_states: list[RandomState] = []
        self.metrics_before: dict[str, Any] = {}
        self.save_time = SaveTime()
        self.rows = RowsHash()
        self.began_s: float | None = None  # a save that is not whole yet

    def save_now(self, trainer: L.Trainer) -> None:
        """Saves last.ckpt, which is whole after `finish`; to be called on all ranks together."""
        self.save(trainer, self.directory / "last.ckpt")
        self.saved_at_s = time.monotonic()

    def save(self, trainer: L.Trainer, path: Path) -> None:
        """Saves a checkpoint; to be called on all ranks together."""
        self.finish(trainer)
        self.began_s = time.monotonic()
        trainer.save_checkpoint(path)
        if path.is_dir() and not (path / SUMS).exists():
            strategy = type(trainer.strategy).__name__
            raise LabError(
                f"{path} is a directory: trainer.strategy={strategy} {WRITES_DIRECTORIES}"
            )
        if not io_of(trainer).thread:
            self.finish(trainer)

    def finish(self, trainer: L.Trainer) -> None:
        """Waits until the newest checkpoint is whole; to be called on all ranks together."""
        if self.began_s is None:
            return
        io_of(trainer).wait()
        raise_on_all_ranks(trainer)
        seconds = io_of(trainer).ended_s - self.began_s
        self.began_s = None
        self.save_time.note(trainer, seconds)
        run_dir, attempt = os.environ.get(env.RUN_DIR), os.environ.get(env.ATTEMPT)
        if trainer.is_global_zero and run_dir and attempt:
            self.rows.note(Path(run_dir), int(attempt))
        if trainer.is_global_zero and not io_of(trainer).thread:
            self.save_time.offer_background(seconds)

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if trainer.is_global_zero:
            put_back(self.directory)

    def on_train_end(self, trainer: L.Trainer, *_: Any) -> None:
        self.finish(trainer)
        if self.best is not None:
            # For the record, beside the last value.
            trainer.callback_metrics[f"{self.monitor}{BEST_VALUE}"] = torch.tensor(self.best)

    def on_exception(self, trainer: L.Trainer, *_: Any) -> None:
        io_of(trainer).wait()

    def on_train_start(self, trainer: L.Trainer, *_: Any) -> None:
        self.saved_at_s = time.monotonic()
        load_loader_states(trainer, self.checkpoint_loops)
        begin_after_finished_epoch(trainer)
        resume_epoch(trainer)
        # Each rank continues with its own random numbers; with another number of ranks there are none for it.
        if len(self.random_states) == trainer.world_size:
            set_random_state(self.random_states[trainer.global_rank])

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        self._save_step(trainer)
        if not is_logging_step(trainer) or not nothing_pending(trainer) or gradients_wait(trainer):
            return
        is_due = time.monotonic() - self.saved_at_s > self.every_s
        # By the clock of the first rank, so that all ranks save together.
        if trainer.strategy.broadcast(is_due):
            self.save_now(trainer)

    def _save_step(self, trainer: L.Trainer) -> None:
        """Saves the checkpoint of a step that stays."""
        if self.every_steps is None or accumulates(trainer) or gradients_wait(trainer):
            return
        n_steps = steps_done(trainer)
        if n_steps % self.every_steps == 0:
            self.save(trainer, self.directory / f"step-{n_steps}.ckpt")

    def on_train_epoch_end(self, trainer: L.Trainer, *_: Any) -> None:
        forget_skipped_batch(trainer)
        value = trainer.callback_metrics.get(self.monitor) if self.monitor else None
        improved = value is not None and self._is_better(float(value))
        if value is not None and improved:
            self.best = float(value)
        self.save_now(trainer)
        if improved and trainer.is_global_zero:
            best = self.directory / "best.ckpt"
            io_of(trainer).do(partial(self._link_best, best), best)

    def _link_best(self, best: Path) -> None:
        last = self.directory / "last.ckpt"
        link_or_copy(last, best)
        digest = known_hash(known_hashes(self.directory), last.stat())
        if digest and not best.samefile(last):
            remember_hash(best, digest)

    def on_validation_start(self, trainer: L.Trainer, *_: Any) -> None:
        self.metrics_before = dict(trainer.callback_metrics)

    def on_validation_end(self, trainer: L.Trainer, *_: Any) -> None:
        """A validation within an epoch (`trainer.val_check_interval`) chooses best.ckpt too."""
        if trainer.state.fn != "fit" or trainer.sanity_checking or ends_epoch(trainer):
            return
        name = self.monitor or ""
        value = trainer.callback_metrics.get(name)
        is_of_validation = value is not self.metrics_before.get(name)
        if value is not None and is_of_validation and self._is_better(float(value)):
            self.best = float(value)
            self.save(trainer, self.directory / "best.ckpt")

    def _is_better(self, value: float) -> bool:
        if not math.isfinite(value):
            return False
        if self.best is None:
            return True
        return value < self.best if self.mode == "min" else value > self.best

    def on_save_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        state = read_random_state(cuda=trainer.strategy.root_device.type == "cuda")
        states = [state] * trainer.world_size
        if trainer.world_size > 1:
            torch.distributed.all_gather_object(states, state)
        checkpoint["random_states"] = states

    def on_load_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        self.random_states = checkpoint.get("random_states", [])
        self.checkpoint_loops = checkpoint.get("loops", {})
        count_finished_epoch(self.checkpoint_loops)

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best = state["best"]


def io_of(trainer: L.Trainer) -> Any:
    """The AtomicCheckpointIO of a Trainer."""
    return trainer.strategy.checkpoint_io


def raise_on_all_ranks(trainer: L.Trainer) -> None:
    """To be called on all ranks together, after a checkpoint was written."""
    error = io_of(trainer).error
    errno_and_place = (error.errno, error.filename) if error else None
    errno_and_place = trainer.strategy.broadcast(errno_and_place)
    if errno_and_place:
        number, place = errno_and_place
        raise OSError(number, os.strerror(number), place) from error


def plain_checkpoint(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """The same content in types that `torch.load(weights_only=True)` accepts.

    Hyperparameters that have none are left out; a line names them. NOT_IN_FILE says what
    `load_from_checkpoint` has to make again.
    """
    plain = dict(checkpoint)
    facts = {}
    for kind in (L.LightningModule, L.LightningDataModule):
        key = kind.CHECKPOINT_HYPER_PARAMS_KEY
        if key in checkpoint:
            facts[key] = replace_hyper_parameters(plain, kind)
    if facts:
        plain[NOT_IN_FILE] = facts
    return plain_types(plain)


def replace_hyper_parameters(checkpoint: dict[str, Any], kind: Any) -> dict[str, Any]:
    """Makes the hyperparameters of one kind plain, in place.

    Returns:
        `left_out`, the names of what the file does not hold; `configs`, the names of what was a
        configuration of OmegaConf and is a dict or list there; `is_config`: they all were one.
    """
    values = checkpoint[kind.CHECKPOINT_HYPER_PARAMS_KEY]
    is_config = isinstance(values, Container)
    checkpoint.pop(kind.CHECKPOINT_HYPER_PARAMS_TYPE, None)  # a class
    configs = []
    left_out = []
    plain = {}
    for name, value in (contents(values) if is_config else values).items():
        if isinstance(value, Container):
            configs.append(name)
        try:
            plain[name] = plain_types(contents(value), name)
        except LabError:
            left_out.append(name)
    checkpoint[kind.CHECKPOINT_HYPER_PARAMS_KEY] = plain
    if left_out:
        print_left_out(", ".join(left_out))
    return {"left_out": left_out, "configs": configs, "is_config": is_config}


@cache  # once in a process
def print_left_out(names: str) -> None:
    print(
        f"Checkpoints hold plain values only. They leave out these hyperparameters: {names}. "
        "load and load_from_checkpoint build them from the configuration.",
        flush=True,
    )


def contents(value: Any) -> Any:
    """A configuration of OmegaConf as a dict or list; anything else as it is."""
    if not isinstance(value, Container):
        return value
    try:
        return OmegaConf.to_container(value, resolve=True)
    except OmegaConfBaseException:
        return OmegaConf.to_container(value)  # it refers to what it does not hold


def plain_types(value: Any, name: str = "checkpoint") -> Any:
    """The same content in types that `torch.load(weights_only=True)` accepts.

    Arrays become tensors, sequences lists, mappings dicts, and an enum its value.

    Raises:
        LabError: `value` holds something else; the message says where.
    """
    if isinstance(value, Enum):
        return plain_types(value.value, name)
    # Before the plain types: numpy's float64 is a float too.
    if isinstance(value, np.generic):
        return plain_types(value.item(), name)
    if isinstance(value, np.ndarray):
        is_numeric = value.dtype.kind in "biufc"
        return torch.from_numpy(value) if is_numeric else plain_types(value.tolist(), name)
    if value is None or type(value) in PLAIN or isinstance(value, torch.Tensor):
        return value
    base: Any
    for base in BASES:
        if isinstance(value, base):
            return base(value)
    if isinstance(value, Mapping):
        keys = [plain_types(key, f"a key of {name}") for key in value]
        items = [plain_types(item, f"{name}.{key}") for key, item in value.items()]
        return dict(zip(keys, items, strict=True))
    if isinstance(value, Sequence | set):
        items = [plain_types(item, f"{name}[{i}]") for i, item in enumerate(value)]
        kinds = [kind for kind in (tuple, set) if isinstance(value, kind)]
        return kinds[0](items) if kinds else items
    raise LabError(
        f"{name} is a {type(value).__name__}. A checkpoint cannot hold it.\n"
        "Return tensors, numbers, texts, lists and dicts from state_dict and on_save_checkpoint."
    )


# How long it takes to save a checkpoint: a job must be warned earlier than that before its time limit.

NOTED_AGAIN = 1.1  # a save that takes so many times as long as what was noted
LONG_S = 20  # a wait that one would rather not have at each save


class SaveTime:
    """Notes the longest save of an attempt as `save_s` in its start.json."""

    def __init__(self) -> None:
        self.noted_s = 0.0
        self.has_warned = False
        self.has_offered = False

    def note(self, trainer: L.Trainer, seconds: float) -> None:
        """To be called after each save, on any rank; the first one notes it."""
        run_dir = os.environ.get(env.RUN_DIR)
        attempt = os.environ.get(env.ATTEMPT)
        is_longer = seconds > self.noted_s * NOTED_AGAIN
        if not (trainer.is_global_zero and is_longer and run_dir and attempt):
            return
        self.noted_s = seconds
        with suppress(OSError):  # a full disk: the next step that writes reports it, on all ranks
            note_attempt(Path(run_dir), int(attempt), save_s=round(seconds, 2))
        self.warn(Path(run_dir))

    def offer_background(self, seconds: float) -> None:
        """Says once that the training need not wait for a long save."""
        if self.has_offered or seconds < LONG_S:
            return
        self.has_offered = True
        print(
            f"lab: the training waited {seconds:.0f} s for a checkpoint. In another run, "
            "checkpoint.background=true writes it while the training goes on; with speed.fsdp, "
            "checkpoint.sharded=true lets each process write its part",
            file=sys.stderr,
            flush=True,
        )

    def warn(self, run_dir: Path) -> None:
        """Says once that the time between the warning and the limit of a job is short."""
        job = (read_advisory(run_dir / "run.json") or {}).get("job") or {}
        lead_s = job.get("lead_s")
        if self.has_warned or env.JOB not in os.environ or not lead_s:
            return
        if self.noted_s > lead_s / 2:
            self.has_warned = True
            print(
                f"lab: saving took {self.noted_s:.0f} s, more than half of the {lead_s} s for which this "
                f"job is warned before its time limit. Next time: site.requeue.lead_s="
                f"{max(1, round(3 * self.noted_s))}, and a job.time of at least four times that",
                file=sys.stderr,
                flush=True,
            )
