# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""From files and the command line to one checked configuration, with Hydra's compose API."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ..errors import LabError
from ..project import LAB, Project, resolve_paths
from .check import Source, check_keys
from .check_target import absolute_target
from .check_typed import check_typed
from .layers import GROUPS, Layer, read_layer, read_option, trial_layers
from .overrides import parse_overrides, typed_value
from .resolve import load_dotenv, recorded_yaml, resolve
from .trial_names import trial_names


@dataclass(frozen=True)
class Composition:
    """A composed configuration: `config` resolved, `yaml` the text to record (values of .env left as ${oc.env:NAME}),
    `origin` the file (or "command line") that set each dotted key."""

    config: DictConfig
    yaml: str
    trial: str
    overrides: list[str] = field(default_factory=list)
    origin: dict[str, str] = field(default_factory=dict)


def compose(project: Project, overrides: list[str]) -> Composition:
    """Composes `trial=NAME` with the given overrides; imports neither torch nor anything a `_target_` names.

    Raises:
        LabError: whatever can be known to be wrong from the text alone, with the nearest valid name.
    """
    secrets = load_dotenv(project)
    typed = parse_overrides(overrides)
    if typed_value(typed, "experiment"):
        raise LabError(
            f"unknown setting 'experiment'; did you mean: trial={typed_value(typed, 'experiment')}"
        )
    name = typed_value(typed, "trial")
    if name is None:
        valid_names = ", ".join(trial_names(project)) or "none yet: lab trials new NAME"
        raise LabError(f"no trial named; add trial=NAME. Trials: {valid_names}")
    trial = name.partition("/")[0]
    groups = [o for o in typed if o.key_or_group in GROUPS and isinstance(o.value(), str | list)]
    single = [o for o in typed if o not in groups and o.key_or_group != "trial"]

    base = [
        read_layer(LAB / "conf" / "lab.yaml"),
        read_layer(project.source / "conf" / "config.yaml"),
    ]
    own = trial_layers(project, name)
    choices: dict[str, Any] = {}
    for layer in (*base, *own):
        choices |= layer.defaults
    choices |= {o.key_or_group: o.value() for o in groups}
    if "data" not in choices:
        raise LabError(
            f"no data chosen; add `- data: NAME` to the defaults of {base[1].path}, with a conf/data/NAME.yaml."
        )
    layers = base + [
        layer for group in GROUPS for layer in group_layers(project, group, choices[group])
    ]

    below = merge_layers(layers)
    for layer in own:
        check_keys(layer.values, below, Source(shown_path(layer.path, project), trial))
        below = merge_layers([Layer(layer.path, below), layer])
    layers += own
    settings = check_typed(single, below, trial)

    config = finish_config(compose_with_hydra(layers, settings), project, name)
    return Composition(
        config=resolve(config),
        yaml=recorded_yaml(config, secrets),
        trial=name,
        overrides=overrides,
        origin=origin_of_keys(layers, project, single),
    )


def group_layers(project: Project, group: str, choice: Any) -> list[Layer]:
    """The chosen options of one group, each under the group's key. A list (logger=[files,wandb]) takes several:
    then each option has a key of its own below the group."""
    chosen = choice if isinstance(choice, list) else [choice]
    return [read_option(project, group, str(option)) for option in chosen]


def merge_layers(layers: list[Layer]) -> dict[str, Any]:
    return OmegaConf.to_container(
        OmegaConf.merge(*[OmegaConf.create(layer.values) for layer in layers]), resolve=False
    )


def compose_with_hydra(layers: list[Layer], settings: list[str]) -> DictConfig:
    """Hydra's compose over the layers as they stand, then the single settings."""
    store = ConfigStore.instance()
    names = [f"layer{i}" for i in range(len(layers))]
    for name, layer in zip(names, layers, strict=True):
        store.store(name=name, node=layer.values, provider=str(layer.path))
    store.store(name="root", node={"defaults": [*names, "_self_"]}, provider="lab")
    GlobalHydra.instance().clear()
    try:
        with initialize(config_path=None, version_base="1.3"):
            return hydra_compose("root", overrides=settings)
    except (HydraException, OmegaConfBaseException) as error:
        raise LabError(f"{str(error).splitlines()[0]} (settings: {' '.join(settings)})") from error


def finish_config(config: DictConfig, project: Project, name: str) -> DictConfig:
    """A copy with the trial's name, absolute targets and absolute paths.

    Raises:
        LabError: the project's own task has no model, or a target lies in another trial.
    """
    trial = name.partition("/")[0]
    values = OmegaConf.to_container(config, resolve=False)
    values["trial"] = name
    task = values.get("task") or {}
    if "model" not in values and str(task.get("_target_", "")).endswith(".task.Classifier"):
        raise LabError(
            f"trial {name!r} has no model; add to its config.yaml:\nmodel:\n  _target_: .model.CNN"
        )
    finished = OmegaConf.create(with_absolute_targets(values, trial))
    paths = OmegaConf.to_container(resolve(finished).paths)
    return OmegaConf.merge(finished, {"paths": absolute_paths(paths, project)})


def with_absolute_targets(values: Any, trial: str) -> Any:
    """A copy in which every `_target_` that begins with a dot names the trial's own directory."""
    if isinstance(values, list):
        return [with_absolute_targets(item, trial) for item in values]
    if not isinstance(values, dict):
        return values
    copied = {key: with_absolute_targets(item, trial) for key, item in values.items()}
    if isinstance(values.get("_target_"), str):
        copied["_target_"] = absolute_target(values["_target_"], trial)
    return copied


def absolute_paths(paths: dict[str, Any], project: Project) -> dict[str, Any]:
    """The section `paths` with variables expanded, as text, since the record is YAML."""
    texts: dict[str, Any] = {}
    for key, value in resolve_paths(paths, project.root).items():
        if isinstance(value, list):
            texts[key] = [str(path) for path in value]
        else:
            texts[key] = None if value is None else str(value)
    return texts


def origin_of_keys(layers: list[Layer], project: Project, settings: list) -> dict[str, str]:
    """The layer that set each leaf, by dotted key."""
    found: dict[str, str] = {}

    def visit(values: dict[str, Any], where: str, prefix: str = "") -> None:
        for key, value in values.items():
            if isinstance(value, dict) and value:
                visit(value, where, f"{prefix}{key}.")
            else:
                found[f"{prefix}{key}"] = where

    for layer in layers:
        visit(layer.values, shown_path(layer.path, project))
    return found | {override.key_or_group: "command line" for override in settings}


def shown_path(path: Path, project: Project) -> str:
    """A file of the project relative to its root; one of frozen code, or of the user's, in full."""
    return str(path.relative_to(project.root) if path.is_relative_to(project.root) else path)
