"""Builds the parts of a training from the configuration: data, task, callbacks."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import lightning.pytorch as L
from hydra.errors import InstantiationException
from hydra.utils import get_class, instantiate
from omegaconf import DictConfig

from ..config.program import refuse_program
from ..errors import LabError
from ..failure import message_of, place_of


def build(config: DictConfig, key: str, **arguments: Any) -> Any:
    """`instantiate(config[key], **arguments)`, with plain lists and dicts.

    Without that an optimizer keeps the ListConfig of its `betas`, which no checkpoint can hold. A
    `_convert_` in the section itself wins.

    Raises:
        LabError: the target does not exist, or does not take an argument.
        Exception: what the project's own code raised; its line is in the traceback.
    """
    section = config[key]
    convert = section.get("_convert_", "all")
    try:
        return instantiate(section, _convert_=convert, **arguments)
    except InstantiationException as error:
        shown = error_to_show(error, key, section.get("_target_"))
    raise shown


def error_to_show(error: Exception, key: str, target: str) -> BaseException:
    """What to raise in place of an error of Hydra's: its cause in the project's code, or a message."""
    cause = cause_of(error)
    if isinstance(cause, LabError) or place_of(cause):
        return cause
    shown = LabError(
        f"{key}: cannot build {target}: {message_of(cause)}\nIts settings: lab config trial=NAME"
    )
    shown.__cause__ = cause
    return shown


def cause_of(error: BaseException) -> BaseException:
    """The error that Hydra has wrapped in its own."""
    while error.__cause__ and (
        isinstance(error, InstantiationException) or str(error).startswith("Error loading ")
    ):
        error = error.__cause__
    return error


def build_task(config: DictConfig) -> L.LightningModule:
    """The LightningModule of `task._target_`.

    `model`, `optimizer` and `schedule` are built too, if its __init__ takes them.

    Raises:
        LabError: a part cannot be imported or built, with its key and target; or the trial is a
            program.
    """
    refuse_program(config)
    parameters = inspect.signature(task_class(config.task._target_)).parameters
    parts = {}
    for name in ("model", "optimizer", "schedule"):
        if name in parameters:
            parts[name] = build(config, name) if config[name] else None
    return build(config, "task", **parts)


def task_class(target: str) -> type:
    """The class of `task._target_`.

    Raises:
        LabError: there is none.
        Exception: what its module raised.
    """
    try:
        return get_class(target)
    except Exception as error:
        shown = error_to_show(error, "task", target)
    raise shown


def build_data(config: DictConfig) -> L.LightningDataModule:
    """The LightningDataModule of `data._target_`.

    Raises:
        LabError: it cannot be built, or is something else; or the trial is a program.
    """
    refuse_program(config)
    data = build(config, "data")
    if not isinstance(data, L.LightningDataModule):
        raise LabError(
            f"data._target_ is {config.data._target_}, a {type(data).__name__}. "
            "It must be a LightningDataModule."
        )
    return data


def build_callbacks(config: DictConfig, checkpoints: Path | None = None) -> list[L.Callback]:
    """The user's callbacks, in the order of the section `callbacks`; null leaves one out.

    Args:
        checkpoints: where a ModelCheckpoint without `dirpath` gets a directory of its name in that
            section; None: nowhere.

    Raises:
        LabError: one cannot be built.
    """
    callbacks = {
        name: build(config.callbacks, name) for name, node in config.callbacks.items() if node
    }
    for name, callback in callbacks.items():
        is_checkpoint = isinstance(callback, L.callbacks.ModelCheckpoint)
        if is_checkpoint and checkpoints and callback.dirpath is None:
            # Not the directory itself: last.ckpt there is what a resumed run continues from.
            callback.dirpath = str(checkpoints / name)
    return list(callbacks.values())
