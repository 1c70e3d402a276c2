"""On the host: how the runs are that another machine has sent.

Started over ssh as `python -m labrig.remote.states ID...`, with the ids of submissions.
"""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import redirect_stdout, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..cluster.job_states import job_state_of
from ..cluster.queue import print_queue
from ..project import Project, this_project
from ..record.atomic import read_json
from ..record.attempt_files import read_attempts
from ..record.status import status_of
from .connection import MARK
from .sent import REMOTE


@dataclass(frozen=True)
class SubmissionState:
    """How the runs of one submission are.

    Args:
        jobs: run_id, job_id, run_dir and log of each run; None when it has not arrived.
        statuses: of each run, by its id.
        started_unix_s: when the first attempt of the first run began.
        first: of on=a,b: the host whose job started first; known to the first of the hosts.
    """

    jobs: list[dict[str, Any]] | None
    statuses: dict[str, str]
    started_unix_s: float | None
    first: str | None


@dataclass(frozen=True)
class HostState:
    """The answer of a host: its queue as text, and the state of each submission."""

    queue: str
    submissions: dict[str, SubmissionState]

    @classmethod
    def from_json(cls, text: str) -> HostState:
        values = json.loads(text)
        states = values["submissions"].items()
        return cls(values["queue"], {key: SubmissionState(**state) for key, state in states})


def main(ids: list[str]) -> int:
    """Prints the answer as one line."""
    project = this_project()
    text = io.StringIO()
    with redirect_stdout(text):
        print_queue(project)
    submissions = {submission_id: state_of(project, submission_id) for submission_id in ids}
    with suppress(BrokenPipeError):
        print(MARK + json.dumps(asdict(HostState(text.getvalue(), submissions))), flush=True)
    return 0


def state_of(project: Project, submission_id: str) -> SubmissionState:
    received = project.root / REMOTE / "received"
    jobs = (read_json(received / f"{submission_id}.json") or {"jobs": None})["jobs"]
    ask = job_state_of()
    statuses = {job["run_id"]: status_of(Path(job["run_dir"]), ask) for job in jobs or []}
    link = received / f"{submission_id}.race" / "first"
    first = os.readlink(link) if link.is_symlink() else None
    return SubmissionState(jobs, statuses, first_start(jobs), first)


def first_start(jobs: list[dict[str, Any]] | None) -> float | None:
    """When the first attempt of the first run began; None when it has not."""
    if not jobs:
        return None
    attempts = read_attempts(Path(jobs[0]["run_dir"]))
    return attempts[0].start.get("started_unix_s") if attempts else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
