"""What `lab predict` and `lab eval` need of a task, and of data that mean what the run learnt from."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import lightning.pytorch as L
from omegaconf import DictConfig

from ...errors import LabError, NotComparable, nearest
from ...hdf5.file.errors import DataFileError
from ...hdf5.file.joined import read_layouts
from ...hdf5.file.layout import Layout
from ...hdf5.file.tokens import Tokenizer
from ...hdf5.read.datamodule import H5DataModule
from ...hdf5.read.dataset import ALL
from ...project import Project
from ...record.read.run import Run
from ...record.reproduce.recorded_inputs import find_recorded_data
from ..parts.build import build_data, build_task
from ..parts.data_change import data_record
from ..parts.kept_data import print_replaced
from ..parts.settings import apply_settings, resolve_auto
from .load import load_statistics, load_weights

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


def require_same_meaning(project: Project, run: Run, data: L.LightningDataModule) -> None:
    """Makes sure that each number of a class or column in `data` means what it meant to `run`.

    Data that name neither are not compared. A line says so where the data of the run are gone.
    """
    if not isinstance(data, H5DataModule) or "size_bytes" not in run.data:
        return
    now = names_in(data.layout)
    if not now:
        return
    own = own_data(project, run)
    if own is None:
        print(
            f"lab: the data of {run.id} are gone: nobody compared the names of classes and columns",
            file=sys.stderr,
        )
        return
    then = names_in(own)
    for what in now.keys() & then.keys():  # what only one has, such as one class more, may be right
        for number, (old, new) in enumerate(zip(then[what], now[what], strict=False)):
            if old != new:
                raise LabError(
                    f"{what} {number} is {new!r} in {data.layout.path.name}, and {old!r} in "
                    f"{own.path.name}, which {run.id} learnt from.\n"
                    "Its numbers would be wrong. Pack these data again, with the names of the others: "
                    f"lab data pack … --classes-of {own.path.stem}"
                )


def own_data(project: Project, run: Run) -> Layout | None:
    """The data files that a run learnt from; None where they are gone, or were none."""
    with suppress(NotComparable, DataFileError):
        paths = find_recorded_data(project, run) if "size_bytes" in run.data else []
        return read_layouts(paths) if paths else None
    return None


def names_in(layout: Layout) -> dict[str, list[str]]:
    """The names of classes, of columns, and of the texts of a column, in the order of their numbers."""
    fields = layout.fields
    columns = json.loads(fields["x"].attrs.get("columns", "[]")) if "x" in fields else []
    texts = json.loads(fields["x"].attrs.get("categories", "{}")) if "x" in fields else {}
    tokens = Tokenizer.of(fields["x"].attrs) if "x" in fields else None
    names = {"class": layout.class_names, "column": columns}
    if tokens:
        names["token"] = [*tokens.vocabulary] or [tokens.content or tokens.name]
    names |= {f"text of column {column!r}": names for column, names in texts.items()}
    return {what: listed for what, listed in names.items() if listed}
