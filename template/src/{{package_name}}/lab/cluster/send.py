# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""Writes the job script of recorded runs, gives it to the scheduler, and records the answer."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import LabError
from ..record.atomic import sha256
from ..record.run import Run
from .dialect import load_dialect
from .local import scheduler_of
from .plan import Plan
from .script import CodeArchive, render_script, script_path


@dataclass(frozen=True)
class Submitted:
    """One run that a scheduler has accepted."""

    run_id: str
    job_id: str
    run_dir: str
    log: str


def send_runs(plan: Plan, runs: list[Run], archive: CodeArchive) -> list[Submitted]:
    """Sends one job, or one job array, for all runs.

    Raises:
        LabError: the scheduler refuses; the records say so, and the script stays.
    """
    script = write_script(plan, runs, archive)
    if len(runs) > 1:
        link_array_logs(runs, load_dialect(plan.site.scheduler).first_index)
    try:
        job_ids = scheduler_of(plan.site.scheduler).send(plan.request, script, len(runs))
    except LabError as error:
        for run in runs:
            run.update(job={"site": plan.site.name, "refused": str(error)})
        raise type(error)(
            f"{error}\nNo job was queued. The record and the script are kept: {script}"
        ) from error
    for run, job_id in zip(runs, job_ids, strict=True):
        run.update(job=job_record(plan, job_id, script))
    return [
        Submitted(run.id, job_id, str(run.dir), str(run.dir / "job.log"))
        for run, job_id in zip(runs, job_ids, strict=True)
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


def link_array_logs(runs: list[Run], first_index: int) -> None:
    """Links <first run>/array/<index>.log to the log of each run.

    All runs of an array share one pattern for the names of their logs.
    """
    folder = runs[0].dir / "array"
    folder.mkdir(exist_ok=True)  # of a first try
    for index, run in enumerate(runs, start=first_index):
        log = os.path.relpath(run.dir / "job.log", folder)
        link = folder / f"{index}.log"
        link.unlink(missing_ok=True)
        link.symlink_to(log)


def job_record(plan: Plan, job_id: str, script: Path) -> dict[str, Any]:
    """The section `job` of a record."""
    return {
        "scheduler": plan.site.scheduler,
        "site": plan.site.name,
        "id": job_id,
        "nodes": plan.request.nodes,
        "gpus": plan.request.gpus,
        "time_s": plan.request.time_s,
        "script": str(script),
    }
