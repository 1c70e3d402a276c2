"""The arguments of `lightning.Trainer`: each is a setting `trainer.NAME`, or a line says what to set.

The table is written down, so that a mistake is answered before Lightning is imported. A test compares
it with the signature of the installed Lightning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ..errors import LabError, nearest

# What a value may be.
WHOLE = "a whole number"
NUMBER = "a number"
SWITCH = "true or false"
TEXT = "a text"
DURATION = 'a time such as "00:12:00:00" (days:hours:minutes:seconds) or {hours: 12}'
OBJECT = "a section with `_target_`"
LIST = "a list of such sections"
NULL = "null"

STRATEGIES = (
    "auto",
    "ddp",
    "ddp_find_unused_parameters_false",
    "ddp_find_unused_parameters_true",
    "fsdp",
    "fsdp_cpu_offload",
    "single_device",
    "single_tpu",
    "single_xla",
    "xla",
    "xla_debug",
)
COPIED = re.compile("_(spawn|fork|notebook)")  # in names of strategies that copy a process
PRECISIONS = (
    *("16-mixed", "bf16-mixed", "16-true", "bf16-true", "32-true", "64-true", "16", "bf16"),
    *("32", "64", "transformer-engine", "transformer-engine-float16", "auto"),
)
WRITES_DIRECTORIES = (
    "writes checkpoints as directories of its own kind, from which a run cannot be resumed here. "
    "Use speed.fsdp=true; with checkpoint.sharded=true each process writes its part"
)


@dataclass(frozen=True)
class Argument:
    """What an argument of the Trainer may be.

    Attributes:
        kinds: of its value, in words.
        choices: the texts that it takes; empty: any.
        instead: for what the library sets itself: why, and what to set.
    """

    kinds: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    instead: str = ""


ARGUMENTS = {
    "accelerator": Argument((TEXT,)),
    "strategy": Argument((TEXT, OBJECT), STRATEGIES),
    "devices": Argument((WHOLE, TEXT)),
    "num_nodes": Argument(instead="the job has the nodes. Set job.nodes=2 for lab submit"),
    "precision": Argument((WHOLE, TEXT, NULL), PRECISIONS),
    "logger": Argument(
        instead="metrics.jsonl is always written. Others next to it: logger=[csv,wandb]"
    ),
    "callbacks": Argument(
        instead="callbacks have a section of their own: callbacks.NAME={_target_: ...}"
    ),
    "fast_dev_run": Argument((WHOLE, SWITCH)),
    "max_epochs": Argument((WHOLE, NULL)),
    "min_epochs": Argument((WHOLE, NULL)),
    "max_steps": Argument((WHOLE,)),
    "min_steps": Argument((WHOLE, NULL)),
    "max_time": Argument((DURATION, NULL)),
    "limit_train_batches": Argument((WHOLE, NUMBER, NULL)),
    "limit_val_batches": Argument((WHOLE, NUMBER, NULL)),
    "limit_test_batches": Argument((WHOLE, NUMBER, NULL)),
    "limit_predict_batches": Argument((WHOLE, NUMBER, NULL)),
    "overfit_batches": Argument((WHOLE, NUMBER)),
    "val_check_interval": Argument((WHOLE, NUMBER, DURATION, NULL)),
    "check_val_every_n_epoch": Argument((WHOLE, NULL)),
    "num_sanity_val_steps": Argument((WHOLE, NULL)),
    "log_every_n_steps": Argument(instead="the library counts them too. Set log.every_n_steps=10"),
    "enable_checkpointing": Argument(
        instead="a run is resumed and tested from its checkpoints. Fewer: checkpoint.every_min=600 "
        "checkpoint.monitor=null"
    ),
    "enable_progress_bar": Argument(
        instead="set log.progress=true for the bar, log.progress=false for lines"
    ),
    "enable_model_summary": Argument((SWITCH, NULL)),
    "accumulate_grad_batches": Argument((WHOLE,)),
    "gradient_clip_val": Argument((WHOLE, NUMBER, NULL)),
    "gradient_clip_algorithm": Argument((TEXT, NULL), ("norm", "value")),
    "deterministic": Argument(
        instead="the record has to know it. Set record.deterministic=true, which sets more than this"
    ),
    "benchmark": Argument(instead="set speed.cudnn_benchmark=true"),
    "inference_mode": Argument((SWITCH,)),
    "use_distributed_sampler": Argument((SWITCH,)),
    "profiler": Argument((TEXT, OBJECT, NULL), ("simple", "advanced", "pytorch", "xla")),
    "detect_anomaly": Argument((SWITCH,)),
    "barebones": Argument(
        instead="it turns off what a run is recorded and resumed with. "
        "To measure what that costs: lab bench"
    ),
    "plugins": Argument((OBJECT, LIST, NULL)),
    "sync_batchnorm": Argument((SWITCH,)),
    "reload_dataloaders_every_n_epochs": Argument((WHOLE,)),
    "default_root_dir": Argument(instead="each run has its directory. Set paths.runs"),
    "enable_autolog_hparams": Argument((SWITCH,)),
    "model_registry": Argument(
        instead="no checkpoint is uploaded. Add the callback of that registry to callbacks"
    ),
}


def is_trainer_argument(name: str) -> bool:
    """Whether a dotted key is an argument of the Trainer: trainer.NAME."""
    section, _, key = name.partition(".")
    return section == "trainer" and key in ARGUMENTS


def trainer_settings() -> list[str]:
    """The arguments of the Trainer that may be set, as dotted keys."""
    return [f"trainer.{name}" for name, argument in ARGUMENTS.items() if not argument.instead]


def check_trainer_argument(name: str, value: Any, source: str) -> None:
    """Checks the value of `trainer.NAME`.

    Args:
        name: the dotted key.
        source: the file that holds the value, or "command line", for the message.

    Raises:
        LabError: the library sets this argument itself, or it takes no such value.
    """
    argument = ARGUMENTS[name.removeprefix("trainer.")]
    if argument.instead:
        raise LabError(f"{source}: {name} cannot be set. Leave it out: {argument.instead}")
    if isinstance(value, str) and "${" in value:
        return
    if value == "auto" and name in ("trainer.devices", "trainer.precision"):
        return
    if name == "trainer.devices":
        _check_devices(value, source)
    if not any(_is_kind(value, kind) for kind in argument.kinds):
        expected = " or ".join(argument.kinds)
        raise LabError(f"{source}: {name} must be {expected}, but it is {value!r}.")
    if name == "trainer.strategy":
        _check_strategy(value, source)
    is_word = isinstance(value, str | int) and not isinstance(value, bool)
    if argument.choices and is_word and str(value).lower() not in argument.choices:
        raise LabError(
            f"{source}: {name} is {value!r}{nearest(str(value), argument.choices)}. "
            f"It takes: {', '.join(argument.choices)}"
        )


def check_trainer(settings: Mapping[str, Any], further_keys: Iterable[str], source: str) -> None:
    """Checks a whole section `trainer`, such as one that a run has recorded.

    Args:
        further_keys: that the section has besides the arguments of the Trainer.

    Raises:
        LabError: as check_trainer_argument, or an unknown key.
    """
    for key, value in settings.items():
        name = f"trainer.{key}"
        if is_trainer_argument(name):
            check_trainer_argument(name, value, source)
        elif key not in further_keys:
            valid_names = [*trainer_settings(), *(f"trainer.{key}" for key in further_keys)]
            raise LabError(
                f"{source}: unknown setting {name!r}{nearest(name, valid_names)}. "
                "All settings: lab config trial=NAME"
            )


def _is_kind(value: Any, kind: str) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == WHOLE:
        return is_number and isinstance(value, int)
    if kind == NUMBER:
        return is_number
    if kind == SWITCH:
        return isinstance(value, bool)
    if kind == TEXT:
        return isinstance(value, str)
    if kind == DURATION:
        return isinstance(value, str | dict) and duration_s(value) is not None
    if kind == OBJECT:
        return isinstance(value, dict) and "_target_" in value
    if kind == LIST:
        return isinstance(value, list) and all(_is_kind(item, OBJECT) for item in value)
    return value is None


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


def _check_devices(value: Any, source: str) -> None:
    """Refuses what chooses single devices, or is no number of them.

    Raises:
        LabError: with what to set.
    """
    number = str(value)
    if number == "-1" or (number.isdigit() and int(number) >= 1):
        return
    raise LabError(
        f"{source}: trainer.devices must be a number of devices, -1 for all or auto, but it is "
        f"{value!r}. To choose GPUs by their number: CUDA_VISIBLE_DEVICES=1,3 lab train trainer.devices=2"
    )


def _check_strategy(value: Any, source: str) -> None:
    """Refuses strategies with which a run could not be recorded or resumed.

    Raises:
        LabError: with one that works.
    """
    name = value if isinstance(value, str) else value["_target_"]
    if isinstance(value, str) and COPIED.search(value):
        raise LabError(
            f"{source}: trainer.strategy={value} copies this process, which is already recorded. "
            f"Here each process starts by itself: trainer.strategy={COPIED.sub('', value)}"
        )
    if "deepspeed" in name.lower():
        raise LabError(f"{source}: trainer.strategy={name} {WRITES_DIRECTORIES}")


def saves_parts(strategy: Mapping[str, Any]) -> bool:
    """Whether a strategy, as its section says it, saves a part of each process in place of one file."""
    name = str(strategy["_target_"]).rpartition(".")[2]
    if name == "ModelParallelStrategy":
        return bool(strategy.get("save_distributed_checkpoint", True))
    return name == "FSDPStrategy" and strategy.get("state_dict_type") == "sharded"
