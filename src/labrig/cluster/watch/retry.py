"""`job.retry`: sends jobs again that lacked memory or time, or whose node failed; `lab queue` does so."""

from __future__ import annotations

import json
import math
import platform
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import LabError
from ...machine.text_formats import format_hms
from ...project import Project, read_yaml
from ...record.files.after import Retry
from ...record.files.schema import Job, RunRecord
from ...record.read.attempt_files import attempt_numbers
from ...record.read.run import Run
from ..schedulers import scheduler_of
from .job_end import Remedy, remedy_for
from .job_states import series_of
from .waiting_here import only_sender


@dataclass(frozen=True)
class StoppedRun:
    """A run whose job something else than its program ended; `words` say what."""

    run_dir: Path
    record: RunRecord
    words: str


def send_again(project: Project, stopped: list[StoppedRun]) -> int:
    """Sends the jobs again that may be; returns how many were sent."""
    n_sent = 0
    for run in stopped:
        remedy = remedy_for(run.words)
        if remedy is None or not may_be_sent_again(run.record):
            continue
        try:
            with only_sender(run.run_dir / "job.sh", waits=False):
                now = Run.open(run.run_dir)
                if now.record["job"] != run.record["job"]:
                    continue  # another command has sent it
                n_sent += send_with(project, now, run.words, remedy)
        except BlockingIOError:
            continue  # another command sends it
        except (LabError, OSError) as error:
            print(f"lab: {run.run_dir.name} was not sent again: {error}", file=sys.stderr)
            job = Run.open(run.run_dir).record["job"]
            if job.get("id") == run.record["job"]["id"]:  # else the record tells what came of it
                Run.open(run.run_dir).update(job=job | {"no_retry": str(error)})
    return n_sent


def may_be_sent_again(record: RunRecord) -> bool:
    """Whether job.retry has some left for a run, and this is the cluster that sent it."""
    job = record["job"]
    is_here = series_of(platform.node()) == series_of(record["host"] or "")
    times = job.get("retry", {}).get("times", 0)
    return is_here and "no_retry" not in job and len(job.get("retries", [])) < times


def send_with(project: Project, run: Run, words: str, remedy: Remedy) -> int:
    """Sends the job of a run again with what it lacked; returns 1.

    Raises:
        LabError: it cannot have more, or the scheduler refuses.
    """
    from ..submit.resume_as_job import plan_resumption, submit_resumption  # which compose

    job = run.record["job"]
    settings = more_of(project, run, remedy)
    retry = Retry(
        attempt=(attempt_numbers(run.dir) or [0])[-1] + 1,
        because=words,
        settings=settings,
        time_unix_s=round(time.time(), 3),
    )
    by_key = {word.partition("=")[0]: word for word in [*job.get("changed", []), *settings]}
    plan, run, stretch = plan_resumption(project, [run.id, *by_key.values()])
    retries = (*job.get("retries", []), retry)
    (sent,) = submit_resumption(replace(plan, retries=retries), run, stretch, yes=False)
    print(
        f"lab: {run.id} was sent again, {' '.join(settings) or 'as before'}, as job "
        f"{sent.job_id} (retry {len(retries)} of {job['retry']['times']}). Before: {words}",
        file=sys.stderr,
    )
    return 1


def more_of(project: Project, run: Run, remedy: Remedy) -> list[str]:
    """The settings with which a job gets what it lacked."""
    job = run.record["job"]
    retry = job["retry"]
    if remedy.lacks == "memory":
        if job.get("memory_MB") is None:
            raise LabError(f"its job had no job.mem. Type one: lab submit {run.id} job.mem=…")
        return [f"job.mem={math.ceil(job['memory_MB'] * retry['mem'])}M"]
    if remedy.lacks == "time":
        limit_s = longest_s(project, job)
        if job["time_s"] >= limit_s:
            raise LabError(
                f"its queue {job['queue']} gives at most {format_hms(limit_s)}. For another one: "
                f"lab submit {run.id} job.queue=NAME job.time=…"
            )
        return [f"job.time={math.ceil(min(job['time_s'] * retry['time'], limit_s))}"]
    return nodes_to_avoid(job, remedy.nodes)


def longest_s(project: Project, job: Job) -> float:
    """The time limit of the queue that a job was in; infinite where the profile does not say."""
    queues = read_yaml(project.site_file(job["site"])).get("queues") or []
    hours = [queue.get("max_h") for queue in queues if queue.get("name") == job["queue"]]
    return hours[0] * 3600 // 60 * 60 if hours and hours[0] else math.inf


def nodes_to_avoid(job: Job, nodes: str) -> list[str]:
    """The setting by which a job does without the node that failed, besides those it avoids already."""
    can_avoid = "exclude" in scheduler_of(job["scheduler"]).optional
    if not job["retry"]["exclude_node"] or not can_avoid or not nodes or job["nodes"] > 1:
        return []  # of several nodes nobody says which one failed
    before = [word for word in job.get("changed", []) if word.startswith("job.exclude=")]
    avoided = [json.loads(word.partition("=")[2]) for word in before]
    return [f"job.exclude={json.dumps(','.join([*avoided, nodes]))}"]
