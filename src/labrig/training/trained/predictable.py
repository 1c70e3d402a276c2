"""What `lab predict` and `lab eval` need of a task and of its data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import lightning.pytorch as L
from omegaconf import DictConfig

from ...errors import LabError, nearest
from ...hdf5.read.datamodule import H5DataModule
from ...hdf5.read.dataset import ALL
from ...project import Project
from ...record.read.run import Run
from ..parts.build import build_data, build_task
from ..parts.data_change import data_record
from ..parts.kept_data import print_replaced
from ..parts.settings import apply_settings, resolve_auto
from .load import load_statistics, load_weights
from .same_meaning import require_same_meaning

TEST = "test"  # the split


class Rebuilt(NamedTuple):
    """What a run trained, with the weights of a checkpoint, and the data as they are now."""

    config: DictConfig  # with what `auto` means here
    task: L.LightningModule
    data: L.LightningDataModule
    split: Any  # that was chosen
    content: dict[str, Any]  # of the data, for the record


def rebuild(
    project: Project,
    config: DictConfig,
    run: Run,
    checkpoint: str,
    choose: Callable[[L.LightningDataModule, str | None], str | None],
    split: str | None,
) -> Rebuilt:
    """Says what was replaced of the data, and refuses data that mean something else.

    Args:
        choose: `choose_split` or `choose_test_split`.
    """
    config = resolve_auto(config, first_attempt={})
    apply_settings(config)
    data = build_data(config)
    chosen = choose(data, split)
    content = dict(data_record(data) or {})
    print_replaced(run, content)
    require_same_meaning(project, run, data)
    task = build_task(config)
    load_weights(task, run, checkpoint)
    load_statistics(data, run, checkpoint)
    return Rebuilt(config, task, data, chosen, content)


def make_predictable(task: L.LightningModule) -> None:
    """A task without a predict_step of its own predicts what `forward` gives for a batch's first field."""
    if type(task).predict_step is not L.LightningModule.predict_step:
        return
    name = type(task).__name__
    if type(task).forward is L.LightningModule.forward:
        raise LabError(
            f"{name} has neither predict_step nor forward, so it predicts nothing. Add to it:\n"
            "  def predict_step(self, batch, batch_idx):\n"
            "      return self.model(batch[0])  # a row for each sample, or a dict of such\n"
            "Then: lab predict RUN --today"
        )

    def predict_step(batch: Any, batch_idx: int) -> Any:
        return task(batch[0] if isinstance(batch, list | tuple) else batch)

    task.predict_step = predict_step


def choose_split(data: L.LightningDataModule, split: str | None) -> str | None:
    """The split to predict, which `data` gives from now on; None when it has no splits by name."""
    name = type(data).__name__
    base = L.LightningDataModule
    if isinstance(data, H5DataModule):
        has_own_loader = type(data).predict_dataloader is not H5DataModule.predict_dataloader
        if has_own_loader and split is None:
            return None
        data.predict_split = split or (TEST if data.layout.splits else ALL)
        return data.predict_split
    if split not in (None, TEST):
        raise LabError(
            f"{name} has no splits by name, so split={split} means nothing. lab predict takes the "
            "samples of its predict_dataloader, or with split=test those of its test_dataloader."
        )
    if split is None and type(data).predict_dataloader is not base.predict_dataloader:
        return None
    if type(data).test_dataloader is base.test_dataloader:
        raise LabError(
            f"{name} has neither predict_dataloader nor test_dataloader. Add one, with the samples to "
            "predict in their order."
        )
    predict_test_samples(data)
    return TEST


def choose_test_split(data: L.LightningDataModule, split: str | None) -> str:
    """The split to evaluate on, whose samples the test of `data` takes from now on."""
    if isinstance(data, H5DataModule):
        names = list(data.layout.splits)
        chosen = split or TEST
        if chosen not in (*names, ALL) and not has_own_test(data):
            listed = ", ".join([*names, ALL])
            raise LabError(
                f"{data.file.name} has no split {chosen!r}{nearest(chosen, names)}. "
                f"Write split=NAME, one of: {listed}"
            )
        if split:
            data.test_dataloader = lambda: data.loader(split)
        return chosen
    if split not in (None, TEST):
        raise LabError(
            f"{type(data).__name__} has no splits by name, so split={split} means nothing. "
            "lab eval takes the samples of its test_dataloader."
        )
    return TEST


def has_own_test(data: H5DataModule) -> bool:
    """Whether a subclass decides itself which samples its test takes."""
    base = H5DataModule
    return (
        type(data).test_dataloader is not base.test_dataloader or type(data).rows is not base.rows
    )


def predict_test_samples(data: L.LightningDataModule) -> None:
    """Has a prediction take the samples of the test, which a module may set up for that only."""
    set_up = data.setup

    def set_up_test(stage: str) -> None:
        set_up("test")

    data.setup = set_up_test
    data.predict_dataloader = data.test_dataloader
