"""The sums of an epoch that Lightning and torchmetrics keep, read for a checkpoint and set from it.

Lightning's checkpoints leave them out, so an epoch that resumes in the middle would count from there
only. With a release of Lightning that was not tested those of `self.log` are neither read nor set;
those of torchmetrics are.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

import lightning.pytorch as L
import torch
from torch import Tensor, nn
from torchmetrics import Metric

from .lightning_internals import is_tested

# Of a value that `self.log` got: how Lightning treats it, by the names of its `_Metadata`.
OPTIONS = (
    *("fx", "name", "prog_bar", "logger", "on_step", "on_epoch", "enable_graph"),
    *("add_dataloader_idx", "dataloader_idx", "metric_attribute"),
)
SUMS = ("value", "cumulated_batch_size")
# Attributes of a metric that follow from others, or are nn.Module's.
NO_COUNTS = ("_computed", "_forward_cache", "training")
OWN = (Metric, nn.ModuleDict, nn.ModuleList, list, tuple, dict)  # where a callback keeps metrics
OF_MODULE = ("_modules", "_parameters", "_buffers")  # of nn.Module; `named_modules` gives them


def read_logged(trainer: L.Trainer) -> dict[str, dict[str, Any]]:
    """What `self.log` has summed in this epoch of the training, by Lightning's key.

    `_TrainingEpochLoop._results` holds a `_ResultMetric` for each; one whose sum was set to zero says
    `has_reset`. Those of one process group of several are left out: no checkpoint holds a group.
    """
    if not is_tested():
        return {}
    results = trainer.fit_loop.epoch_loop._results
    return {
        key: read_result(result)
        for key, result in results.items()
        if not result.has_reset and result.meta.sync.group is None
    }


def read_result(result: Any) -> dict[str, Any]:
    meta = result.meta
    sums = {name: on_cpu(getattr(result, name)) for name in SUMS if hasattr(result, name)}
    return {
        "options": {name: getattr(meta, name) for name in OPTIONS},
        "reduce": (meta.reduce_fx.__name__, meta.reduce_fx in vars(builtins).values()),
        "sync": (meta.sync.should, meta.sync.rank_zero_only),
        "n_updates": result._update_count,
        "last": on_cpu(result._forward_cache),
        "sums": sums if result.is_tensor else {},
    }


def set_logged(trainer: L.Trainer, logged: dict[str, dict[str, Any]]) -> None:
    """Continues with what `read_logged` gave.

    `_LoggerConnector._first_loop_iter` is not None within an epoch, and True in its first batch, in
    which a sum that an earlier epoch left begins again. To be called before the first value of the
    epoch is logged.
    """
    if not is_tested():
        return
    results = trainer.fit_loop.epoch_loop._results
    for key, state in logged.items():
        results[key] = new_result(trainer, state)
    trainer._logger_connector._first_loop_iter = False


def new_result(trainer: L.Trainer, state: dict[str, Any]) -> Any:
    """A `_ResultMetric` as `_ResultCollection.log` makes it, with the sums of `state`."""
    # Private names, which another release may lack.
    from lightning.pytorch.trainer.connectors.logger_connector.result import (
        _Metadata,
        _ResultMetric,
        _Sync,
    )

    reduce_name, is_builtin = state["reduce"]
    reduce_fx = getattr(builtins if is_builtin else torch, reduce_name)
    meta = _Metadata(**state["options"], reduce_fx=reduce_fx)
    should_sync, of_first_rank = state["sync"]
    sync_by = trainer.strategy.reduce
    meta.sync = _Sync(fn=sync_by, _should=should_sync, rank_zero_only=of_first_rank)
    is_tensor = bool(state["sums"])
    result = _ResultMetric(meta, is_tensor)
    if not is_tensor:
        result.value = trainer.lightning_module.get_submodule(str(meta.metric_attribute))
    device = trainer.strategy.root_device
    for name, value in state["sums"].items():
        setattr(result, name, on_device(value, device))
    result._forward_cache = on_device(state["last"], device)
    result._update_count = state["n_updates"]
    return result


def logged_metrics(trainer: L.Trainer) -> set[int]:
    """The ids of the metrics of torchmetrics that `self.log` got in this epoch of the training.

    Lightning sets them to zero when the epoch ends, after the checkpoint of its end.
    """
    if not is_tested():
        return set()
    results = trainer.fit_loop.epoch_loop._results
    return {id(result.value) for result in results.values() if not result.is_tensor}


def metrics_of(owners: dict[str, Any]) -> dict[str, Metric]:
    """The metrics of torchmetrics in some objects, by their place, each once."""
    seen: set[int] = set()
    found = {}
    for owner, value in owners.items():
        for place, metric in metrics_within(owner, value):
            if id(metric) not in seen:
                seen.add(id(metric))
                found[place] = metric
    return found


def metrics_within(
    place: str, value: Any, within: tuple[int, ...] = ()
) -> Iterator[tuple[str, Metric]]:
    """The metrics in a module, a callback, or a list or dict of theirs.

    Args:
        within: the ids of what the value lies in: a callback may keep the list that holds itself.
    """
    if id(value) in within:
        return
    within = (*within, id(value))
    if isinstance(value, nn.Module):
        for name, module in value.named_modules():
            if isinstance(module, Metric):
                yield f"{place}.{name}", module
    elif isinstance(value, list | tuple | dict):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for name, item in items:
            yield from metrics_within(f"{place}.{name}", item, within)
    if isinstance(value, L.Callback | L.LightningModule):
        for name, item in vars(value).items():
            # A reference to the task or the trainer is not the callback's own.
            if isinstance(item, OWN) and name not in OF_MODULE:
                yield from metrics_within(f"{place}.{name}", item, within)


def read_metric(metric: Metric) -> dict[str, Any]:
    """The numbers and tensors among the attributes of a metric: its state, and what else it counts.

    `_update_count` is the weight of what a mean holds.
    """
    return {
        name: on_cpu(value)
        for name, value in vars(metric).items()
        if name not in NO_COUNTS and is_countable(name, value)
    }


def is_countable(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return not name.startswith("_")
    if isinstance(value, list):
        return all(isinstance(item, Tensor) for item in value)
    return isinstance(value, Tensor | int | float)


def set_metric(metric: Metric, state: dict[str, Any]) -> None:
    """Continues a metric with what `read_metric` gave."""
    for name, value in state.items():
        setattr(metric, name, on_device(value, metric.device))
    metric._computed = None  # what `compute` gave before


def on_cpu(value: Any) -> Any:
    """A copy: metrics add to their tensors in place."""
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()
    return [on_cpu(item) for item in value] if isinstance(value, list) else value


def on_device(value: Any, device: torch.device) -> Any:
    """A copy: those of one group of a MetricCollection share their tensors in a checkpoint too."""
    if isinstance(value, Tensor):
        return value.to(device, copy=True)
    return [on_device(item, device) for item in value] if isinstance(value, list) else value
