"""`lab doctor --nodes`: sends a short job that examines nodes, and names the bad ones."""

from __future__ import annotations

import json
import time
from pathlib import Path

from ..errors import Failed
from ..project import Project
from ..record.status import status_of
from .job_states import job_state_of
from .node_report import NodeReport, bad_nodes, format_reports
from .queue import poll_interval_s

WAIT_S = 1800  # for the job
READ_EVERY_S = 1.0


def examine_nodes(project: Project, overrides: list[str]) -> int:
    """Sends the job, waits for it, prints its table; 1 when a node is bad.

    Raises:
        Failed: the job is not over within half an hour, or left no result.
    """
    # imported only here: lab doctor itself must work where these cannot be imported
    from .plan import plan_program
    from .submit import SubmitOptions, submit_plan

    plan = plan_program(project, overrides, "node_check", "doctor", time="00:10:00")
    (submitted,) = submit_plan(plan, SubmitOptions(why="lab doctor --nodes", batch=False))
    print(
        f"job {submitted.job_id}, log {submitted.log}\n"
        "waiting for it (Ctrl-C stops the waiting, not the job)",
        flush=True,
    )
    run_dir = Path(submitted.run_dir)
    reports = wait_for_reports(
        run_dir, plan.request.n_tasks, poll_interval_s(project, plan.site.name)
    )
    if not reports:
        raise Failed(f"the job ended without a result. Read its log: {submitted.log}")
    reports = with_silent_ranks(reports, plan.request.n_tasks)
    print(format_reports(reports))
    bad = bad_nodes(reports)
    print(format_verdict(bad))
    return int(bool(bad))


def wait_for_reports(run_dir: Path, n_ranks: int, poll_s: float) -> list[NodeReport]:
    """The reports of the ranks, once all are complete or the job is over.

    Raises:
        Failed: neither happens within WAIT_S.
    """
    end_s = time.monotonic() + WAIT_S
    asked_s = time.monotonic()
    status = "queued"
    reports: list[NodeReport] = []
    while status in ("queued", "running") and sum(report.done for report in reports) < n_ranks:
        if time.monotonic() > end_s:
            raise Failed(
                f"the job is not over after {WAIT_S // 60} minutes, and stays queued or running."
                f" Its log: lab logs {run_dir.name}"
            )
        if time.monotonic() > asked_s + poll_s:
            status = status_of(run_dir, job_state_of())
            asked_s = time.monotonic()
        time.sleep(READ_EVERY_S)
        reports = read_reports(run_dir)
    return reports


def read_reports(run_dir: Path) -> list[NodeReport]:
    """What the ranks have written so far."""
    files = run_dir.glob("nodes/*.json")
    return [NodeReport(**json.loads(file.read_text(encoding="utf-8"))) for file in files]


def with_silent_ranks(reports: list[NodeReport], n_ranks: int) -> list[NodeReport]:
    """In order of ranks, with an empty report for each rank that wrote none."""
    silent_ranks = set(range(n_ranks)) - {report.rank for report in reports}
    silent = [NodeReport(rank=rank, host="?") for rank in silent_ranks]
    return sorted([*reports, *silent], key=lambda report: report.rank)


def format_verdict(bad: dict[str, list[str]]) -> str:
    if not bad:
        return "all nodes compute alike"
    lines = [f"bad: {host}: {'; '.join(reasons)}" for host, reasons in bad.items()]
    hosts = ",".join(host for host in bad if host != "?")
    return "\n".join([*lines, f"leave them out with: job.exclude={hosts}"])
