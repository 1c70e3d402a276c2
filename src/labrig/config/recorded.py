"""Reads the configuration that a run has recorded, and changes what may be changed in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import yaml
from omegaconf import DictConfig, OmegaConf

from ..errors import LabError, nearest
from ..project import Project, new_names
from .check import check_type, dotted_keys
from .check_choice import check_choice
from .compose import Composition
from .overrides import SOURCE, parse_overrides
from .renamed import with_new_keys
from .resolve import load_variables, plain_values, resolve

# sections that say where and how a run runs, not what it computes
PLACE = ("job", "site", "paths", "sweep")


def read_recorded(path: Path) -> DictConfig:
    """config.yaml of a run or an attempt: values of .env are still ${oc.env:NAME}.

    Settings have today's names, where a release has renamed them since.
    """
    config = cast("DictConfig", OmegaConf.load(path))
    if not new_names("settings"):
        return config
    return DictConfig(with_new_keys(plain_values(config), "", None, new_names("settings")))


def run_identity(text: str) -> str:
    """What tells two runs apart: a recorded configuration without where and how it runs."""
    config = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    settings = {key: value for key, value in config.items() if key not in PLACE}
    identity = json.dumps(settings, sort_keys=True, default=str)
    # the data module repeats the search path, which differs between machines
    return identity.replace(json.dumps(config["paths"]["data"]), "paths.data")


def with_changes(
    config: DictConfig, overrides: list[str], may_change: tuple[str, ...], advice: str
) -> DictConfig:
    """A copy of `config` with what was typed; keys must begin with one of `may_change`.

    Raises:
        LabError: an unknown key, a value of another type, or, with `advice`, a key that may not change.
    """
    changed = config.copy()
    keys = dotted_keys(plain_values(config))
    allowed_keys = [key for key in keys if key.startswith(may_change)]
    for override in parse_overrides(overrides):
        key = override.key_or_group
        value = override.value()
        if key not in allowed_keys:
            raise LabError(f"{key} cannot be set here{nearest(key, allowed_keys)}. {advice}")
        check_type(key, value, OmegaConf.select(config, key), SOURCE)
        check_choice(key, value, SOURCE)
        OmegaConf.update(changed, key, value)
    return changed


def compose_from_record(project: Project, path: Path) -> Composition:
    """The configuration in `path`, as another run recorded it."""
    load_variables(project)
    config = read_recorded(path)
    text = path.read_text(encoding="utf-8")
    return Composition(config=resolve(config), yaml=text, trial=config.trial)
