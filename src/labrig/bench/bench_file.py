"""The file of a bench, named after the code and the settings that were measured."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from omegaconf import DictConfig

from ..config.resolve import plain_values, resolve
from ..project import Project
from ..record.files.atomic import read_advisory
from ..record.files.schema import Code
from ..record.freeze.frozen import frozen_code, frozen_directory
from ..record.freeze.git import NoRepository
from ..record.freeze.snapshot import snapshot
from .result import SCHEMA, BenchResult

# The time of a step does not depend on these sections, nor on these keys of `trainer`
OTHER_SECTIONS = (
    "budget",
    "callbacks",
    "checkpoint",
    "job",
    "log",
    "logger",
    "paths",
    "profile",
    "record",
    "schedule",
    "seed",
    "site",
)
OTHER_TRAINER_KEYS = (
    "check_val_every_n_epoch",
    "devices",
    "max_epochs",
    "max_steps",
    "test_after_fit",
    "test_with",
    "val_every_steps",
)


def resolved_settings(config: DictConfig | dict[str, Any]) -> dict[str, Any]:
    """Settings as plain data without interpolations; a dict is that already."""
    return config if isinstance(config, dict) else plain_values(resolve(config))


def bench_path(config: DictConfig | dict[str, Any], tree: str | None) -> Path:
    """The file of the bench of these settings and this git tree.

    It is runs/<trial>/bench-<tree>-<settings>.json. Settings that do not change the time of a step make no difference.
    """
    settings = resolved_settings(config)
    measured = {key: value for key, value in settings.items() if key not in OTHER_SECTIONS}
    measured["trainer"] = {
        key: value for key, value in settings["trainer"].items() if key not in OTHER_TRAINER_KEYS
    }
    # The numbers of the optimizer make no difference either; its switches do
    measured["optimizer"] = {
        key: value
        for key, value in settings["optimizer"].items()
        if type(value) not in (int, float)
    }
    text = json.dumps(measured, sort_keys=True, default=str)
    settings_hash = hashlib.sha256(text.encode()).hexdigest()[:6]
    name = f"bench-{(tree or 'unrecorded')[:12]}-{settings_hash}.json"
    return Path(settings["paths"]["runs"], settings["trial"].replace("/", "+"), name)


def read_bench(config: DictConfig | dict[str, Any], tree: str | None) -> BenchResult | None:
    """The bench of these settings and this git tree; None when there is none of this version."""
    content = read_advisory(bench_path(config, tree))
    if content is None or content.get("schema") != SCHEMA:
        return None
    try:
        return BenchResult.from_json(content)
    except (msgspec.ValidationError, TypeError, AttributeError):  # it only helps, whatever is in it
        return None


def code_that_runs(project: Project, config: DictConfig) -> dict[str, Any]:
    """Commit, tree and dirty of the code that runs; each None where there is no repository."""
    code: Code = {}
    if frozen_directory():
        code = frozen_code()
    else:
        with suppress(NoRepository):
            code = snapshot(project.root, max_file_mb=config.record.max_file_mb)
    return {key: code.get(key) for key in ("commit", "tree", "dirty")}
