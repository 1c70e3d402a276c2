"""Builds the parts of a training from the configuration: data, task, callbacks."""

from __future__ import annotations

import re
from functools import partial
from inspect import Signature, signature
from pathlib import Path
from typing import Any

import lightning.pytorch as L
from hydra.errors import InstantiationException
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig

from ...config.check_target import model_is_a_task
from ...config.program import refuse_program
from ...errors import LabError, nearest
from ...failure import message_of, place_of
from .task_parts import Origin, TaskPart, parameters_of, task_parts

UNKNOWN_ARGUMENT = re.compile(r"unexpected keyword argument '(\w+)'")
MISSING_ARGUMENT = re.compile(r"(?:argument: | and |arguments: |, )'(\w+)'")


def build(config: DictConfig, key: str, **arguments: Any) -> Any:
    """`instantiate(config[key], **arguments)`, with plain lists and dicts.

    Without that an optimizer keeps the ListConfig of its `betas`, which no checkpoint can hold. A
    `_convert_` in the section itself wins.
    """
    section = config[key]
    convert = section.get("_convert_", "all")
    try:
        built = instantiate(section, _convert_=convert, **arguments)
        if isinstance(built, partial):
            # What it lacks comes later; what it does not take would end the training.
            signature_of(built.func).bind_partial(*built.args, **built.keywords)
        return built
    except (InstantiationException, TypeError) as error:
        shown = error_to_show(error, key, section.get("_target_"))
    raise shown


def signature_of(function: Any) -> Signature:
    """The parameters of a class or a function; any, where it has none that Python can see."""
    try:
        return signature(function)
    except ValueError:  # written in C
        return signature(lambda *args, **kwargs: None)


def error_to_show(error: Exception, key: str, target: str) -> BaseException:
    """What to raise in place of an error of Hydra's: its cause in the project's code, or a message."""
    cause = cause_of(error)
    if isinstance(cause, LabError) or place_of(cause):
        return cause
    shown = LabError(
        f"{key}: cannot build {target}: {message_of(cause)}{advice_for_arguments(cause, key, target)}"
        "\nIts settings: lab config trial=NAME"
    )
    shown.__cause__ = cause
    return shown


def advice_for_arguments(cause: BaseException, key: str, target: str) -> str:
    """What to do about an argument that a class does not take, or lacks; "" for other errors."""
    text = str(cause)
    if not isinstance(cause, TypeError):
        return ""
    missing = MISSING_ARGUMENT.findall(text)
    if "params" in missing or "optimizer" in missing:
        return "\nThe task gives it that: write `_partial_: true` below its `_target_`."
    # Python's text begins with the name of what was called.
    if "(" in text and not target.endswith(text.partition("(")[0].removesuffix(".__init__")):
        return ""
    if "Did you mean" in text:  # from Python 3.13 on
        return ""
    if unknown := UNKNOWN_ARGUMENT.search(text):
        return nearest(unknown[1], parameters_of(get_object(target)))
    return f"\nWrite a value for {key}.{missing[0]}." if missing else ""


def cause_of(error: BaseException) -> BaseException:
    """The error that Hydra has wrapped in its own."""
    while error.__cause__ and (
        isinstance(error, InstantiationException) or str(error).startswith("Error loading ")
    ):
        error = error.__cause__
    return error


def build_task(config: DictConfig) -> L.LightningModule:
    """The LightningModule of `task._target_`.

    What its section names is built as it says. `model`, `optimizer` and `schedule` fill parameters
    that it leaves open.
    """
    refuse_program(config)
    filled = {
        name: build(config, name) if config.get(name) else None for name in filled_sections(config)
    }
    if isinstance(filled.get("model"), L.LightningModule):
        raise model_is_a_task(config.model._target_, config.task._target_, config.trial)
    task = build(config, "task", **filled)
    if not isinstance(task, L.LightningModule):
        raise LabError(
            f"task._target_ is {config.task._target_}, a {type(task).__name__}. "
            "It must be a LightningModule."
        )
    return task


def filled_sections(config: DictConfig) -> tuple[str, ...]:
    """The sections `model`, `optimizer`, `schedule` that fill a parameter which the task leaves open."""
    return tuple(part.name for part in parts_of(config) if part.origin is Origin.SECTION)


def parts_of(config: DictConfig) -> list[TaskPart]:
    """The model, the optimizer and the schedule of the task, and what decides each."""
    return task_parts(config, import_target("task", config.task._target_))


def import_target(key: str, target: str) -> Any:
    """The class, or the function, of a `_target_`."""
    try:
        return get_object(target)
    except Exception as error:
        shown = error_to_show(error, key, target)
    raise shown


def build_data(config: DictConfig) -> L.LightningDataModule:
    """The LightningDataModule of `data._target_`."""
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
