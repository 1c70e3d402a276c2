"""Reads the configuration that a run has recorded, and changes what may be changed in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from omegaconf import DictConfig, OmegaConf

from ..errors import LabError, nearest
from ..machine.secrets import refuse_tokens_in
from ..project import Project, new_names, parse_yaml, read_yaml
from .check import dotted_keys
from .check_typed import plain_value
from .compose import Composition
from .overrides import SOURCE, parse_overrides
from .renamed import with_new_keys
from .resolve import load_variables, plain_values, resolve
from .schema import all_settings, check_value
from .trainer_arguments import check_trainer_argument, is_trainer_argument, trainer_settings

# sections that say where and how a run runs, and how its numbers are read, not what it computes
PLACE = ("job", "site", "paths", "sweep", "metrics")


def read_recorded(path: Path) -> DictConfig:
    """config.yaml of a run or an attempt: values of .env are still ${oc.env:NAME}.

    Settings have today's names, where a release has renamed them since.
    """
    read_yaml(path)  # refuses what would fill the memory
    config = cast("DictConfig", OmegaConf.load(path))
    if not new_names("settings"):
        return config
    return DictConfig(with_new_keys(plain_values(config), "", None, new_names("settings")))


def run_identity(text: str) -> str:
    """What tells two runs apart: a recorded configuration without where and how it runs."""
    config = parse_yaml(text)
    settings = {key: value for key, value in config.items() if key not in PLACE}
    identity = json.dumps(settings, sort_keys=True, default=str)
    # the data module repeats the search path, which differs between machines
    return identity.replace(json.dumps(config["paths"]["data"]), "paths.data")


def with_changes(
    config: DictConfig, overrides: list[str], may_change: tuple[str, ...], advice: str
) -> DictConfig:
    """A copy of `config` with what was typed; keys must begin with one of `may_change`."""
    refuse_tokens_in(
        {"settings": "\n".join(overrides)},
        "Put it into .env, and type ${oc.env:NAME} in its place.",
    )
    changed = config.copy()
    keys = [*dotted_keys(plain_values(config)), *trainer_settings()]
    allowed_keys = [key for key in keys if key.startswith(may_change)]
    for override in parse_overrides(overrides):
        key = override.key_or_group
        value = plain_value(override.value())
        is_of_trainer = is_trainer_argument(key) and key.startswith(may_change)
        if is_of_trainer:
            check_trainer_argument(key, value, SOURCE)
        elif key == "data" and "data." in may_change:
            raise LabError(
                f"data={value} cannot be set here: the run has its data already. Another file of "
                f"the same form: data.path={value}.h5"
            )
        elif key not in allowed_keys:
            raise LabError(f"{key} cannot be set here{nearest(key, allowed_keys)}. {advice}")
        # Lightning may take a value of another type.
        before = None if is_of_trainer else OmegaConf.select(config, key)
        check_value(key, value, before, SOURCE, all_settings())
        OmegaConf.update(changed, key, value)
    return changed


def compose_from_record(project: Project, path: Path) -> Composition:
    """The configuration in `path`, as another run recorded it."""
    load_variables(project)
    config = read_recorded(path)
    return Composition(plain_values(resolve(config)), plain_values(config), trial=config.trial)
