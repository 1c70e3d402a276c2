"""Registers a trial in Hydra's ConfigStore, as an option of the group `trial` in the global package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from ..errors import LabError, nearest
from ..project import Project, mark_of_mistake
from .gone_trials import PAGE, what_became_of
from .trial_names import TRIAL_NAME, trial_names, variant_names

NAMED_TRIAL = re.compile(r"\btrial/([a-z]\w*(?:/\w+)?)")  # in a defaults list


def trial_file(project: Project, name: str) -> Path:
    """The file of `trial` or of `trial/variant`."""
    trial, _, variant = name.partition("/")
    folder = project.source / "trials" / trial
    trials = trial_names(project)
    if trial not in trials:
        valid_names = f"Trials: {', '.join(trials)}" if trials else "Make one: lab trials new NAME"
        became = what_became_of(trial, project.root / PAGE, project.source / "trials")
        raise LabError(f"no trial {trial!r}{became or nearest(trial, trials)}. {valid_names}")
    if not TRIAL_NAME.fullmatch(trial):
        raise LabError(
            f"trial name {trial!r} must be lower-case letters, digits and _, "
            "beginning with a letter."
        )
    if not variant:
        return folder / "config.yaml"
    variants = variant_names(project, trial)
    if variant not in variants:
        raise LabError(
            f"trial {trial!r} has no variant {variant!r}{nearest(variant, variants)}. "
            f"Variants are YAML files next to its config.yaml: {', '.join(variants) or 'none yet'}"
        )
    return folder / f"{variant}.yaml"


def register_trial(project: Project, name: str) -> None:
    """Stores `name` and the trials that its defaults list names; others are not read and may be broken."""
    to_store = [name]
    stored = set()
    while to_store:
        name = to_store.pop()
        if name in stored:
            continue
        stored.add(name)
        path = trial_file(project, name)
        node = _read(path)
        trial, _, variant = name.partition("/")
        if variant:
            node.defaults = [f"/trial/{trial}@_global_", *node.get("defaults", [])]
            group = f"trial/{trial}"
        else:
            group = "trial"
        ConfigStore.instance().store(variant or trial, node, group, "_global_", provider=str(path))
        to_store += NAMED_TRIAL.findall(str(node.get("defaults", "")))


def _read(path: Path) -> DictConfig:
    with yaml_errors(path):
        node = OmegaConf.load(path) if path.stat().st_size else OmegaConf.create()
    if not isinstance(node, DictConfig):
        raise LabError(f"{path} must hold `key: value` lines, but it holds a list or a text.")
    return node


@contextmanager
def yaml_errors(path: Path | None = None) -> Iterator[None]:
    """A file that is not valid YAML as a LabError with file, line and column."""
    try:
        yield
    except (yaml.YAMLError, UnicodeDecodeError, PermissionError) as error:
        mark = mark_of_mistake(error)
        place = f"{mark.name}, line {mark.line + 1}, column {mark.column + 1}" if mark else path
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise LabError(f"{place or 'a file'}: not valid YAML ({reason}). Fix that line.") from error
