# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""From files and the command line to one checked configuration, with Hydra's compose API."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from ..errors import LabError
from ..project import LAB, Project, resolve_paths
from .check import absolute_target, check_keys
from .layers import GROUPS, Layer, read_layer, read_option, trial_layers, trials
from .overrides import checked_settings, parse_overrides
from .resolve import load_dotenv, recorded_yaml, resolve


@dataclass
class Composition:
    """A composed configuration: `config` resolved, `yaml` the text to record (values of .env left as ${oc.env:NAME}),
    `origin` the file (or "command line") that set each dotted key."""

    config: DictConfig
    yaml: str
    trial: str
    overrides: list[str]
    origin: dict[str, str]


def compose(project: Project, overrides: list[str]) -> Composition:
    """Composes `trial=NAME` with the given overrides; imports neither torch nor anything a `_target_` names.

    Raises:
        LabError: whatever can be known to be wrong from the text alone, with the nearest valid name.
    """
    secrets = load_dotenv(project)
    typed = parse_overrides(overrides)
    if typed.trial is None:
        raise LabError(
            f"no trial named; add trial=NAME. Trials: {', '.join(trials(project)) or 'none yet: lab trials new NAME'}"
        )
    trial = typed.trial.partition("/")[0]

    base = [
        read_layer(LAB / "conf" / "lab.yaml"),
        read_layer(project.source / "conf" / "config.yaml"),
    ]
    own = trial_layers(project, typed.trial)
    choices: dict[str, Any] = {}
    for layer in (*base, *own):
        choices |= layer.defaults
    choices |= typed.groups
    if "data" not in choices:
        raise LabError(
            f"no data chosen; add `- data: NAME` to the defaults of {base[1].path}, with a conf/data/NAME.yaml."
        )
    layers = base + [
        layer for group in GROUPS for layer in group_layers(project, group, choices[group])
    ]

    below = merge_layers(layers)
    for layer in own:
        check_keys(layer.values, below, trial, shown_path(layer.path, project))
        below = merge_layers([Layer(layer.path, below), layer])
    layers += own
    settings = checked_settings(typed.settings, below, trial)

    config = compose_with_hydra(layers, settings)
    finish_config(config, project, trial, typed.trial)
    return Composition(
        config=resolve(config),
        yaml=recorded_yaml(config, secrets),
        trial=typed.trial,
        overrides=overrides,
        origin=origin_of_keys(layers, project, typed.settings),
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


def finish_config(config: DictConfig, project: Project, trial: str, name: str) -> None:
    """Names the trial, makes its dot-targets absolute, and its paths."""
    OmegaConf.set_struct(config, False)
    with open_dict(config):
        config.trial = name
    if "model" not in config and str(config.get("task", {}).get("_target_", "")).endswith(
        ".task.Classifier"
    ):
        raise LabError(
            f"trial {name!r} has no model; add to its config.yaml:\nmodel:\n  _target_: .model.CNN"
        )
    _absolute_targets(config, trial)
    raw = OmegaConf.to_container(resolve(config).paths)
    for key, value in vars(resolve_paths(raw, project.root)).items():
        config.paths[key] = (
            [str(p) for p in value] if isinstance(value, list) else value and str(value)
        )


def _absolute_targets(node: Any, trial: str) -> None:
    if isinstance(node, DictConfig):
        raw = OmegaConf.to_container(node, resolve=False)
        for key, value in raw.items():
            if key == "_target_" and isinstance(value, str):
                node[key] = absolute_target(value, trial)
            elif isinstance(value, dict):
                _absolute_targets(node[key], trial)
            elif isinstance(value, list):
                for i, item in enumerate(value):
                    if isinstance(item, dict):
                        _absolute_targets(node[key][i], trial)


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
