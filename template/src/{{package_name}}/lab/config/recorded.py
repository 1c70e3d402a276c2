# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Reads the configuration that a run has recorded, and changes what may be changed in it."""

from __future__ import annotations

import json
from pathlib import Path

import yaml
from omegaconf import DictConfig, OmegaConf

from ..errors import LabError, nearest
from ..project import Project
from .check import check_type, dotted_keys
from .compose import Composition
from .overrides import SOURCE, parse_overrides
from .resolve import load_dotenv, resolve

PLACE = ("job", "site", "paths")  # sections that say where and how a run runs, not what


def read_recorded(path: Path) -> DictConfig:
    """config.yaml of a run or an attempt, as recorded: values of .env are still ${oc.env:NAME}."""
    return OmegaConf.load(path)


def run_identity(text: str) -> str:
    """What tells two runs apart: a recorded configuration without the sections that say where and how it runs."""
    config = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    kept = json.dumps(
        {key: value for key, value in config.items() if key not in PLACE},
        sort_keys=True,
        default=str,
    )
    return kept.replace(
        json.dumps(config["paths"]["data"]), "paths.data"
    )  # where data is searched for


def with_changes(
    config: DictConfig, overrides: list[str], may_change: tuple[str, ...], otherwise: str
) -> DictConfig:
    """`config` with the settings that were typed; only keys that begin with one of `may_change` are accepted.

    Raises:
        LabError: an unknown key, a value of another type, or a key that may not change, with `otherwise` as the advice.
    """
    known = [
        key
        for key in dotted_keys(OmegaConf.to_container(config, resolve=False))
        if key.startswith(may_change)
    ]
    for override in parse_overrides(overrides).settings:
        key, value = override.key_or_group, override.value()
        if key not in known:
            raise LabError(f"{key} cannot be set here{nearest(key, known)}. {otherwise}")
        check_type(key, value, OmegaConf.select(config, key), SOURCE)
        OmegaConf.update(config, key, value)
    return config


def compose_from_record(project: Project, path: Path) -> Composition:
    """The configuration in `path`, as another run recorded it."""
    load_dotenv(project)
    config = read_recorded(path)
    return Composition(resolve(config), path.read_text(encoding="utf-8"), config.trial, [], {})
