"""Begins a sweep, or continues it: freezes the code, plans the points, starts the workers."""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import product
from typing import Any

from optuna.trial import TrialState

from ..cluster.submit.plan import plan_submission
from ..errors import LabError
from ..machine.counted import counted
from ..machine.secrets import refuse_tokens_in
from ..project import Project
from ..record.freeze.frozen import freeze_code
from ..record.read.roots import record_root, run_roots
from ..record.write.initial_weights import with_fixed_weights
from .data import hash_of_data
from .definition import define_sweep, hash_of_code
from .earlier import add_earlier_points, find_origins, refuse_metric_never_logged
from .folder import Sweep, make_sweep, sweep_directories
from .points import N_POINTS, ORIGIN, Points
from .space import Setting
from .workers import search_here, search_in_jobs

MAX_GRID = 10_000  # points
DONE = (TrialState.COMPLETE, TrialState.PRUNED)


def begin_sweep(project: Project, options: argparse.Namespace) -> int:
    """Begins or continues the sweep of a command line, and starts its workers."""
    if not options.allow:
        refuse_tokens_in({"settings": "\n".join(options.overrides), "--why": options.why or ""})
    definition, base = define_sweep(project, options.overrides)
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
