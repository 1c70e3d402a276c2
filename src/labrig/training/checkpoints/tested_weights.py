"""What is tested is what last.ckpt holds, also where a callback puts other weights into the task when
the training ends, such as StochasticWeightAveraging."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.plugins.io import TorchCheckpointIO
from lightning.pytorch.strategies import ModelParallelStrategy
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.tensor import DTensor

from ...errors import LabError
from ...record.files import checkpoint_files
from ...record.read.directory_weights import weights_directory
from ...record.reproduce.weight_tensors import with_left_out
from ..watch.print_line import print_line
from .checkpoint import io_of, raise_on_all_ranks
from .in_parts import read_own_part

# Where a checkpoint keeps other weights, when its `state_dict` has those that were tested.
LAST_STEP = "state_dict_of_last_step"  # from which the training continues
END_OF_FIT = "state_dict_of_end_of_fit"  # with which the test begins


class TestedWeights(L.Callback):
    """Puts the weights that the fit, or the beginning of the test, leaves into last.ckpt.

    A later attempt with more epochs continues from the weights of the last step, which stay in it
    too. All others take the tested ones: `lab eval`, `lab predict`, `load`, `init_from`.

    Args:
        directory: where last.ckpt is.
        note: adds facts to the record; None: nowhere.
    """

    def __init__(self, directory: Path, note: Callable[..., None] | None = None) -> None:
        self.last = Path(directory) / "last.ckpt"
        self.note = note
        self.is_trained = True  # False: loaded, and nothing trained since
        self.loaded: dict[str, Any] | None = None  # to test, if nothing is left to train

    def on_load_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if trainer.state.fn != "fit":
            return
        self.is_trained = False
        # Where the task is in shards, Lightning has loaded the weights and taken them out.
        self.loaded = checkpoint.get(END_OF_FIT, checkpoint.get("state_dict"))
        changed = Path(trainer.ckpt_path or "") / checkpoint_files.END_OF_FIT
        if self.loaded is None and changed.is_dir():
            self.loaded = read_own_part(trainer.strategy.lightning_module_state_dict(), changed)
        if LAST_STEP in checkpoint:
            set_weights(trainer, checkpoint[LAST_STEP])

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.is_trained = True
        self.loaded = None

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """After `on_fit_end`: the last hook of a callback in which weights may change."""
        if stage != "fit":
            return
        if self.is_trained and not self.last.exists():
            raise LabError(
                "nothing was trained: the settings allow no step, or the training loader has no batch. "
                "Set trainer.max_epochs=N, or look at the train split: lab data info NAME"
            )
        if self.is_trained:
            self._keep(trainer)
        elif self.loaded is not None:
            # Only the test is made up for.
            set_weights(trainer, self.loaded)
        self.loaded = None

    def on_test_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.note and trainer.is_global_zero:
            self.note(tested_weights=kind_of_weights(trainer))

    def on_test_batch_start(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if batch_idx == dataloader_idx == 0 and not trainer.ckpt_path:
            self._keep(trainer)

    def _keep(self, trainer: L.Trainer) -> None:
        """Makes last.ckpt hold the weights of this moment. All ranks together."""
        # Of a task in shards all ranks give their parts.
        weights = trainer.strategy.lightning_module_state_dict()
        saves = self.last.is_dir() or trainer.is_global_zero
        saved = self._saved(weights) if saves else {}
        is_on_any_rank = partial(trainer.strategy.reduce_boolean_decision, all=False)
        if not is_on_any_rank(differ(weights, saved)):
            return
        now = content_of_checkpoint(trainer).get("state_dict", {})
        is_other = is_on_any_rank(differ(now, saved))
        if is_other and saves:
            self._replace(trainer, now)
        io_of(trainer).wait()
        raise_on_all_ranks(trainer)
        if is_other:
            print_line(
                trainer,
                "the weights were changed after the last step. last.ckpt holds the changed ones, "
                "and for lab resume those of the last step",
            )
        else:
            name = type(trainer.lightning_module).__name__
            print_line(
                trainer,
                f"on_save_checkpoint of {name} or of a callback saves other weights than the task "
                "has at its end. The test uses those of the task, lab eval those that were saved",
            )

    def _saved(self, weights: dict[str, Any]) -> dict[str, Any]:
        """The weights in last.ckpt; where that is a directory, divided as `weights` are."""
        if self.last.is_dir():
            return read_own_part(weights, weights_directory(self.last))
        # Only what is compared is read from the disk.
        content = torch.load(self.last, map_location="cpu", weights_only=True, mmap=True)
        return with_left_out(content, self.last)["state_dict"]

    def _replace(self, trainer: L.Trainer, weights: dict[str, Any]) -> None:
        if self.last.is_dir():
            name = checkpoint_files.TESTED if trainer.testing else checkpoint_files.END_OF_FIT
            io_of(trainer).add_weights(weights, name)
            return
        content = torch.load(self.last, map_location="cpu", weights_only=True)
        content.setdefault(LAST_STEP, content["state_dict"])
        if trainer.testing:
            content[END_OF_FIT] = content["state_dict"]
        content["state_dict"] = weights
        trainer.strategy.checkpoint_io.save_checkpoint(content, self.last)


class ContentOnly(TorchCheckpointIO):
    """Writes no checkpoint, and keeps its content."""

    content: Mapping[str, Any] = {}

    def save_checkpoint(self, checkpoint: Any, path: Any, storage_options: Any = None) -> None:
        self.content = checkpoint

    save_parts = save_checkpoint


def content_of_checkpoint(trainer: L.Trainer) -> Mapping[str, Any]:
    """What a checkpoint of this moment would hold; {} on other ranks than the first. All ranks
    together."""
    strategy = trainer.strategy
    checkpoint_io = strategy.checkpoint_io
    strategy.checkpoint_io = ContentOnly()
    try:
        trainer.save_checkpoint("not written")
        return strategy.checkpoint_io.content
    finally:
        strategy.checkpoint_io = checkpoint_io


def kind_of_weights(trainer: L.Trainer) -> str:
    """Which weights are tested: `last`, `best`, or the name of another file.

    A train.py of one's own may say so: trainer.test(..., ckpt_path="best").
    """
    if not trainer.ckpt_path:
        return "last"
    file = str(trainer.ckpt_path)
    best = [getattr(each, "best_model_path", None) for each in trainer.checkpoint_callbacks]
    return "best" if file in best else Path(file).name.removesuffix(".ckpt")


def set_weights(trainer: L.Trainer, weights: dict[str, Any]) -> None:
    """Loads weights into the task, also into one in shards."""
    task = trainer.lightning_module
    if isinstance(trainer.strategy, ModelParallelStrategy):
        is_whole = not any(isinstance(value, DTensor) for value in weights.values())
        set_model_state_dict(task, weights, options=StateDictOptions(full_state_dict=is_whole))
    else:
        task.load_state_dict(weights, strict=task.strict_loading)


def differ(weights: Mapping[str, Any], saved: Mapping[str, Any]) -> bool:
    """Whether a tensor that both have is another one, as far as this process holds it."""
    return any(
        isinstance(value, torch.Tensor)
        and name in saved
        and not torch.equal(own_part(value).detach().cpu(), own_part(saved[name]).cpu())
        for name, value in weights.items()
    )


def own_part(tensor: torch.Tensor) -> torch.Tensor:
    """What this process holds of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
