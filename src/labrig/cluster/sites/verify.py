"""`lab site verify`: sends a job of one minute, and writes down that the profile works. Its ranks run this file."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from ... import env
from ...config.overrides import SettingsParser
from ...config.setting import as_yaml
from ...errors import Failed
from ...machine.gpu import gpus
from ...machine.network import INTERNET, is_reachable
from ...machine.ranks import discover
from ...machine.resources import cores
from ...machine.text_formats import counted
from ...project import Project, this_project
from ...record.files.atomic import write_file
from ...record.files.process import user
from ...record.read.rows import run_directories
from ...record.read.run import Run, run_record, run_roots
from ...record.read.status import UNENDED, status_of
from ...record.write.begin import begin_attempt
from ..submit.plan import Plan, plan_program
from ..submit.submit import SubmitOptions, submit_plan
from ..watch.job_states import job_state_of
from ..watch.queue import poll_interval_s
from .site import (
    Site,
    Verification,
    hash_of_profile,
    verification_of,
    write_verification,
)

WHY = "lab site verify"
WAIT_S = 1800  # for the job
READ_EVERY_S = 1.0
FOLDER = "site"  # in the run's directory


def verify_command(project: Project, args: list[str]) -> None:
    """Sends the job, or takes up the one that was sent before, and waits for it."""
    parser = SettingsParser(
        "lab site verify",
        "Sends a job of one minute to the site, waits for it, and writes who ran it, when and how"
        " large to verified.yaml next to accounts.yaml. Takes job.* as lab submit.",
    )
    overrides = parser.read(args).overrides
    plan = plan_program(project, overrides, "sites.verify", "verify", time="00:01:00")
    run = earlier_check(project, plan) or send_check(plan)
    job = run.record["job"]
    print(f"job {job['id']}, log {run.dir / 'job.log'}", flush=True)
    await_end(run, poll_interval_s(project, plan.site.name))
    reports = read_reports(run.dir)
    level = check_reports(run, plan, reports)
    verification = Verification(
        by=user(),
        day=date.today().isoformat(),
        level=level,
        run=run.id,
        job=job["id"],
        profile=hash_of_profile(plan.site),
    )
    write_verification(plan.site, verification)
    print(f"{plan.site.name} is verified: {level}. See: lab site show {plan.site.name}")
    compare_internet(plan.site, reports)
    if not plan.site["verified"]:
        print("Tell the maintainers of the template, so that the profile says it to everybody.")


def earlier_check(project: Project, plan: Plan) -> Run | None:
    """A check of the same size at this site whose result nobody has seen; None where there is none."""
    last_check = verification_of(plan.site)
    for directory in sorted(run_directories(*run_roots(project)), reverse=True):
        record = run_record(Path(directory))
        job = record.get("job") or {}
        if record.get("why") != WHY or job.get("site") != plan.site.name or "id" not in job:
            continue
        if last_check and last_check.run == record["run_id"]:
            return None
        has_size = (job["nodes"], job["gpus"]) == (plan.request.nodes, plan.request.gpus)
        if has_size and status_of(Path(directory), job_state_of(), record) in (
            *UNENDED,
            "finished",
        ):
            print("a check was sent before; this is its job", file=sys.stderr)
            return Run.open(Path(directory))
    return None


def send_check(plan: Plan) -> Run:
    (submitted,) = submit_plan(plan, SubmitOptions(why=WHY, batch=False))
    return Run.open(Path(submitted.run_dir))


def await_end(run: Run, poll_s: float) -> None:
    """Returns when the job of a run is over."""
    end_s = time.monotonic() + WAIT_S
    ask_s = time.monotonic()
    while not (run.dir / "summary.json").exists():
        if time.monotonic() >= ask_s:
            if status_of(run.dir, job_state_of()) not in UNENDED:
                return
            ask_s = time.monotonic() + poll_s
        if time.monotonic() > end_s:
            raise Failed(
                f"the job is not over after {WAIT_S // 60} minutes. It stays in the queue;"
                " type the same command again later, which waits for this job"
            )
        time.sleep(READ_EVERY_S)


def compare_internet(site: Site, reports: list[RankReport]) -> None:
    """Says where the profile is wrong about the internet in jobs."""
    found = all(report.has_internet for report in reports)
    if found != site["internet"]["jobs"]:
        reached = "reached" if found else "did not reach"
        print(
            f"the job {reached} {INTERNET}, but {site.path} has internet.jobs:"
            f" {as_yaml(not found)}. Write there: internet: {{jobs: {as_yaml(found)}, …}}"
        )


def size_of_job(n_ranks: int, n_nodes: int, n_gpus: int) -> str:
    """`2 ranks on 1 node with 0 GPUs`."""
    ranks = counted(n_ranks, "rank")
    return f"{ranks} on {counted(n_nodes, 'node')} with {counted(n_gpus, 'GPU')}"


def check_reports(run: Run, plan: Plan, reports: list[RankReport]) -> str:
    """The size of the job, in words."""
    request = plan.request
    hosts = {report.host for report in reports}
    n_gpus = min((len(report.gpus) for report in reports), default=0)
    size = size_of_job(len(reports), len(hosts), n_gpus)
    wanted = size_of_job(request.n_tasks, request.nodes, request.gpus)
    is_right = len(reports) == request.n_tasks and len(hosts) == request.nodes
    if not is_right or n_gpus < request.gpus:
        raise Failed(f"the job had {size}, not {wanted}. Read its log: {run.dir / 'job.log'}")
    nodes = counted(request.nodes, "node")
    if not request.gpus:
        return f"{nodes}, CPU"
    each = " each" if request.nodes > 1 else ""
    return f"{nodes}, {counted(request.gpus, 'GPU')}{each}"


@dataclass(frozen=True)
class RankReport:
    """What one rank found."""

    rank: int
    world_size: int
    host: str
    cores: int
    gpus: list[str]  # of its node, by name
    has_internet: bool


def main(run_dir: Path) -> None:
    ranks = discover()
    attempt = begin_attempt(Run.open(run_dir), this_project()) if ranks.rank == 0 else None
    names = [gpu.name for gpu in gpus()]
    report = RankReport(
        ranks.rank,
        ranks.world_size,
        socket.gethostname(),
        cores(),
        names,
        has_internet=is_reachable(INTERNET),
    )
    file = run_dir / FOLDER / f"{ranks.rank}.json"
    file.parent.mkdir(exist_ok=True)
    write_file(file, json.dumps(asdict(report)))
    if attempt:
        attempt.end("finished")


def read_reports(run_dir: Path) -> list[RankReport]:
    """The reports of the ranks, in their order."""
    files = (run_dir / FOLDER).glob("*.json")
    reports = [RankReport(**json.loads(file.read_text(encoding="utf-8"))) for file in files]
    return sorted(reports, key=lambda report: report.rank)


if __name__ == "__main__":
    main(Path(os.environ[env.RUN_DIR]))
