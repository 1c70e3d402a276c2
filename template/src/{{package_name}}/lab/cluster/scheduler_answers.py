# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""Reads the lists of jobs that Slurm, PBS, Grid Engine and PJM print."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree


@dataclass(frozen=True)
class ListedJob:
    """One job of a scheduler's list; what it says of the job is in the scheduler's words.

    Args:
        start: when a job that waits is expected to start; "" where that is not known.
    """

    job_id: str
    state: str
    reason: str
    elapsed: str
    start: str = ""


def read_slurm(text: str) -> Iterator[ListedJob]:
    """Lines of squeue: id|state|reason|elapsed|start."""
    for line in text.splitlines():
        job_id, state, reason, elapsed, start = line.split("|")
        is_estimate = reason in ("Resources", "Priority") and start != "N/A"
        start_minute = start[:16].replace("T", " ") if is_estimate else ""
        yield ListedJob(job_id, state, reason, elapsed, start_minute)


def read_pbs(text: str) -> Iterator[ListedJob]:
    """JSON of qstat, with the jobs of all users, and with those that ended (F, X)."""
    for job_id, job in json.loads(text or "{}").get("Jobs", {}).items():
        owner = job.get("Job_Owner", "").partition("@")[0]
        if owner != getpass.getuser() or job["job_state"] in "FX":
            continue
        yield ListedJob(
            job_id=job_id.partition(".")[0],
            state=job["job_state"],
            reason=job.get("comment", ""),
            elapsed=job.get("resources_used", {}).get("walltime", ""),
        )


def read_gridengine(text: str) -> Iterator[ListedJob]:
    """XML of qstat; it says neither why a job waits nor how long it has run."""
    for job in ElementTree.fromstring(text).iter("job_list"):
        number = job.findtext("JB_job_number", "")
        task = job.findtext("tasks", "")
        state = job.findtext("state", "")
        yield ListedJob(
            job_id=f"{number}.{task}" if task else number,
            state=state,
            reason="in error" if "E" in state else "waiting",
            elapsed="",
        )


def read_pjm(text: str) -> Iterator[ListedJob]:
    """Lines of pjstat: ,id,state,elapsed below a head."""
    for line in text.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) >= 4 and words[1][:1].isdigit():
            _, job_id, state, elapsed, *_ = words
            yield ListedJob(job_id, state, state, elapsed)


READERS = {
    "slurm": read_slurm,
    "pbs": read_pbs,
    "gridengine": read_gridengine,
    "pjm": read_pjm,
}


def elapsed_seconds(text: str) -> int:
    """Seconds of [days-][hours:]minutes:seconds; 0 where the scheduler does not say."""
    days, _, clock = text.rpartition("-")
    seconds = 0
    for part in clock.split(":"):
        if part.isdigit():
            seconds = seconds * 60 + int(part)
    return seconds + 86400 * int(days or 0)
