# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Builds the parts of a training from the configuration: data, task, callbacks."""

from __future__ import annotations

import inspect
from typing import Any

import lightning.pytorch as L
from hydra.errors import InstantiationException
from hydra.utils import get_class, instantiate
from omegaconf import DictConfig

from ..errors import LabError


def build(config: DictConfig, key: str, **extra: Any) -> Any:
    """`instantiate(config[key], **extra)`.

    Raises:
        LabError: naming key, target and reason, for a target that does not exist or an argument it does not take.
    """
    try:
        return instantiate(config[key], **extra)
    except InstantiationException as error:
        cause = error.__cause__
        if isinstance(cause, LabError):
            raise cause from None
        reason = str(cause or error).strip().splitlines()[0]
        if isinstance(cause, TypeError | ImportError | AttributeError | None):
            raise LabError(
                f"{key}: cannot build {config[key].get('_target_')}: {reason}"
            ) from error
        raise


def build_task(config: DictConfig) -> L.LightningModule:
    """The LightningModule of `task._target_`, given `model`, `optimizer` and `schedule` where its __init__ takes them."""
    target = config.task._target_
    try:
        taken = inspect.signature(get_class(target)).parameters
    except Exception as error:
        raise LabError(f"task._target_ is {target!r}, which cannot be imported: {error}") from error
    wanted = [name for name in ("model", "optimizer", "schedule") if name in taken]
    return build(
        config, "task", **{name: build(config, name) if config[name] else None for name in wanted}
    )


def build_data(config: DictConfig) -> L.LightningDataModule:
    """The LightningDataModule of `data._target_`."""
    data = build(config, "data")
    if not isinstance(data, L.LightningDataModule):
        raise LabError(
            f"data._target_: {config.data._target_} is no LightningDataModule, but a {type(data).__name__}."
        )
    return data


def build_callbacks(config: DictConfig) -> list[L.Callback]:
    return [build(config.callbacks, name) for name in config.callbacks]
