# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""From files and the command line to one checked configuration, with Hydra's compose API; `lab config` prints it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dotenv import dotenv_values
from hydra import compose as hydra_compose
from hydra import initialize
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from ..errors import LabError
from ..project import LAB, Project, resolve_paths
from .layers import GROUPS, Layer, read_layer, read_option, trial_layers, trials
from .legal import absolute_target, check_keys, dotted
from .overrides import SettingsParser, legal_settings, parse, read_recorded


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
    typed = parse(overrides)
    if typed.trial is None:
        raise LabError(
            f"no trial named; add trial=NAME. Trials: {', '.join(trials(project)) or 'none yet: lab trials new NAME'}"
        )
    trial = typed.trial.partition("/")[0]

    base = [read_layer(LAB / "conf" / "lab.yaml"), read_layer(project.source / "conf" / "config.yaml")]
    own = trial_layers(project, typed.trial)
    choices: dict[str, Any] = {}
    for layer in (*base, *own):
        choices |= layer.defaults
    choices |= typed.groups
    if "data" not in choices:
        raise LabError(
            f"no data chosen; add `- data: NAME` to the defaults of {base[1].path}, with a conf/data/NAME.yaml."
        )
    layers = base + [layer for group in GROUPS for layer in group_layers(project, group, choices[group])]

    below = merge(layers)
    for layer in own:
        check_keys(layer.values, below, trial, shown(layer.path, project))
        below = merge([Layer(layer.path, below), layer])
    layers += own
    settings = legal_settings(typed.settings, below, trial)

    config = hydra(layers, settings)
    finish(config, project, trial, typed.trial)
    return Composition(
        config=resolved(config),
        yaml=recordable(config, secrets),
        trial=typed.trial,
        overrides=overrides,
        origin=origins(layers, project, typed.settings),
    )


def accumulation(config: DictConfig, n_processes: int) -> int:
    """Batches per optimizer step that make batch.global samples of all processes.

    Raises:
        LabError: no whole number of batches does, or other settings say otherwise.
    """
    wanted, n_samples = config.batch["global"], config.data.get("batch_size")
    if n_samples is None or config.trainer.accumulate_grad_batches != 1 or config.batch.scale_lr:
        raise LabError(
            "batch.global needs data.batch_size, and decides trainer.accumulate_grad_batches (leave it at 1); "
            "batch.scale_lr has no meaning beside it, as more processes then make no larger batch"
        )
    at_once = n_samples * n_processes
    if not isinstance(wanted, int) or wanted < 1 or wanted % at_once:
        how = f"data.batch_size={n_samples} times {n_processes} processes: {at_once}, {2 * at_once}, {3 * at_once} ..."
        raise LabError(f"batch.global={wanted} is no multiple of {how}")
    return wanted // at_once


def composed_before(project: Project, path: Path) -> Composition:
    """The configuration in `path`, as another run recorded it."""
    load_dotenv(project)
    config = read_recorded(path)
    return Composition(resolved(config), path.read_text(encoding="utf-8"), config.trial, [], {})


def group_layers(project: Project, group: str, choice: Any) -> list[Layer]:
    """The chosen options of one group, each under the group's key. A list (logger=[files,wandb]) takes several:
    then each option has a key of its own below the group."""
    chosen = choice if isinstance(choice, list) else [choice]
    return [read_option(project, group, str(option)) for option in chosen]


def merge(layers: list[Layer]) -> dict[str, Any]:
    return OmegaConf.to_container(OmegaConf.merge(*[OmegaConf.create(layer.values) for layer in layers]), resolve=False)


def hydra(layers: list[Layer], settings: list[str]) -> DictConfig:
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


def finish(config: DictConfig, project: Project, trial: str, name: str) -> None:
    """Names the trial, makes its dot-targets absolute, and its paths."""
    OmegaConf.set_struct(config, False)
    with open_dict(config):
        config.trial = name
    if "model" not in config and str(config.get("task", {}).get("_target_", "")).endswith(".task.Classifier"):
        raise LabError(f"trial {name!r} has no model; add to its config.yaml:\nmodel:\n  _target_: .model.CNN")
    _absolute_targets(config, trial)
    raw = OmegaConf.to_container(resolved(config).paths)
    for key, value in resolve_paths(raw, project.root).items():
        config.paths[key] = [str(p) for p in value] if isinstance(value, list) else value and str(value)


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


def load_dotenv(project: Project) -> dict[str, str]:
    """Reads the project's .env into the environment (what is set already wins) and returns its values,
    which are never recorded."""
    values = {key: value for key, value in dotenv_values(project.root / ".env").items() if value}
    for key, value in values.items():
        os.environ.setdefault(key, value)
    return {key: os.environ[key] for key in values}


def telling(secrets: dict[str, str]) -> list[str]:
    """The values of .env that are long enough to be secrets rather than a 0 or a true."""
    return [value for value in secrets.values() if len(value) >= 4]


def resolved(config: DictConfig) -> DictConfig:
    try:
        return OmegaConf.create(OmegaConf.to_container(config, resolve=True))
    except OmegaConfBaseException as error:
        raise LabError(f"{error.full_key or 'a setting'}: {str(error).splitlines()[0]}") from error


def recordable(config: DictConfig, secrets: dict[str, str]) -> str:
    """The resolved configuration as YAML; a value that holds one of .env's stays the ${...} that was written."""
    hidden = telling(secrets)

    def clean(value: Any, raw: Any) -> Any:
        if isinstance(value, dict):
            return {key: clean(item, raw[key] if isinstance(raw, dict) else raw) for key, item in value.items()}
        if isinstance(value, list):
            return [clean(item, raw[i] if isinstance(raw, list) else raw) for i, item in enumerate(value)]
        return raw if isinstance(value, str) and any(secret in value for secret in hidden) else value

    plain = OmegaConf.to_container(resolved(config))
    return OmegaConf.to_yaml(OmegaConf.create(clean(plain, OmegaConf.to_container(config, resolve=False))))


def shown(path: Path, project: Project) -> str:
    """A file of the project relative to its root; one of frozen code, or of the user's, in full."""
    return str(path.relative_to(project.root) if path.is_relative_to(project.root) else path)


def origins(layers: list[Layer], project: Project, settings: list) -> dict[str, str]:
    """The layer that set each leaf, by dotted key."""
    found: dict[str, str] = {}

    def visit(values: dict[str, Any], where: str, prefix: str = "") -> None:
        for key, value in values.items():
            if isinstance(value, dict) and value:
                visit(value, where, f"{prefix}{key}.")
            else:
                found[f"{prefix}{key}"] = where

    for layer in layers:
        visit(layer.values, shown(layer.path, project))
    return found | {override.key_or_group: "command line" for override in settings}


def config_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser("lab config", "Prints the composed configuration of trial=NAME and settings.")
    parser.add_argument("--origin", action="store_true", help="a line per key, with the file that set it")
    chosen = parser.read(args)
    composition = compose(project, chosen.overrides)
    if not chosen.origin:
        print(composition.yaml, end="")
        return 0
    written = OmegaConf.create(composition.yaml)
    for key in dotted(OmegaConf.to_container(written, resolve=False)):
        value = OmegaConf.select(written, key, throw_on_resolution_failure=False)
        if not OmegaConf.is_dict(value):
            print(f"{key}={value}  # {composition.origin.get(key, 'set by lab')}")
    return 0
