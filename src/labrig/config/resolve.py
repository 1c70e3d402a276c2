"""Resolves interpolations of a configuration and keeps the values of .env out of its record."""

from __future__ import annotations

import os
from typing import Any, cast

from dotenv import dotenv_values
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ..errors import LabError
from ..machine.caches import ROOT, cache_variables
from ..machine.known_secrets import known_secrets
from ..project import Project


def load_variables(project: Project) -> None:
    """Reads the project's .env into the environment, and leads all caches to `paths.caches`.

    A variable that is set keeps its value. In a job the caches are those of the job's site.
    """
    for key, value in dotenv_values(project.root / ".env").items():
        if value:
            os.environ.setdefault(key, value)
    os.environ.update(cache_variables(os.environ.get(ROOT) or project.paths.caches))


def resolve(config: DictConfig) -> DictConfig:
    """A copy without interpolations.

    Raises:
        LabError: an interpolation names no key, or its resolver fails.
    """
    try:
        return DictConfig(OmegaConf.to_container(config, resolve=True))
    except OmegaConfBaseException as error:
        key = error.full_key or "a setting"
        text = str(error).splitlines()[0]
        if "HydraConfig was not set" in text:
            text = "${hydra:...} has no value here: runs have directories of their own, below paths.runs"
        raise LabError(f"{key}: {text}. Correct the ${{...}} there.") from error


def plain_values(config: DictConfig, enum_to_str: bool = False) -> dict[str, Any]:
    """The configuration as dicts and lists; interpolations stay as written."""
    return cast("dict[str, Any]", OmegaConf.to_container(config, enum_to_str=enum_to_str))


def recorded_yaml(config: DictConfig, resolved: DictConfig) -> str:
    """The resolved configuration as YAML; a value that holds a known secret stays the ${...} of `config`."""
    values = plain_values(resolved)
    written = plain_values(config)
    return OmegaConf.to_yaml(OmegaConf.create(_hide(values, written, list(known_secrets()))))


def _hide(value: Any, written: Any, secrets: list[str]) -> Any:
    """`value` with each text that holds a secret replaced by what was written in its place."""
    if isinstance(value, dict):
        return {key: _hide(item, _part(written, key), secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [_hide(item, _part(written, i), secrets) for i, item in enumerate(value)]
    if any(secret in str(value) for secret in secrets):
        return written
    return value


def _part(written: Any, key: Any) -> Any:
    """What was written for a part; where the whole was one ${...}, that."""
    return written[key] if isinstance(written, dict | list) else written
