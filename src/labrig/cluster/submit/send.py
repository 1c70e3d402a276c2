"""Writes the job script of recorded runs, gives it to the scheduler, and records the answer."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...errors import Failed, LabError
from ...record.files.manifest import list_files
from ...record.files.schema import Job, WaitingHere
from ...record.read.find import number_of_job
from ...record.read.run import Run
from ...record.read.status import CANCELLED, JOB_OVER
from ..schedulers import scheduler_of
from ..schedulers.command import Unanswered
from ..schedulers.job import JobRequest, link_array_logs
from ..schedulers.scheduler import Scheduler
from ..sites.choices import CHAIN, FOLDER, write_chunk_script
from ..watch.job_states import CHUNK_JOBS
from ..watch.unanswered import NOTE, ask_for_number, newest_number, with_id
from .after import options_of_after
from .arrays import JobArray
from .plan import Plan
from .script import CodeArchive, render_script, script_path

# Files in a run's directory that tell of its job, and would tell wrong things of the next one.
OF_JOB = (CANCELLED, JOB_OVER, NOTE, CHAIN, CHUNK_JOBS, "requeues", "resubmitted")

# Sends the later chunks of runs, each of which waits for the end of the one before.


def send_chain(plan: Plan, runs: list[Run], script: Path, first_ids: list[str]) -> list[list[str]]:
    """The job ids of the chunks of each run, the first ones included.

    When the scheduler takes no more of them, the chain is shorter, and a line says so.
    """
    chunks = plan.request.chunks
    assert chunks is not None  # a chain has them
    chains = [[job_id] for job_id in first_ids]
    add_to_chain(runs, first_ids)
    scheduler = scheduler_of(plan.site.scheduler)
    for n in range(2, chunks.number + 1):
        chunk = write_chunk_script(script, n)
        waits = scheduler.chain_options(chains[0][-1], len(runs))
        options = [*plan.request.submit_options, *waits]
        request = replace(plan.request, submit_options=options)
        earlier = [job_id for chain in chains for job_id in chain]
        jobs = [run.record["job"] | {"earlier_ids": earlier} for run in runs]
        try:
            job_ids = send_or_find(scheduler, request, chunk, jobs)
        except LabError as error:
            print(
                f"lab: only {n - 1} of {chunks.number} chunks are queued: {error}\n"
                f"When they are over, this resumes the run: "
                + scheduler.send_line(plan.request, str(script)),
                file=sys.stderr,
            )
            break
        add_to_chain(runs, job_ids)
        for chain, job_id in zip(chains, job_ids, strict=True):
            chain.append(job_id)
    scripts = sorted((script.parent / FOLDER).iterdir())
    list_files(runs[0].dir, [f"{FOLDER}/{path.name}" for path in scripts])
    return chains


def add_to_chain(runs: list[Run], job_ids: list[str]) -> None:
    """Adds a chunk of each run to the list that its job script reads."""
    for run, job_id in zip(runs, job_ids, strict=True):
        with open(run.dir / CHAIN, "a", encoding="utf-8") as file:
            file.write(f"{job_id}\n")


@dataclass(frozen=True)
class Submitted:
    """One run that a scheduler has accepted."""

    run_id: str
    job_id: str
    run_dir: str
    log: str
    chain: list[str] = field(default_factory=list)  # job ids of all chunks, where there are some
    unchanged: str | None = None  # of a run that was there before, and stands for a new one: why


def send_arrays(
    plan: Plan,
    runs: list[Run],
    archive: CodeArchive,
    arrays: list[JobArray],
    begun_unix_s: float,
) -> list[Submitted]:
    """Sends the runs, array by array, each with a script of its own.

    Args:
        begun_unix_s: as of `send_runs`.
    """
    submitted: list[Submitted] = []
    for array in arrays:
        begin = len(submitted)
        end = begin + array.n_runs
        part = replace(plan, points=plan.points[begin:end], throttle=array.throttle)
        try:
            submitted += send_runs(part, runs[begin:end], archive, array, begun_unix_s)
        except LabError as error:
            refuse_later(plan, runs[end:], error)
            raise after_others(error, len(submitted)) from error
    return submitted


def refuse_later(plan: Plan, runs: list[Run], error: LabError) -> None:
    """Notes in records that their array was not sent, as the one before it failed."""
    for run in runs:
        words = f"not sent, as the array before it was not accepted: {error}"
        run.update(job={"site": plan.site.name, "refused": words})


def after_others(error: LabError, n_sent: int) -> LabError:
    """The error, and how many runs were sent before."""
    if not n_sent:
        return error
    return type(error)(f"{error}\nThe first {n_sent} runs were sent before: lab queue")


def send_runs(
    plan: Plan,
    runs: list[Run],
    archive: CodeArchive,
    array: JobArray | None = None,
    begun_unix_s: float | None = None,
) -> list[Submitted]:
    """Sends one job, or one job array, for all runs.

    Args:
        array: says how many of them, the last ones, wait here; None: none.
        begun_unix_s: when the submission began, as records say that were made for it; None: now.

    Raises:
        LabError: the scheduler refuses, or does not say whether it has the job; the records say so,
            and the script stays.
    """
    script = write_script(plan, runs, archive)
    scheduler = scheduler_of(plan.site.scheduler)
    if len(runs) > 1:
        link_array_logs([run.dir for run in runs], scheduler.first_index)
    submitted_unix_s = begun_unix_s or round(time.time(), 3)
    jobs = []
    for index, run in enumerate(runs):
        for name in OF_JOB:
            (run.dir / name).unlink(missing_ok=True)
        earlier = earlier_ids(run)
        job = sent_record(plan, script, submitted_unix_s)
        job |= {"earlier_ids": earlier} if earlier else {}
        job |= {"index": index} if len(runs) > 1 else {}
        jobs.append(job)
    n_waiting = array.n_waiting if array else 0
    waits = options_of_after(plan.after, plan.site.scheduler)
    if waits is None:
        n_waiting = len(runs)
    n_now = len(runs) - n_waiting
    for run, job in zip(runs[:n_now], jobs, strict=False):
        sending = job | {"sending": True}  # which tells, should this process be killed
        if run.record.get("job") != sending:
            run.update(job=sending)
    for run, job in zip(runs[n_now:], jobs[n_now:], strict=True):
        run.update(job=job | {"waiting": waiting_record(plan, array)})
    waiting = [
        Submitted(run.id, "", str(run.dir), str(run.dir / "job.log")) for run in runs[n_now:]
    ]
    if not n_now:
        return waiting
    options = [*plan.request.submit_options, *(waits or [])]
    if plan.request.is_chain:
        options += scheduler.first_of_chain
    request = replace(plan.request, submit_options=options)
    try:
        if n_waiting:
            job_ids = send_piece(scheduler, request, script, jobs[:n_now], plan.throttle)
        else:
            job_ids = send_or_find(scheduler, request, script, jobs, plan.throttle)
    except LabError as error:
        is_unknown = isinstance(error, Unanswered)
        answered = runs[:n_now] if is_unknown else runs
        for run, job in zip(answered, jobs, strict=False):
            run.update(job=job | {"unknown" if is_unknown else "refused": str(error)})
        if is_unknown:
            raise Failed(
                f"{error}\nNobody knows yet whether {scheduler.name} has the job of {runs[0].id}. "
                "To ask it again: lab queue\nUntil then the same submission sends nothing"
            ) from error
        raise type(error)(
            f"{error}\nNo job was queued. The record and the script are kept: {script}"
        ) from error
    runs = runs[:n_now]
    for run, job, job_id in zip(runs, jobs, job_ids, strict=False):
        run.update(job=job | {"id": job_id})
    chains: list[list[str]] = [[] for _ in runs]
    if plan.request.is_chain:
        chains = send_chain(plan, runs, script, job_ids)
        for run, chain in zip(runs, chains, strict=True):
            run.update(job=run.record["job"] | {"chain": chain})
    return [
        Submitted(run.id, job_id, str(run.dir), str(run.dir / "job.log"), chain)
        for run, job_id, chain in zip(runs, job_ids, chains, strict=True)
    ] + waiting


def waiting_record(plan: Plan, array: JobArray | None) -> WaitingHere:
    """What `lab queue` needs to send the run later."""
    return {
        "max_jobs": array.max_jobs if array else None,
        "counted": array.counted if array else "",
        "throttle": plan.throttle,
        "name": plan.request.name,
        "options": plan.request.submit_options,
    }


def send_piece(
    scheduler: Scheduler,
    request: JobRequest,
    script: Path,
    jobs: list[Job],
    throttle: int,
) -> list[str]:
    """Sends some runs of an array, whose indices follow each other; the job id of each.

    Raises:
        LabError: as `send_or_find`.
    """
    if "index" not in jobs[0]:  # the only run of its script
        return send_or_find(scheduler, request, script, jobs)
    first, last = jobs[0]["index"], jobs[-1]["index"]
    options = scheduler.piece_options(request.name, first, last, throttle)
    piece = replace(request, submit_options=[*request.submit_options, *options])
    ids = send_or_find(scheduler, piece, script, jobs)
    number = number_of_job(ids[0])
    return [with_id(job, number)["id"] for job in jobs]


def send_or_find(
    scheduler: Scheduler,
    request: JobRequest,
    script: Path,
    jobs: list[Job],
    throttle: int = 1,
) -> list[str]:
    """Sends a script; the job id of each run. After a failure the scheduler is asked for the job.

    Args:
        jobs: the section `job` of each run, without an id.

    Raises:
        Unanswered: it does not say whether it has the job.
        LabError: it does not have it.
    """
    try:
        return scheduler.send(request, script, len(jobs), throttle)
    except Unanswered as error:
        print(f"lab: {error}\nlab: asking {scheduler.name} whether it has the job", file=sys.stderr)
        with suppress(Failed):
            number = ask_for_number(jobs[0])
            if number:
                return [with_id(job, number)["id"] for job in jobs]
        raise
    except Failed:
        number = None
        with suppress(Failed):  # a plain refusal counts as one
            number = newest_number(jobs[0])
        if number is None:
            raise
        return [with_id(job, number)["id"] for job in jobs]


def earlier_ids(run: Run) -> list[str]:
    """The ids of all jobs that a run had."""
    job = run.record.get("job") or {}
    ids = [*job.get("earlier_ids", []), *job.get("chain", []), job.get("id")]
    return list(dict.fromkeys(job_id for job_id in ids if job_id))


def write_script(plan: Plan, runs: list[Run], archive: CodeArchive) -> Path:
    """Writes the job script and the site's profile into the directory of the first run."""
    run_dirs = [run.dir for run in runs]
    script = script_path(run_dirs, plan.script)
    script.write_text(render_script(plan, run_dirs, archive), encoding="utf-8")
    script.chmod(0o755)
    profile = script.with_name(script.name.replace("job", "site")).with_suffix(".yaml")
    profile.write_text(plan.site.text, encoding="utf-8")
    list_files(runs[0].dir, [script.name, profile.name])
    return script


