"""On the host: how the runs are that another machine has sent.

Started over ssh as `python -m labrig.remote.states ID...`, with the ids of submissions.
"""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import redirect_stdout, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..cluster.watch.job_states import job_state_of
from ..cluster.watch.queue import print_queue
from ..project import Project, this_project
from ..record.files.atomic import read_advisory
from ..record.read.attempt_files import read_attempts
from ..record.read.status import status_of
from .connection import MARK
from .sent import REMOTE, HostState, SentJob, SubmissionState, SubmitAnswer


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
    answer: SubmitAnswer = read_advisory(received / f"{submission_id}.json", SubmitAnswer) or {}
    jobs = answer.get("jobs")
    ask = job_state_of()
    statuses: Any = {job["run_id"]: status_of(Path(job["run_dir"]), ask) for job in jobs or []}
    link = received / f"{submission_id}.race" / "first"
    first = os.readlink(link) if link.is_symlink() else None
    return SubmissionState(jobs, statuses, first_start(jobs), first)


def first_start(jobs: list[SentJob] | None) -> float | None:
    """When the first attempt of the first run began; None when it has not."""
    if not jobs:
        return None
    attempts = read_attempts(Path(jobs[0]["run_dir"]))
    return attempts[0].start.get("started_unix_s") if attempts else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
