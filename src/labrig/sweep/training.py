"""Trains one point of a sweep as a normal run of the record, whose parent is the sweep."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from optuna.trial import Trial

from .. import env
from ..config.compose import compose
from ..errors import LabError
from ..project import Project
from ..record.annotate import annotate
from ..record.create import RunRequest, create_run
from ..record.run import Run
from ..training.start import train_attempt
from ..training.stopped import Stopped
from .folder import Sweep
from .points import PRUNED, RUN, Ended, Points, overrides_of
from .pruning import CALLBACK, Pruned


def train_point(project: Project, sweep: Sweep, points: Points, trial: Trial) -> Ended:
    """Trains the run of a point: from its last checkpoint, or from the start."""
    run_dir = points.run_dir(trial)
    run = Run.open(run_dir) if run_dir else create_point_run(project, sweep, trial)
    if run_dir is None:
        trial.set_user_attr(RUN, str(run.dir.relative_to(sweep.runs)))
    os.environ[env.SWEEP_POINT] = f"{sweep.dir}:{trial.number}"
    print(f"point {trial.number}: {' '.join(overrides_of(sweep, trial))}", flush=True)
    try:
        train_attempt(project, run, overrides=[])
    except Stopped as stop:
        print(f"lab: {stop}", file=sys.stderr)
        return Ended.STOPPED
    except Pruned as pruned:
        trial.set_user_attr(PRUNED, pruned.step)
        annotate(run, note=f"{pruned} in sweep {sweep.id}")
        print(f"point {trial.number}: {pruned}")
    except LabError as error:
        print(f"lab: point {trial.number}: {error}", file=sys.stderr)
    return Ended.DONE


def create_point_run(project: Project, sweep: Sweep, trial: Trial) -> Run:
    """Makes the run of a point.

    Raises:
        LabError: its settings are wrong, or its code cannot be recorded.
    """
    overrides = overrides_of(sweep, trial)
    if sweep.definition.pruner:
        (metric,) = sweep.definition.metrics
        target = "labrig.callbacks.Pruning"
        overrides += [f"+callbacks.{CALLBACK}={{_target_:{target},metric:'{metric}'}}"]
    composition = compose(project, overrides)
    config = composition.config
    request = RunRequest(
        trial=composition.trial,
        config_yaml=composition.yaml,
        overrides=composition.overrides,
        argv=["lab", "sweep", *sweep.definition.overrides, *sweep.definition.space],
        seed=config.seed,
        why=sweep.record["why"] or f"point {trial.number} of sweep {sweep.id}",
        parent=sweep.id,
        dirty=config.record.dirty,
        allow=sweep.record["allow"],
        max_file_mb=config.record.max_file_mb,
        env_vars=tuple(config.record.get("env_vars", ())),
        package_files=config.record.get("package_files", False),
        checkpoints=Path(config.paths.checkpoints) if config.paths.checkpoints else None,
    )
    return create_run(project, sweep.runs, request)
