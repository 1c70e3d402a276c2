"""What a first checkpoint would find, without writing one."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.plugins.io import TorchCheckpointIO

from ..errors import LabError
from .checkpoint import plain_types


class FirstCheckpoint(L.Callback):
    """Saves once, at the end of the training, through the CheckpointIO of the Trainer."""

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        trainer.save_checkpoint("first.ckpt")


class NoFile(TorchCheckpointIO):
    """Writes no checkpoint, and checks instead that it could be read again."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        """Saves and loads the content in memory, with empty tensors.

        Raises:
            LabError: it holds something that `torch.load(weights_only=True)` refuses.
        """
        file = io.BytesIO()
        torch.save(with_empty_tensors(plain_types(checkpoint)), file)
        file.seek(0)
        try:
            torch.load(file, weights_only=True)
        except pickle.UnpicklingError as error:
            reason = str(error).partition("error: ")[2].splitlines()[0]
            raise LabError(
                f"a checkpoint could be written, but not read again: {reason}. "
                "Return tensors, numbers, texts, lists and dicts from state_dict"
            ) from error


def with_empty_tensors(value: Any) -> Any:
    """The same plain content, whose tensors have no elements; those of classes of one's own stay."""
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        return torch.empty(0, dtype=value.dtype)
    if isinstance(value, dict):
        return {key: with_empty_tensors(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(with_empty_tensors(item) for item in value)
    return value
