# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Lists on the command line: `seed=0,1,2 optimizer.lr=1e-3,3e-4` is six points, each a run; those that exist are told."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from ..errors import LabError
from ..record.attempt import Scheduler, status
from ..record.files import read_json
from ..record.rows import run_directories

FILLED = ("queued", "running", "finished")


def expand(overrides: list[str]) -> list[list[str]]:
    """The overrides of every point: comma lists and range(...) taken apart, in the order they were typed."""
    choices = []
    for text in overrides:
        try:
            override = OverridesParser.create().parse_override(text)
        except HydraException as error:
            raise LabError(
                f"{text!r} is not a setting; write key=value, for example trial=baseline or seed=0,1,2"
            ) from error
        if override.is_sweep_override():
            if not override.is_discrete_sweep():
                raise LabError(
                    f"{text!r} has no list of values; that is for lab sweep. Here: key=a,b,c or key=range(0,5)"
                )
            choices.append([f"{override.key_or_group}={value}" for value in override.sweep_string_iterator()])
        else:
            choices.append([text])
    return [list(point) for point in product(*choices)]


def existing(runs: Path, code_tree: str | None, scheduler: Scheduler) -> dict[str, tuple[str, str]]:
    """Runs of this code that are queued, running or finished: hash of the configuration -> (run id, status)."""
    found = {}
    for directory in run_directories(runs):
        record: dict[str, Any] = read_json(Path(directory) / "run.json") or {}
        if (record.get("code") or {}).get("tree") == code_tree:
            state = status(Path(directory), scheduler, record)
            if state in FILLED:
                found[record["config_sha256"]] = (record["run_id"], state)
    return found
