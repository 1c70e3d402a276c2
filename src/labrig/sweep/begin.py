"""Begins a sweep, or continues it: freezes the code, plans the points, starts the workers.

It may begin with the points of another sweep, or of earlier runs of its trial.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from optuna.trial import TrialState, create_trial

from ..cluster.submit.plan import plan_submission
from ..config.compose import Composition, compose
from ..config.overrides import parse_overrides, typed_value
from ..config.recorded import read_recorded, run_identity
from ..config.resolve import resolve
from ..errors import LabError
from ..machine.secrets import refuse_tokens_in
from ..machine.text_formats import counted
from ..project import Project
from ..record.freeze.frozen import freeze_code
from ..record.freeze.git import GitFailed
from ..record.read.evaluations import NO_LIMIT
from ..record.read.ranking import require_metric, split_of
from ..record.read.rows import read_rows, without_checks
from ..record.read.run import Run, record_root, run_roots, typed_overrides
from ..record.read.status import COUNT_FIRST
from ..record.write.inputs import with_fixed_weights
from .definition import Setting, SweepDefinition, define_sweep, hash_of_code
from .folder import Sweep, find_sweep, hash_of_data, make_sweep, recorded_hash, sweep_directories
from .points import N_POINTS, ORIGIN, RUN, Points, values_of
from .pruning import CALLBACK
from .workers import search_here, search_in_jobs

MAX_GRID = 10_000  # points
DONE = (TrialState.COMPLETE, TrialState.PRUNED)


def begin_sweep(project: Project, options: argparse.Namespace) -> int:
    """Begins or continues the sweep of a command line, and starts its workers."""
    if not options.allow:
        refuse_tokens_in({"settings": "\n".join(options.overrides), "--why": options.why or ""})
    definition, base = define_sweep(project, options.overrides)
    require_same_samples(definition, base.config.trainer)
    init_from = with_fixed_weights(base, project).config.get("init_from")
    # The site's rules are asked before anything is written.
    plan = plan_submission(project, definition.overrides, ["sweep"])
    # On a login node the plan has chosen the site.
    definition = replace(definition, overrides=plan.points[0].overrides)
    origins = find_origins(run_roots(project), options.earlier)
    rules = base.config.record
    code = freeze_code(
        project,
        plan.runs,
        base.trial,
        dirty=rules.dirty,
        max_file_mb=rules.max_file_mb,
        allow=options.allow,
    )
    code_hash = hash_of_code(project, code, base.trial)
    refuse_metric_never_logged(project, base.trial, definition.metrics, code_hash)
    data_sha256 = None if definition.searches_data else hash_of_data(base.config)
    record_root(project, plan.runs)
    sweep = make_sweep(
        plan.runs, definition, code_hash, code, options.why, options.allow, init_from, data_sha256
    )
    points = Points(sweep)
    add_earlier_points(project, points, base, origins, code_hash)
    plan_points(points, base.config.sweep.points)
    print_beginning(points)
    if points.n_open() == 0:
        print(f"all points are done. Look: lab sweep show {sweep.id}")
        return 0
    if plan.site.scheduler == "local":
        return search_here(project, points, base, code)
    return search_in_jobs(points, plan, base, code, options.yes)


def require_same_samples(definition: SweepDefinition, trainer: DictConfig) -> None:
    """Raises LabError when the points would be measured on so many batches, whose size is searched."""
    searched = {setting.name for setting in definition.settings}
    searched &= {"data.batch_size", "trainer.devices"}
    for metric in definition.metrics:
        name = f"limit_{'test' if split_of(metric) == 'test' else 'val'}_batches"
        limit = trainer.get(name)
        if searched and repr(limit) not in NO_LIMIT:
            raise LabError(
                f"{' and '.join(sorted(searched))} is searched, so with trainer.{name}={limit} each point "
                f"would be measured on other samples. Measure on all: trainer.{name}=1.0"
            )


def plan_points(points: Points, n_points: int) -> None:
    """Settles what dead workers left, and writes how many points there shall be.

    All points of a grid wait in the journal from now on, also those that failed before.
    """
    with points.lock:
        points.settle_all()
        if points.sweep.definition.sampler == "grid":
            grid = grid_of(points.sweep.definition.settings)
            n_points = enqueue_grid(points, grid)
        if points.study.user_attrs.get(N_POINTS) != n_points:
            points.study.set_user_attr(N_POINTS, n_points)


def grid_of(settings: list[Setting]) -> list[dict[str, Any]]:
    """Every combination of the values."""
    values = [setting.grid_values() for setting in settings]
    n_points = 1
    for each in values:
        n_points *= len(each)
    if n_points > MAX_GRID:
        raise LabError(
            f"this grid has {n_points:,} points, {MAX_GRID:,} are allowed. "
            "Some of them, at random: sweep.sampler=random sweep.points=100"
        )
    names = [setting.name for setting in settings]
    return [dict(zip(names, combination, strict=True)) for combination in product(*values)]


def enqueue_grid(points: Points, grid: list[dict[str, Any]]) -> int:
    """Has the points of a grid wait that nobody has or waits for; returns how many are this sweep's."""
    earlier = {key_of(trial.params) for trial in points.trials(*DONE) if ORIGIN in trial.user_attrs}
    planned = {key_of(trial.params) for trial in points.trials(*DONE, TrialState.RUNNING)}
    for trial in points.trials(TrialState.RUNNING, TrialState.WAITING):
        planned.add(key_of(trial.system_attrs["fixed_params"]))
    for values in grid:
        if key_of(values) not in planned:
            points.study.enqueue_trial(values)
    return sum(1 for values in grid if key_of(values) not in earlier)


def key_of(params: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(params.items()))


def print_beginning(points: Points) -> None:
    """What is searched and how far it is; and sweeps that differ in their code or data only."""
    sweep = points.sweep
    definition = sweep.definition
    n_done = points.n_points - points.n_open()
    has_begun = any(trial.state != TrialState.WAITING for trial in points.own())
    word = "continues" if has_begun else "begins"
    print(f"sweep {sweep.id} {word}: {n_done} of {counted(points.n_points, 'point')} done")
    goals = [
        f"{direction} {metric}"
        for direction, metric in zip(definition.directions, definition.metrics, strict=True)
    ]
    print(f"{', '.join(goals)} by {definition.sampler} over {' '.join(definition.space)}")
    if has_begun:
        if not sweep.record.get("code_hash"):
            print("whether its code changed since is not known: git has not recorded it")
        return
    for other in equal_sweeps(sweep):
        what = " and ".join(differences(other.record, sweep.record))
        print(f"sweep {other.id} searches the same with {what}; its points: --from {other.id}")


def equal_sweeps(sweep: Sweep) -> list[Sweep]:
    """The other sweeps with the same definition."""
    others = [Sweep.open(path) for path in sweep_directories([sweep.runs]) if path != sweep.dir]
    return [other for other in others if other.definition == sweep.definition]


def differences(other: dict[str, Any], record: dict[str, Any]) -> list[str]:
    """In what two sweeps with the same definition differ, by what their sweep.json says."""
    names = {"code_hash": "other code", "data_sha256": "other data"}
    return [words for key, words in names.items() if other[key] != record[key]]


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
    params = {}
    for setting in settings:
        value = OmegaConf.select(config, setting.name)
        if isinstance(value, DictConfig):  # a section: which option was chosen for it
            typed = typed_value(parse_overrides(typed_overrides(run_dir)), setting.name)
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
