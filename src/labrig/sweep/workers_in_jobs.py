"""The workers of a sweep as one job array."""

from __future__ import annotations

from dataclasses import replace

from ..cluster.budget import check_budget
from ..cluster.job_states import job_state_of
from ..cluster.plan import Plan, plan_of
from ..cluster.send import send_runs
from ..cluster.submit import SubmitOptions, check_points, pack_code, record_run, unpacked
from ..cluster.submit_command import print_submitted
from ..config.compose import Composition, compose
from ..machine.counted import counted
from ..record.bundle import STORE
from ..record.schema import Code
from ..record.status import status_of
from .points import Points


def search_in_jobs(
    points: Points, plan: Plan, base: Composition, code: Code, yes: bool = False
) -> int:
    """Sends a job array of workers, of which job.throttle run at a time; returns at once.

    Workers of an earlier call that still run or wait count too.

    Args:
        yes: send them though they may use more than the budget.

    Raises:
        LabError: the frozen code fails its check, or the scheduler or the budget refuses.
    """
    sweep = points.sweep
    n_alive = n_living_workers(points)
    n_per_job = plan.request.n_tasks
    n_wanted = min(base.config.sweep.workers or plan.throttle * n_per_job, points.n_open())
    n_jobs = -(-(n_wanted - n_alive * n_per_job) // n_per_job)
    if n_jobs <= 0:
        print(f"{counted(n_alive, 'worker')} already running or waiting: lab queue")
        return 0
    # python3 is the one of the job, which `lab rank` puts first on the path.
    command = ["python3", "-m", "labrig", "sweep", "worker", str(sweep.dir)]
    job = ["job.name=sweep"] if plan.request.name == "sweep" else []
    worker = compose(plan.project, [*plan.points[0].overrides, *job])
    plan = plan_of(plan.project, [worker] * n_jobs, command)
    check_budget(plan, None, yes)
    with unpacked(plan, code, plan.runs / STORE) as frozen:
        check_points(replace(plan, points=[base], trains=True), code, frozen, batch=True)
        archive = pack_code(plan, code, frozen)
    options = SubmitOptions(why=f"worker of sweep {sweep.id}", allow=sweep.record["allow"])
    runs = [record_run(plan, point, code, options) for point in plan.points]
    for run in runs:
        (sweep.workers / run.id).touch()
    submitted = send_runs(plan, runs, archive)
    print_submitted(plan, submitted)
    print(f"how far it is: lab sweep show {sweep.id}")
    return 0


def n_living_workers(points: Points) -> int:
    """How many jobs of earlier calls run, or wait for their turn."""
    job_state = job_state_of()
    states = [
        status_of(run_dir, job_state)
        for file in points.sweep.workers.iterdir()
        if (run_dir := points.sweep.runs / "command" / file.name).is_dir()
    ]
    return sum(1 for state in states if state in ("queued", "running"))
