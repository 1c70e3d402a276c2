"""Every setting of the library: conf/lab.yaml from top to bottom, and the groups that come with it.

A section names the class that says its keys, which lies in the folder of the code that reads them.

Hydra composes the YAML made of these classes, and not the classes as structured configs (OmegaConf 2.3), since
those change what was typed: trainer.limit_train_batches=1, one batch, becomes 1.0, all of them; 3 becomes "3".
They take no Literal, no `bool | Literal["auto"]`, no `str | list[str]`, and no key called `global`. They refuse
a project's own keys at the root and further arguments of the Trainer, or, as dicts, accept misspelt ones; and
a refusal knows neither the unit, nor the least number, nor the nearest name.

Nor does the ConfigStore hold their defaults as plain values: Hydra 1.3 merges what is stored there into a
project's own file of the same name, so a conf/profile/torch.yaml of three lines would get our other keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, get_args, get_origin

from ..errors import LabError
from .setting import (
    TYPE_NAMES,
    KnownSetting,
    fits,
    kinds_in,
    load,
    section,
    setting,
    settings_class,
    settings_of,
)


@settings_class
class PathSettings:
    """The section `paths`; project.py makes them absolute."""

    runs: str | None = setting("${site.paths.runs}", "where run directories are made")
    checkpoints: str | None = setting(
        "${site.paths.checkpoints}", "a large disk for checkpoints; null: inside the run directory"
    )
    data: str | list[str] | None = setting(
        "${site.paths.data}", "search path for data files; the first writable one is packed to"
    )
    scratch: str | None = setting(
        "${site.paths.scratch}", "a large disk that may be purged; null: none"
    )
    environment: str | None = setting(
        "${site.paths.environment}", 'of Python; read by "make setup"'
    )
    caches: str | None = setting(
        "${site.paths.caches}",
        "for packages, models and compiled code of all tools; "
        "null: where each tool puts them, mostly ~/.cache",
    )


@settings_class
class LabSettings:
    """conf/lab.yaml."""

    package: str | None = setting(
        None, "import name, from [tool.labrig] of pyproject.toml; use it as ${package} in _target_"
    )
    init_from: str | int | None = setting(
        None,
        "weights to start from: RUN, RUN:best, @best:val/loss, a .ckpt or .safetensors file, "
        "hf:ORG/MODEL; null: random ones",
    )
    init: Any = section(
        "how these weights are fitted to the task", "training.sections:InitSettings"
    )
    seed: int = setting(0, "of weights, order of the data and augmentation")
    trainer: Any = section(
        "how long and how; device and precision: trainer=auto|cpu|gpu, lab docs memory. "
        "Every other argument of Lightning's Trainer is a setting too: lab docs configuration",
        "training.sections:TrainerSettings",
    )
    batch: Any = section("lab docs multi-gpu", "training.sections:BatchSettings")
    speed: Any = section(
        "what makes a step faster or smaller: lab docs faster", "training.sections:SpeedSettings"
    )
    log: Any = section("what is logged, and how often", "training.sections:LogSettings")
    checkpoint: Any = section(
        "when a training is saved, and which state is its best",
        "training.sections:CheckpointSettings",
    )
    metrics: dict[str, Literal["min", "max"]] = setting(
        {},
        "which values of a metric are better, by its name or the last part of it: "
        "{fid: min, val/utility: max}; lab docs record says what is known without",
    )
    record: Any = section(
        "what a run records, and what it refuses", "record.sections:RecordSettings"
    )
    callbacks: dict[str, Any] | None = setting(
        {},
        "more Lightning callbacks, next to those that callbacks=[ema,pictures] chooses: "
        "{name: {_target_: ...}}",
    )
    program: str | dict[str, Any] = setting(
        {},
        "a script of the trial that runs as it is, such as train.py, or -m MODULE; "
        "else the settings of its program.py, by any name: lab docs from-loop",
    )
    args: dict[str, Any] = setting(
        {},
        "options of that script, by the names that it has: {lr: 0.1, decay-milestones: [90, 180]}",
    )
    argv: list[Any] = setting([], "words before these options, as they are: [fit]; typed after --")
    style: Literal["--key=value", "key=value"] = setting(
        "--key=value", "how these options are written; key=value for a script of Hydra"
    )
    paths: PathSettings = section(
        "lab docs storage. $VARIABLES and ~ are expanded; relative ones start at the project; "
        "defaults come from the site"
    )
    job: Any = section(
        'lab docs clusters. What "lab submit" asks the scheduler for; null: the site\'s default',
        "cluster.sections:JobSettings",
    )
    site: Any = section(
        "the cluster's profile, from the chosen site (lab site show); null there: the value here",
        "cluster.sections:SiteSettings",
    )
    sweep: Any = section(
        'what "lab sweep" searches, and how; '
        "settings that are typed with several values are searched too",
        "sweep.sections:SweepSettings",
    )
    budget: Any = section(
        "for the forecasts of lab bench and lab submit; prices are yours; those of some clouds: lab runs cost --list",
        "cluster.sections:BudgetSettings",
    )


# Options of groups, as files in conf/, whose settings the library reads itself
OPTIONS = {
    "logger/tensorboard": "training.sections:TensorboardOption",
    "logger/wandb": "training.sections:WandbOption",
    "logger/mlflow": "training.sections:MlflowOption",
    "notify/apprise": "training.sections:AppriseOption",
    "notify/command": "training.sections:CommandOption",
    "profile/simple": "training.sections:SimpleProfile",
    "profile/cprofile": "training.sections:PythonProfile",
    "profile/line": "training.sections:LineProfile",
    "profile/memory": "training.sections:MemoryProfile",
    "profile/torch": "training.sections:TorchProfile",
}


@cache
def all_settings() -> Mapping[str, KnownSetting]:
    """Every setting and section, by its dotted name; those of conf/lab.yaml first, in its order."""
    settings = dict(settings_of(LabSettings))
    for option, place in OPTIONS.items():
        settings |= settings_of(load(place), f"{option.partition('/')[0]}.")
    return settings


def takes_any_key(name: str) -> bool:
    """Whether a setting is a section whose keys are the user's names, such as `callbacks`."""
    known = all_settings().get(name)
    return known is not None and any(get_origin(kind) is dict for kind in kinds_in(known.type))


