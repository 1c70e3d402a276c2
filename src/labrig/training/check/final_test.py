"""The classes of model and data compared, and the test split with the weights that the fit left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.callbacks import EarlyStopping
from omegaconf import DictConfig

from ...errors import LabError
from ...hdf5.file.tokens import N_TOKENS, n_tokens_of
from ...hdf5.read.datamodule import H5DataModule
from ..checkpoints.checkpoint import Checkpoints
from ..watch.print_line import print_line


def run_final_test(
    trainer: L.Trainer, task: L.LightningModule, data: L.LightningDataModule
) -> list[str] | bool:
    """Tests once, with the weights that `trainer.test_with` says; prints one line if there is no test.

    `trainer.callback_metrics` has the values of the fit and those of the test afterwards.

    Returns:
        The names of what the test measured; False: there was none.
    """
    reason = why_no_test(task, data)
    if reason is not None:
        if trainer.is_global_zero:
            print(f"not tested: {reason}", flush=True)
        return False
    # Lightning forgets them in a test: the record would have those of the last row.
    of_fit = dict(trainer.callback_metrics)
    trainer.test(task, datamodule=data, verbose=False, ckpt_path=weights_to_test(trainer))
    of_test = dict(trainer.callback_metrics)
    trainer.callback_metrics.update(of_fit | of_test)
    return list(of_test)


def weights_to_test(trainer: L.Trainer) -> Path | None:
    """best.ckpt where that is tested; None: the weights as they are after `fit`."""
    keeper = next(
        (one for one in trainer.checkpoint_callbacks if isinstance(one, Checkpoints)), None
    )
    if keeper is None or keeper.test_with == "last":
        return None
    watched = [one.monitor for one in trainer.callbacks if isinstance(one, EarlyStopping)]
    if keeper.test_with == "auto" and keeper.monitor not in watched:
        if watched:
            print_line(
                trainer,
                f"EarlyStopping watches {', '.join(map(str, watched))}, and best.ckpt is the best by "
                f"{keeper.monitor}: the last weights are tested. For the best: "
                f"checkpoint.monitor={watched[0]}",
            )
        return None
    best = keeper.directory / "best.ckpt"
    if trainer.strategy.broadcast(best.exists()):
        print_line(trainer, f"tests best.ckpt, the best by {keeper.monitor}")
        return best
    if keeper.test_with == "best":
        raise LabError(
            f"trainer.test_with=best, and there is no best.ckpt: no validation logged {keeper.monitor}. "
            "Set checkpoint.monitor to a metric of the validation, or trainer.test_with=last"
        )
    return None


def why_no_test(task: L.LightningModule, data: L.LightningDataModule) -> str | None:
    """Why a test is not possible; None when it is."""
    if type(task).test_step is L.LightningModule.test_step:
        return f"{type(task).__name__} has no test_step"
    if type(data).test_dataloader is L.LightningDataModule.test_dataloader:
        return f"{type(data).__name__} has no test_dataloader"
    uses_split = type(data).test_dataloader is H5DataModule.test_dataloader
    if isinstance(data, H5DataModule) and uses_split and "test" not in data.layout.splits:
        return f"{data.path} has no split test"
    return None


def check_classes(config: DictConfig, data: Any) -> None:
    """Compares `model.n_classes` and `model.n_tokens`, where there are any, with an H5DataModule."""
    model = config.get("model") or {}
    n_classes, n_tokens = model.get("n_classes"), model.get(N_TOKENS)
    if not isinstance(data, H5DataModule):
        return
    n_known = n_tokens_of(data.layout) or 0
    if isinstance(n_tokens, int) and n_tokens < n_known:
        raise LabError(
            f"model.n_tokens is {n_tokens}, but {data.layout.path} has {n_known} tokens. "
            "Write: model.n_tokens='${data_of:n_tokens}'"
        )
    if not isinstance(n_classes, int):
        return
    n_in_data = data.n_classes
    if n_in_data is not None and n_classes < n_in_data:
        raise LabError(
            f"model.n_classes is {n_classes}, but the labels y of {data.layout.path} go from 0 to "
            f"{n_in_data - 1}. Set model.n_classes={n_in_data}"
        )
