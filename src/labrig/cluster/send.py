"""Writes the job script of recorded runs, gives it to the scheduler, and records the answer."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import LabError
from ..record.atomic import sha256
from ..record.run import Run
from .job_array import link_array_logs
from .plan import Plan
from .schedulers import scheduler_of
from .script import CodeArchive, render_script, script_path
from .send_chain import send_chain


@dataclass(frozen=True)
class Submitted:
    """One run that a scheduler has accepted."""

    run_id: str
    job_id: str
    run_dir: str
    log: str
    chain: list[str] = field(default_factory=list)  # job ids of all chunks, where there are some


def send_runs(plan: Plan, runs: list[Run], archive: CodeArchive) -> list[Submitted]:
    """Sends one job, or one job array, for all runs.

    Raises:
        LabError: the scheduler refuses; the records say so, and the script stays.
    """
    script = write_script(plan, runs, archive)
    scheduler = scheduler_of(plan.site.scheduler)
    if len(runs) > 1:
        link_array_logs([run.dir for run in runs], scheduler.first_index)
    submitted_unix_s = round(time.time(), 3)
    try:
        job_ids = scheduler.send(plan.request, script, len(runs), plan.throttle)
    except LabError as error:
        for run in runs:
            run.update(job={"site": plan.site.name, "refused": str(error)})
        raise type(error)(
            f"{error}\nNo job was queued. The record and the script are kept: {script}"
        ) from error
    for run, job_id in zip(runs, job_ids, strict=True):
        run.update(job=job_record(plan, job_id, script, submitted_unix_s))
    chains: list[list[str]] = [[] for _ in runs]
    if plan.request.is_chain:
        chains = send_chain(plan, runs, script, job_ids)
        for run, chain in zip(runs, chains, strict=True):
            run.update(job=run.record["job"] | {"chain": chain})
    return [
        Submitted(run.id, job_id, str(run.dir), str(run.dir / "job.log"), chain)
        for run, job_id, chain in zip(runs, job_ids, chains, strict=True)
    ]


def write_script(plan: Plan, runs: list[Run], archive: CodeArchive) -> Path:
    """Writes job.sh and the site's profile into the directory of the first run."""
    run_dirs = [run.dir for run in runs]
    script = script_path(run_dirs)
    script.write_text(render_script(plan, run_dirs, archive), encoding="utf-8")
    script.chmod(0o755)
    (script.parent / "site.yaml").write_text(plan.site.text, encoding="utf-8")
    written = {name: sha256(script.parent / name) for name in ("job.sh", "site.yaml")}
    runs[0].update(files=runs[0].record["files"] | written)
    return script


def job_record(plan: Plan, job_id: str, script: Path, submitted_unix_s: float) -> dict[str, Any]:
    """The section `job` of a record."""
    return {
        "scheduler": plan.site.scheduler,
        "site": plan.site.name,
        "id": job_id,
        "nodes": plan.request.nodes,
        "gpus": plan.request.gpus,
        "time_s": plan.request.total_s,
        "limit_s": plan.request.time_s,
        "lead_s": plan.request.lead_s,
        "queue": plan.request.queue,
        "submitted_unix_s": submitted_unix_s,
        "script": str(script),
    }