def job_record(plan: Plan, job_id: str, script: Path, submitted_unix_s: float) -> Job:
    """The section `job` of a record."""
    return sent_record(plan, script, submitted_unix_s) | {"id": job_id}


def sent_record(plan: Plan, script: Path, submitted_unix_s: float) -> Job:
    """The section `job` of a record, but for the id that the scheduler gives."""
    job: Job = {
        "scheduler": plan.site.scheduler,
        "site": plan.site.name,
        "nodes": plan.request.nodes,
        "tasks_per_node": plan.request.tasks_per_node,
        "cpus_per_task": plan.request.cpus_per_task,
        "memory_MB": plan.request.memory_MB,
        "gpus": plan.request.gpus,
        "time_s": plan.request.total_s,
        "limit_s": plan.request.time_s,
        "typed": list(plan.request.typed),
        "lead_s": plan.request.lead_s,
        "queue": plan.request.queue,
        "submitted_unix_s": submitted_unix_s,
        "script": str(script),
    }
    if not plan.trains:
        job["program"] = plan.command
    if goes_on(plan):
        job["goes_on"] = True
    if plan.attempt:
        job["attempt"] = plan.attempt
    if plan.changed:
        job["changed"] = list(plan.changed)
    return job


def goes_on(plan: Plan) -> bool:
    """Whether the run may be continued by another job, which nobody needs to ask for."""
    requeue = plan.site["requeue"]
    is_resubmitted = requeue["method"] == "resubmit" and requeue["max"] > 0
    return is_resubmitted and not plan.request.is_chain
