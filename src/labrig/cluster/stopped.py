"""The jobs of the last day that something else than their program ended: a node, memory, a limit."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from ..machine.terminal import printable
from ..project import Project
from ..record.atomic import read_json
from ..record.index import run_directories
from ..record.process import user
from ..record.roots import run_roots
from ..record.schema import RunRecord
from ..record.status import status_of
from .job_end import BY_USER, how_job_ended
from .job_states import JobStates

DAY_S = 24 * 3600
MAX_STOPPED = 10  # how many are looked at; each may be a question to the scheduler
SIGNS = ("job.log", "run.json")  # written or changed while a job lives


def format_stopped(project: Project, states: JobStates) -> list[str]:
    """Two lines for each such job of the user's, the newest first; they end with how it ended."""
    directories = sorted(
        map(Path, run_directories(*run_roots(project))), key=lambda path: path.name
    )
    recent = [path for path in reversed(directories) if silent_s(path) < DAY_S]
    lines = []
    n_asked = 0
    for run_dir in recent:
        record: RunRecord = read_json(run_dir / "run.json") or {}
        if n_asked == MAX_STOPPED or not was_stopped(run_dir, record, states):
            continue
        n_asked += 1
        words = how_job_ended(run_dir, record)
        if words and words != BY_USER:
            head = f"{run_dir.name:<22}  {record['trial']:<14.14}  {record['job']['id']:<13}"
            lines += [printable(head.rstrip()), printable(f"    {words}")]
    return ["stopped in the last 24 hours:", *lines] if lines else []


def was_stopped(run_dir: Path, record: RunRecord, states: JobStates) -> bool:
    """Whether a job of this user is over, and its program has not said that it finished or failed."""
    if "id" not in (record.get("job") or {}) or record["who"] != user():
        return False
    state = states.of(record)
    if state is not None:
        return False
    return status_of(run_dir, lambda _: None, record) in ("lost", "interrupted", "failed")


def silent_s(run_dir: Path) -> float:
    """Seconds since the job of a run was sent, or last printed something."""
    newest_unix_s = 0.0
    for sign in SIGNS:
        with suppress(OSError):
            newest_unix_s = max(newest_unix_s, (run_dir / sign).stat().st_mtime)
    return time.time() - newest_unix_s
