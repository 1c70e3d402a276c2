"""Refuses jobs that would use more GPU-hours than their budget allows."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from ...errors import Refused
from ...machine.text_formats import HOUR_S
from ...project import Project
from ...providers import provided
from ...record.files.process import user
from ...record.files.schema import Row
from ...record.read.rows import read_rows
from ...record.read.run import run_record, run_roots
from ...record.read.status import UNENDED
from ..watch.job_states import job_state_of
from .plan import Plan

if TYPE_CHECKING:
    from ...bench.forecast import Forecast


def check_budget(plan: Plan, tree: str | None, yes: bool = False) -> None:
    """Prints the forecast of a plan, where this code was benched, and adds up its GPU-hours.

    What was not benched counts with its whole request: nodes x GPUs x time limit.

    Args:
        tree: git tree of the code.
        yes: submit it all the same.
    """
    forecasts: list[Forecast | None] = [None] * len(plan.points)
    if plan.trains:
        settings = [point.settings for point in plan.points]
        print_forecast = provided("print_forecast")
        if print_forecast:
            n_gpus = plan.request.nodes * plan.request.gpus
            forecasts = print_forecast(settings, tree, plan.request.total_s, n_gpus or None)
    gpu_hours = sum(hours_of_run(plan, forecast) for forecast in forecasts)
    if yes or not gpu_hours:
        return
    budget = plan.points[0].config.budget
    basis = "" if all(forecasts) else f" ({format_request(plan, forecasts.count(None))})"
    refuse_above(budget.gpu_hours, gpu_hours, basis)
    if budget.gpu_hours_per_month is not None:
        refuse_above_monthly(plan.project, budget, gpu_hours, basis)


def hours_of_run(plan: Plan, forecast: Forecast | None) -> float:
    """GPU-hours of one run: as forecast, else what its job may use."""
    if forecast is None or forecast.gpu_hours is None:
        return plan.request.gpu_hours
    return forecast.gpu_hours


def format_request(plan: Plan, n_runs: int) -> str:
    """What counts for the runs without a forecast."""
    request = plan.request
    text = f"{n_runs} x {request.nodes} x {request.gpus} x {request.total_s / HOUR_S:.3g} h"
    return f"{text}: runs x nodes x GPUs x job.time"


def refuse_above(limit_gpu_hours: float | None, gpu_hours: float, basis: str) -> None:
    """ """
    if limit_gpu_hours is None or gpu_hours <= limit_gpu_hours:
        return
    raise Refused(
        f"this takes {gpu_hours:.3g} GPU-hours{basis}; budget.gpu_hours is {limit_gpu_hours:g}. "
        "If you mean it, add: --yes"
    )


def refuse_above_monthly(
    project: Project, budget: DictConfig, gpu_hours: float, basis: str
) -> None:
    """ """
    rows = read_rows(run_roots(project), job_state_of())
    used_gpu_hours = used_this_month(rows, user())
    left_gpu_hours = max(0.0, budget.gpu_hours_per_month - used_gpu_hours)
    if gpu_hours > left_gpu_hours:
        raise Refused(
            f"this takes {gpu_hours:.3g} GPU-hours{basis}; of your "
            f"{budget.gpu_hours_per_month:g} of this month (budget.gpu_hours_per_month) "
            f"{left_gpu_hours:.3g} are left.\n"
            "What used them: lab runs cost. If you mean it, add: --yes"
        )


def used_this_month(rows: list[Row], who: str) -> float:
    """GPU-hours of a person's runs that were created this month.

    A job that waits or runs counts with all that it may use.
    """
    month = time.strftime("%Y-%m")
    own_rows = [
        row for row in rows if row["who"] == who and (row["created"] or "").startswith(month)
    ]
    return math.fsum(max(used_gpu_hours(row), open_gpu_hours(row)) for row in own_rows)


def used_gpu_hours(row: Row) -> float:
    return max(0, row["gpu_seconds"] or 0) / HOUR_S


def open_gpu_hours(row: Row) -> float:
    """What a job that has not ended may use; 0 for one that has."""
    if row["status"] not in UNENDED:
        return 0.0
    record = run_record(Path(row["run_dir"]))
    job = record.get("job") or {}
    return job.get("nodes", 0) * job.get("gpus", 0) * job.get("time_s", 0) / HOUR_S
