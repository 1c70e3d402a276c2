"""The section `trainer`, whose keys are the arguments of Lightning's Trainer and some of our own; and `batch`.

Lightning knows its arguments and what they take: it is asked when the Trainer is built, in `lab check`,
and by the batch of `lab submit`. Here is what a run cannot be recorded or resumed with.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import LabError

COPIED = re.compile("_(spawn|fork|notebook)")  # in names of strategies that copy a process
WRITES_DIRECTORIES = (
    "writes checkpoints as directories of its own kind, from which a run cannot be resumed here. "
    "Use speed.fsdp=true; with checkpoint.sharded=true each process writes its part"
)
# Arguments that the library sets itself: why, and what to set
INSTEAD = {
    "num_nodes": "the job has the nodes. Set job.nodes=2 for lab submit",
    "logger": "metrics.jsonl is always written. Others next to it: logger=[csv,wandb]",
    "callbacks": "callbacks have a section of their own: callbacks.NAME={_target_: ...}",
    "log_every_n_steps": "the library counts them too. Set log.every_n_steps=10",
    "enable_checkpointing": "a run is resumed and tested from its checkpoints. "
    "Fewer: checkpoint.every_min=600 checkpoint.monitor=null",
    "enable_progress_bar": "set log.progress=true for the bar, log.progress=false for lines",
    "deterministic": "the record has to know it. "
    "Set record.deterministic=true, which sets more than this",
    "benchmark": "set speed.cudnn_benchmark=true",
    "barebones": "it turns off what a run is recorded and resumed with. "
    "To measure what that costs: lab bench",
    "default_root_dir": "each run has its directory. Set paths.runs",
    "model_registry": "no checkpoint is uploaded. Add the callback of that registry to callbacks",
}


@cache
def trainer_names() -> tuple[str, ...]:
    """The arguments of the installed Lightning's Trainer, from its file: an import takes seconds.

    None of them where Lightning is not installed, or its file is not as in 2.6.
    """
    package = find_spec("lightning")
    if package is None or package.origin is None:
        return ()
    try:
        text = Path(package.origin).with_name("pytorch").joinpath("trainer/trainer.py").read_text()
    except OSError:
        return ()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and node.name == "Trainer":
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                    return tuple(argument.arg for argument in method.args.kwonlyargs)
    return ()


def is_trainer_argument(name: str) -> bool:
    """Whether a dotted key may be an argument of the Trainer: trainer.NAME."""
    section, _, key = name.partition(".")
    if section != "trainer" or "." in key:
        return False
    return key in INSTEAD or not trainer_names() or key in trainer_names()


def trainer_settings() -> list[str]:
    """The arguments of the Trainer that may be set, as dotted keys."""
    return [f"trainer.{name}" for name in trainer_names() if name not in INSTEAD]


def check_trainer_argument(name: str, value: Any, source: str) -> None:
    """Refuses what a run cannot be recorded or resumed with, with what to set instead.

    Args:
        name: the dotted key.
        source: the file that holds the value, or "command line", for the message.
    """
    key = name.removeprefix("trainer.")
    if key in INSTEAD:
        raise LabError(f"{source}: {name} cannot be set. Leave it out: {INSTEAD[key]}")
    if isinstance(value, str) and "${" in value:
        return
    if key == "devices":
        _check_devices(value, source)
    if key == "strategy":
        _check_strategy(value, source)


def _check_devices(value: Any, source: str) -> None:
    """Refuses what chooses single devices, or is no number of them."""
    number = str(value)
    if number in ("auto", "-1") or (number.isdigit() and int(number) >= 1):
        return
    raise LabError(
        f"{source}: trainer.devices must be a number of devices, -1 for all or auto, but it is "
        f"{value!r}. To choose GPUs by their number: CUDA_VISIBLE_DEVICES=1,3 lab train trainer.devices=2"
    )


def _check_strategy(value: Any, source: str) -> None:
    """Refuses strategies with which a run could not be recorded or resumed, with one that works."""
    name = str(value.get("_target_") if isinstance(value, dict) else value)
    if isinstance(value, str) and COPIED.search(value):
        raise LabError(
            f"{source}: trainer.strategy={value} copies this process, which is already recorded. "
            f"Here each process starts by itself: trainer.strategy={COPIED.sub('', value)}"
        )
    if "deepspeed" in name.lower():
        raise LabError(f"{source}: trainer.strategy={name} {WRITES_DIRECTORIES}")


def duration_s(value: Any) -> float | None:
    """Seconds of `DD:HH:MM:SS`, or of a section of `timedelta`'s arguments; None: it is neither."""
    if isinstance(value, str):
        parts = value.split(":")
        if len(parts) != 4 or not all(part.isdigit() for part in parts):
            return None
        value = dict(zip(("days", "hours", "minutes", "seconds"), map(int, parts), strict=True))
    if not isinstance(value, Mapping):
        return None
    try:
        return timedelta(**value).total_seconds()
    except TypeError:
        return None


def saves_parts(strategy: Mapping[str, Any]) -> bool:
    """Whether a strategy, as its section says it, saves a part of each process in place of one file."""
    name = str(strategy["_target_"]).rpartition(".")[2]
    if name == "ModelParallelStrategy":
        return bool(strategy.get("save_distributed_checkpoint", True))
    return name == "FSDPStrategy" and strategy.get("state_dict_type") == "sharded"


def n_readers_of(config: Mapping[Any, Any], n_processes: int) -> int:
    """How many processes read samples of their own: those that share each layer read the same."""
    return max(1, n_processes // config["speed"].get("tensor_parallel", 1))


def require_whole_groups(config: Mapping[Any, Any], n_processes: int) -> None:
    """Refuses processes that cannot be divided into groups of `speed.tensor_parallel`."""
    n = config["speed"].get("tensor_parallel", 1)
    if n_processes % n:
        raise LabError(
            f"speed.tensor_parallel={n} needs a multiple of {n} processes, but there are "
            f"{n_processes}: trainer.devices={n}, or job.gpus={n} in a job"
        )


def batches_per_step(config: Mapping[Any, Any], n_processes: int) -> int:
    """Batches per optimizer step with which all processes together see batch.global samples."""
    batch, trainer = config["batch"], config["trainer"]
    global_batch = batch["global"]
    samples_per_batch = config["data"].get("batch_size")
    decided_otherwise = trainer["accumulate_grad_batches"] != 1 or batch["scale_lr"]
    if samples_per_batch is None or decided_otherwise:
        raise LabError(
            f"batch.global={global_batch} needs data.batch_size, "
            "and sets trainer.accumulate_grad_batches itself: leave that at 1. "
            "batch.scale_lr has no meaning with it: more processes do not make a larger batch."
        )
    n_processes = n_readers_of(config, n_processes)
    smallest = samples_per_batch * n_processes
    if not isinstance(global_batch, int) or global_batch < 1 or global_batch % smallest:
        raise LabError(
            f"batch.global={global_batch} is no multiple of data.batch_size={samples_per_batch} "
            f"times {n_processes} processes; take one of {smallest}, {2 * smallest}, {3 * smallest} ..."
        )
    return global_batch // smallest
