"""`lab sweep worker`: asks for a point, has it trained, and so on until no point is left.

Each point is trained by a fork of this process, which has imported torch and computed nothing. So
a point starts at once and as fresh as after `lab train`, and one that crashes harms no other.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from optuna.trial import Trial

from .. import env
from ..config.compose import compose
from ..config.program import is_program
from ..errors import LabError
from ..machine.ranks import discover
from ..machine.stop import PREEMPTION_SIGNALS, STOP
from ..project import Project, this_project
from ..record.keep.annotate import annotate
from ..record.read.run import Run
from ..record.write.create import RunRequest, create_run
from ..training.exact.stopped import Stopped
from ..training.start.command import train_attempt
from .folder import Sweep, refuse_other_data
from .points import PRUNED, RUN, Ended, Points, overrides_of
from .pruning import CALLBACK, NotLogged, Pruned

# Each task of a job that runs several workers works alone, with a GPU of its own.

# What launchers tell their tasks about each other
OF_A_LAUNCHER = re.compile(
    r"SLURM_|PBS_|PE_|PJM_|PMI|PMIX|OMPI_|PALS_|TORCHELASTIC_|MPI_"
    r"|(RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK|GROUP_WORLD_SIZE)$"
    r"|(MASTER_ADDR|MASTER_PORT)$"
)


def leave_the_others() -> None:
    """Has this process look like one that was started alone, if it is one task of several."""
    ranks = discover()
    if ranks.world_size == 1:
        return
    for name in list(os.environ):
        if OF_A_LAUNCHER.match(name):
            del os.environ[name]
    visible = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
    if len(visible) >= ranks.local_size:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible[ranks.local_rank]


POLL_S = 0.1
AWAIT_S = 20  # until one looks again whether a silent worker counts as dead
MAX_FAILURES = 3  # points in a row


# Works on a point until its run has ended; `settle` reads how.
Objective = Callable[[Sweep, Points, Trial], Ended]


def run_worker(project: Project, args: list[str]) -> int:
    if env.ATTEMPT in os.environ:  # another rank of a point that trains on several devices
        from ..training.start.command import join_attempt

        return join_attempt()
    if len(args) != 1:
        raise LabError("lab sweep worker is started by lab sweep. To search: lab sweep key=a,b")
    leave_the_others()
    sweep = Sweep.open(Path(args[0]))
    import_module(f"{this_project().package}.train")  # imports torch, once for all points

    def objective(sweep: Sweep, points: Points, trial: Trial) -> Ended:
        return train_point(project, sweep, points, trial)

    return work(sweep, objective, lambda: refuse_other_data(project, sweep))


def work(sweep: Sweep, objective: Objective, check: Callable[[], None] | None = None) -> int:
    """Works on points until none is left, or a signal asks to stop.

    Args:
        check: is called before each point, and raises LabError when no further one makes sense.

    Returns:
        An exit code: that of this process, or of one that it has forked.
    """
    STOP.listen(*PREEMPTION_SIGNALS, signal.SIGINT)
    points = Points(sweep)
    n_failures = 0
    while not STOP.signum:
        if check:
            check()
        points.trials()  # what others told, so that no fork has to read it
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            return work_on_next(sweep, points, objective)
        code = wait_for_point(pid)
        if code == Ended.NO_POINT:
            if not points.is_awaited():
                return 0
            wait_or_stop(AWAIT_S)
            continue
        if code in (Ended.MISTAKE, Ended.STOPPED):
            return end_early(code)
        n_failures = 0 if code == Ended.DONE else n_failures + 1
        if n_failures == MAX_FAILURES:
            print(f"lab: stopped, because {MAX_FAILURES} points in a row failed", file=sys.stderr)
            return Ended.FAILED
    return end_early(Ended.STOPPED)


def work_on_next(sweep: Sweep, points: Points, objective: Objective) -> int:
    """Takes a point, works on it and tells how it went; in a process of its own."""
    trial = points.take()
    if trial is None:
        return Ended.NO_POINT
    try:
        ended = objective(sweep, points, trial)
    finally:
        has_failed = points.settle_own(trial.number)
    if ended == Ended.MISTAKE or (has_failed and points.lacks_metric(trial)):
        return Ended.MISTAKE  # no other point will have the metric
    return Ended.FAILED if has_failed else ended


def wait_for_point(pid: int) -> int:
    """The exit code of a point's process, which gets the signals that this one gets."""
    passed_on = False
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        # The terminal sends Ctrl-C to both; a second one would end the point without a checkpoint.
        if STOP.signum and STOP.signum != signal.SIGINT and not passed_on:
            passed_on = True
            with suppress(ProcessLookupError):
                os.kill(pid, STOP.signum)
        time.sleep(POLL_S)


def wait_or_stop(seconds: float) -> None:
    """Waits, unless a signal asks to stop."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s and not STOP.signum:
        time.sleep(POLL_S)


def end_early(code: int) -> int:
    """Asks the scheduler, if one stopped this worker, to start its job again."""
    job_dir = os.environ.get(env.COMMAND_RUN_DIR)
    was_asked = STOP.signum not in (0, signal.SIGINT)
    if job_dir and code == Ended.STOPPED and was_asked:
        (Path(job_dir) / "requeue").write_text("a worker of a sweep\n", encoding="utf-8")
    return code


# Trains one point of a sweep as a normal run of the record, whose parent is the sweep.


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
        if isinstance(error, NotLogged):
            return Ended.MISTAKE
    return Ended.DONE


def create_point_run(project: Project, sweep: Sweep, trial: Trial) -> Run:
    """Makes the run of a point."""
    overrides = overrides_of(sweep, trial)
    composition = compose(project, overrides)
    if sweep.definition.pruner or not is_program(composition.config):
        callback = f"+callbacks.{CALLBACK}={{_target_:labrig.callbacks.Pruning}}"
        composition = compose(project, [*overrides, callback])
    request = RunRequest.of(
        composition,
        argv=["lab", "sweep", *sweep.definition.overrides, *sweep.definition.space],
        why=sweep.record["why"] or f"point {trial.number} of sweep {sweep.id}",
        parent=sweep.id,
        allow=sweep.record["allow"],
    )
    return create_run(project, sweep.runs, request)
