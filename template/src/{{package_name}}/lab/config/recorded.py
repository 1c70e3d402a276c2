# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The configuration that a run recorded, and the few settings that may be changed on top of it."""

from __future__ import annotations

import json
from pathlib import Path

import yaml
from omegaconf import DictConfig, OmegaConf

from ..errors import LabError, nearest
from .legal import check_type, dotted
from .overrides import SOURCE, SettingsParser, parse

PLACE = ("job", "site", "paths")


def read_recorded(path: Path) -> DictConfig:
    """config.yaml of a run or an attempt, as recorded: values of .env are still ${oc.env:NAME}."""
    return OmegaConf.load(path)


def identity(text: str) -> str:
    """What tells two runs apart: a recorded configuration without the sections that say where and how it runs."""
    config = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    kept = json.dumps({key: value for key, value in config.items() if key not in PLACE}, sort_keys=True, default=str)
    return kept.replace(json.dumps(config["paths"]["data"]), "paths.data")  # where data is searched for


def run_and_settings(parser: SettingsParser, words: list[str]) -> tuple[str, list[str]]:
    """The run that was named first, and the settings after it."""
    if not words or "=" in words[0]:
        raise LabError(
            f"name the run first: {parser.prog} RUN [key=value ...]. Runs: lab runs list; the last one is @last"
        )
    return words[0], words[1:]


def with_settings(config: DictConfig, overrides: list[str], may_change: tuple[str, ...], otherwise: str) -> DictConfig:
    """`config` with the settings that were typed; only keys that begin with one of `may_change` are accepted.

    Raises:
        LabError: an unknown key, a value of another type, or a key that may not change, with `otherwise` as the advice.
    """
    known = [key for key in dotted(OmegaConf.to_container(config, resolve=False)) if key.startswith(may_change)]
    for override in parse(overrides).settings:
        key, value = override.key_or_group, override.value()
        if key not in known:
            raise LabError(f"{key} cannot be set here{nearest(key, known)}. {otherwise}")
        check_type(key, value, OmegaConf.select(config, key), SOURCE)
        OmegaConf.update(config, key, value)
    return config
