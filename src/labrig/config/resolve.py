"""Resolves interpolations of a configuration and keeps the values of .env out of its record."""

from __future__ import annotations

import os
import pickle
import re
from enum import Enum
from functools import lru_cache
from typing import Any, cast

import yaml
from dotenv import dotenv_values
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ..errors import LabError
from ..machine.caches import ROOT, cache_variables
from ..machine.secrets import known_secrets, says_secret
from ..machine.text_table import is_number_text
from ..project import Project
from ..providers import provided

TRUTHS = ("y", "yes", "n", "no", "true", "false", "on", "off")  # of YAML 1.1, in any case
VARIABLE = re.compile(r"oc\.env:\s*(\w+)")


def load_variables(project: Project) -> None:
    """Reads the project's .env into the environment, and leads all caches to `paths.caches`.

    A variable that is set keeps its value. In a job the caches are those of the job's site.
    """
    for key, value in dotenv_values(project.root / ".env").items():
        if value:
            os.environ.setdefault(key, value)
    os.environ.update(cache_variables(os.environ.get(ROOT) or project.paths.caches))


def data_of(fact: str, *, _root_: DictConfig) -> Any:
    """The value of ${data_of:n_tokens}: a fact of the data file that the configuration names."""
    fact_of = provided("fact_of_data")
    assert fact_of is not None  # of hdf5, which is always there
    return fact_of(fact, OmegaConf.to_container(_root_.data, resolve=True))


OmegaConf.register_new_resolver("data_of", data_of, replace=True)


def resolve(config: DictConfig) -> DictConfig:
    """A copy without interpolations."""
    try:
        return DictConfig(OmegaConf.to_container(config, resolve=True))
    except OmegaConfBaseException as error:
        key = error.full_key or "a setting"
        text = str(error).splitlines()[0]
        own = text.partition("DataFileError raised while resolving interpolation: ")[2]
        if own:  # of data_of
            raise LabError(f"{key}: {own}") from error
        if "HydraConfig was not set" in text:
            text = "${hydra:...} has no value here: runs have directories of their own, below paths.runs"
        raise LabError(f"{key}: {text}. Correct the ${{...}} there.") from error


def plain_values(config: DictConfig) -> dict[str, Any]:
    """The configuration as dicts and lists; interpolations stay as written."""
    return cast("dict[str, Any]", OmegaConf.to_container(config))


def with_plain_enums(value: Any, is_argument: bool = False) -> Any:
    """A copy without enums of structured configs, which no YAML file holds.

    Below a `_target_` one becomes the section that builds it, so that the class is given the enum,
    now and when the run is resumed. Anywhere else it is its name.

    Args:
        is_argument: `value` lies below a `_target_`.
    """
    if isinstance(value, dict):
        is_argument = is_argument or "_target_" in value
        return {key: with_plain_enums(item, is_argument) for key, item in value.items()}
    if isinstance(value, list):
        return [with_plain_enums(item, is_argument) for item in value]
    if not isinstance(value, Enum):
        return value
    if not is_argument:
        return value.name
    kind = type(value)
    path = f"{kind.__module__}.{kind.__qualname__}.{value.name}"
    return {"_target_": "hydra.utils.get_object", "path": path}


def without_secrets(written: dict[str, Any], resolved: dict[str, Any]) -> dict[str, Any]:
    """The resolved configuration to record: a value that holds a known secret stays the ${...} of `written`."""
    secrets = [*known_secrets(), *_decoded_secrets(resolved, written)]
    return _hide(resolved, written, secrets) if secrets else resolved


Dumper: Any = getattr(yaml, "CDumper", yaml.Dumper)


class QuickDumper(Dumper):
    """Writes YAML as OmegaConf does, in a tenth of the time."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def represent_text(dumper: Any, text: str) -> yaml.Node:
    """Quotes what would be read as a number or a truth value, such as 1e-3 and on."""
    style = "'" if text.lower() in TRUTHS or is_number_text(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


QuickDumper.add_representer(str, represent_text)


def yaml_of(settings: dict[str, Any]) -> str:
    """The text of a configuration, which OmegaConf reads as the same values."""
    sections = [{key: value} for key, value in settings.items()] or [{}]
    return "".join(yaml_of_section(pickle.dumps(section)) for section in sections)


@lru_cache(maxsize=256)
def yaml_of_section(pickled: bytes) -> str:
    """The text of a section. Most are the same in all points of a list, and are written once."""
    return yaml.dump(
        pickle.loads(pickled),
        Dumper=QuickDumper,
        default_flow_style=False,
        allow_unicode=True,
        sort_keys=False,
    )


def _decoded_secrets(value: Any, written: Any) -> list[str]:
    """What `${oc.decode:${oc.env:NAME}}` and other resolvers made of the values of secret variables."""
    if isinstance(value, dict):
        parts = [_decoded_secrets(item, _part(written, key)) for key, item in value.items()]
        return [secret for part in parts for secret in part]
    if isinstance(value, list):
        parts = [_decoded_secrets(item, _part(written, i)) for i, item in enumerate(value)]
        return [secret for part in parts for secret in part]
    names = VARIABLE.findall(written) if isinstance(written, str) else []
    secret_names = known_secrets().values() if names else ()
    is_secret = any(says_secret(name) or name in secret_names for name in names)
    return [str(value)] if is_secret and str(value) else []


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
