"""Points that a sweep begins with: those of another sweep, or of earlier runs of its trial."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from optuna.trial import create_trial

from ..config.compose import Composition, compose
from ..config.overrides import parse_overrides, typed_value
from ..config.recorded import read_recorded, run_identity
from ..config.resolve import resolve
from ..errors import LabError
from ..machine.counted import counted
from ..project import Project
from ..record.freeze.git import GitFailed
from ..record.read.ranking import require_metric
from ..record.read.roots import run_roots
from ..record.read.rows import read_rows, without_checks
from ..record.read.run import Run
from ..record.read.status import COUNT_FIRST
from .data import recorded_hash
from .definition import hash_of_code
from .folder import find_sweep
from .points import ORIGIN, RUN, Points, values_of
from .pruning import CALLBACK
from .space import Setting

RUNS = "runs"  # the word for the earlier runs of the trial


@dataclass(frozen=True)
class EarlierRun:
    """A finished run, and where it comes from: the id of a sweep, or RUNS."""

    run_dir: Path
    origin: str


def find_origins(roots: list[Path], words: list[str]) -> list[str]:
    """Where earlier points come from: the whole ids of the sweeps that were named, and RUNS."""
    return [word if word == RUNS else find_sweep(roots, word).id for word in words]


def add_earlier_points(
    project: Project, points: Points, base: Composition, origins: list[str], code_hash: str
) -> None:
    """Adds the points of these sweeps, and with RUNS those of the earlier runs of the trial.

    A run counts when it differs from the sweep's own points in nothing but the searched settings, and
    has read the same data with the same code.

    Args:
        code_hash: of the sweep, see `hash_of_code`.
    """
    if not origins:
        return
    definition = points.sweep.definition
    distributions = {each.name: each.distribution for each in definition.settings}
    n_added = n_others = n_of_other_code = 0
    with points.lock:
        present = {trial.user_attrs.get(RUN) for trial in points.trials()}
        for run in earlier_runs(run_roots(project), points, origins):
            name = os.path.relpath(run.run_dir, points.sweep.runs)
            if name in present:
                continue
            values = values_of(run.run_dir, definition.metrics)
            params = params_of(run.run_dir, definition.settings, base)
            if values is None or params is None or not is_same(project, points, run, params):
                n_others += 1
                continue
            if not has_code(project, run.run_dir, code_hash):
                n_of_other_code += 1
                continue
            present.add(name)
            n_added += 1
            trial = create_trial(
                params=params,
                distributions=distributions,
                values=values,
                user_attrs={RUN: name, ORIGIN: run.origin},
            )
            points.study.add_trial(trial)
    print(f"added {counted(n_added, 'point')} of earlier runs")
    if n_of_other_code:
        print(f"{n_of_other_code} others are of other code, so their values do not compare")
    if n_others:
        print(
            f"{n_others} others have no such metric, or differ also in data or settings not searched"
        )


def earlier_runs(roots: list[Path], points: Points, origins: list[str]) -> Iterator[EarlierRun]:
    """The finished runs of these sweeps, and with RUNS those of the trial."""
    sweep = points.sweep
    for row in without_checks(read_rows(roots)):
        if row["status"] not in COUNT_FIRST or row["parent"] == sweep.id:
            continue
        if row["parent"] in origins:
            yield EarlierRun(Path(row["run_dir"]), row["parent"])
        elif RUNS in origins and row["trial"] == sweep.definition.trial:
            yield EarlierRun(Path(row["run_dir"]), RUNS)


def params_of(run_dir: Path, settings: list[Setting], base: Composition) -> dict[str, Any] | None:
    """The searched values of a run; None when one is outside of the space."""
    config = resolve(read_recorded(run_dir / "config.yaml"))
    lines = (run_dir / "overrides.txt").read_text(encoding="utf-8").splitlines()
    params = {}
    for setting in settings:
        value = OmegaConf.select(config, setting.name)
        if isinstance(value, DictConfig):  # a section: which option was chosen for it
            typed = typed_value(parse_overrides(lines), setting.name)
            value = typed or base.choices.get(setting.name)
        elif isinstance(value, ListConfig):
            value = OmegaConf.to_container(value)
        try:
            params[setting.name] = setting.parameter_of(value)
        except ValueError:
            return None
    return params


def is_same(project: Project, points: Points, run: EarlierRun, params: dict[str, Any]) -> bool:
    """Whether a run has the data and the settings that a point with these values would have."""
    data = points.sweep.record.get("data_sha256")
    if data and recorded_hash(run.run_dir) not in (None, data):
        return False
    definition = points.sweep.definition
    of_point = [setting.override(params[setting.name]) for setting in definition.settings]
    expected = compose(project, [*points.sweep.overrides, *of_point]).yaml
    recorded = (run.run_dir / "config.yaml").read_text(encoding="utf-8")
    return run_identity(without_pruning(recorded)) == run_identity(expected)


def refuse_metric_never_logged(
    project: Project, trial: str, metrics: list[str], code_hash: str
) -> None:
    """Refuses what no run of the trial has logged, where the newest had the code of the sweep."""
    rows = [
        row
        for row in without_checks(read_rows(run_roots(project)))
        if row["trial"] == trial and row["status"] in COUNT_FIRST
    ]
    if not rows or not has_code(project, Path(rows[0]["run_dir"]), code_hash):
        return
    for metric in metrics:
        try:
            require_metric(rows, metric)
        except LabError as error:
            raise LabError(
                f"sweep.metric={metric}: {error}. If a setting of the sweep adds it, train a run with "
                "that first: lab train"
            ) from None


def has_code(project: Project, run_dir: Path, code_hash: str) -> bool:
    """Whether a run has the code of the sweep, as `hash_of_code` compares it."""
    record = Run.open(run_dir).record
    try:
        return hash_of_code(project, record["code"], record["trial"]) == code_hash
    except GitFailed:
        return False


def without_pruning(text: str) -> str:
    """A recorded configuration without the callback that prunes the points of a sweep."""
    config = OmegaConf.create(text)
    config.callbacks.pop(CALLBACK, None)
    return OmegaConf.to_yaml(config)
