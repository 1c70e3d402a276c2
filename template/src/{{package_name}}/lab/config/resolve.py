# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Resolves interpolations of a configuration and keeps the values of .env out of its record."""

from __future__ import annotations

import os
from typing import Any

from dotenv import dotenv_values
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ..errors import LabError
from ..project import Project


def load_dotenv(project: Project) -> dict[str, str]:
    """Reads the project's .env into the environment (what is set already wins) and returns its values,
    which are never recorded."""
    values = {key: value for key, value in dotenv_values(project.root / ".env").items() if value}
    for key, value in values.items():
        os.environ.setdefault(key, value)
    return {key: os.environ[key] for key in values}


def secret_values(secrets: dict[str, str]) -> list[str]:
    """The values of .env that are long enough to be secrets rather than a 0 or a true."""
    return [value for value in secrets.values() if len(value) >= 4]


def resolve(config: DictConfig) -> DictConfig:
    try:
        return OmegaConf.create(OmegaConf.to_container(config, resolve=True))
    except OmegaConfBaseException as error:
        raise LabError(f"{error.full_key or 'a setting'}: {str(error).splitlines()[0]}") from error


def recorded_yaml(config: DictConfig, secrets: dict[str, str]) -> str:
    """The resolved configuration as YAML; a value that holds one of .env's stays the ${...} that was written."""
    hidden = secret_values(secrets)

    def clean(value: Any, raw: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: clean(item, raw[key] if isinstance(raw, dict) else raw)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [
                clean(item, raw[i] if isinstance(raw, list) else raw)
                for i, item in enumerate(value)
            ]
        return (
            raw if isinstance(value, str) and any(secret in value for secret in hidden) else value
        )

    plain = OmegaConf.to_container(resolve(config))
    return OmegaConf.to_yaml(
        OmegaConf.create(clean(plain, OmegaConf.to_container(config, resolve=False)))
    )