def find_setting(name: str, settings: Mapping[str, KnownSetting]) -> KnownSetting | None:
    """What is known of a dotted name: a setting, or an entry of one that takes any names.

    None for a setting of the project's own.
    """
    if name in settings:
        return settings[name]
    around = settings.get(name.rpartition(".")[0])
    if around is None or get_origin(around.type) is not dict:
        return None
    return KnownSetting(name, get_args(around.type)[1])


def check_resolved(written: dict[str, Any], resolved: dict[str, Any]) -> None:
    """Checks words that came by ${...}. Numbers may come as texts: ${oc.env:NAME} gives no others.

    Args:
        written, resolved: a configuration, with ${...} in it and without.
    """
    for name, known in all_settings().items():
        if known.choices and "${" in str(value_of(name, written)):
            check_value(name, value_of(name, resolved), None, "resolved", all_settings())


def value_of(name: str, values: dict[str, Any]) -> Any:
    """The value of a dotted name; None where there is none."""
    value: Any = values
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def check_value(
    name: str, value: Any, default: Any, source: str, settings: Mapping[str, KnownSetting]
) -> None:
    """Checks a value against its setting; one of the project's own against the default it replaces.

    Args:
        name: the dotted key.
        source: the file that holds the value, or "command line", for the message.
        settings: those of the library.
    """
    known = find_setting(name, settings)
    if known:
        known.check(value, source)
    else:
        check_type(name, value, default, source)


# The type of a setting by that of its default; Hydra reads a date as a text.
TYPES: dict[type, Any] = {
    bool: bool,
    int: int,
    float: float,
    str: str | None,
    list: list[Any] | None,
    dict: dict[str, Any] | None,
}


def check_type(name: str, value: Any, default: Any, source: str) -> None:
    """Checks a value against the default it replaces; null and auto as default accept any.

    Args:
        name: the dotted key, for the message.
        source: the file that holds the value, or "command line", for the message.
    """
    if type(default) not in TYPES or default in ("auto", "???"):
        return
    if any(isinstance(each, str) and "${" in each for each in (default, value)):
        return
    if not fits(value, TYPES[type(default)]):
        expected = TYPE_NAMES[type(default)]
        raise LabError(
            f"{source}: {name} must be {expected} (like {default!r}), but it is {value!r}."
        )
