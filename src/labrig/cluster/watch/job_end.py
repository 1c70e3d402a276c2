"""How the job of a run ended, in words: what the run itself could not write.

Asked in this order: who cancelled it, the scheduler, the exit code of the job script, the log.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL

from ...errors import Failed
from ...machine.text_formats import format_hms
from ...record.files.atomic import open_file, read_text, write_file
from ...record.files.process import signal_name, user
from ...record.files.schema import Job, RunRecord
from ...record.read.attempt_files import last_attempt
from ...record.read.status import CANCELLED, COUNT_FIRST
from ..schedulers.job_state import NODE_FAILED, OUT_OF_MEMORY, OUT_OF_TIME
from .after import words_of_never

BY_USER = "cancelled by: lab cancel"
AT_TIME_LIMIT = "ended at its time limit of "
CODE = "job.code"  # "<exit code> <seconds>", which the job script writes at its end
CHUNK_JOBS = "chunk_jobs"  # ids of the chunks that have started; the job script writes it
END = "job.end"  # what the scheduler answered: it forgets jobs after minutes
EARLY_S = 60  # Slurm may warn so much before the warning is due
LOG_END_BYTES = 1 << 16
MEMORY_KILL = re.compile(
    rb"oom_kill event|oom-kill|Out Of Memory|OUT_OF_MEMORY|[Ee]xceeded (?:job )?memory limit"
)


@dataclass(frozen=True)
class ScriptExit:
    """How the job script ended; above 128 the code is 128 + the number of a signal."""

    code: int
    seconds: int


def how_job_ended(run_dir: Path, record: RunRecord) -> str | None:
    """How a job that is over ended; None when there is none, or the run itself says all.

    Args:
        record: run.json of the run.
    """
    job = record.get("job") or {}
    attempt = last_attempt(run_dir)
    status = attempt.end.get("status") if attempt else None
    if "id" not in job or status in COUNT_FIRST:
        return None
    words = words_of_cancel(run_dir) or words_of_never(run_dir, record)
    words = words or words_of_scheduler(run_dir, record)
    if words or status == "failed":
        return words or None
    exited = read_exit(run_dir)
    if exited and was_at_time_limit(exited, job, status):
        return f"{AT_TIME_LIMIT}{format_hms(limit_s_of(job))} (job.time)"
    was_killed = exited is not None and exited.code == 128 + SIGKILL
    if status is not None and not was_killed:
        return None
    return words_of_script(run_dir, exited)


def words_of_cancel(run_dir: Path) -> str | None:
    """Who ended the job on purpose."""
    try:
        reason = read_text(run_dir / CANCELLED).strip()
    except OSError:
        return None
    return reason or BY_USER


def words_of_scheduler(run_dir: Path, record: RunRecord) -> str:
    """What the scheduler says, now or when it was asked before; "" when it adds nothing."""
    with suppress(OSError):
        return read_text(run_dir / END).strip()
    job = record["job"]
    if record["who"] != user():
        return ""
    from ..schedulers import scheduler_of  # needless for jobs that were asked about before

    try:
        words = scheduler_of(job["scheduler"]).words_of_end(last_job_of(run_dir, job))
    except Failed:
        return ""
    with suppress(OSError):  # a full disk: it is asked again
        write_file(run_dir / END, f"{words}\n")
    return words


def last_job_of(run_dir: Path, job: Job) -> str:
    """The job that ran last: of a chain, the last chunk that has started."""
    try:
        started = read_text(run_dir / CHUNK_JOBS).split()
    except OSError:
        started = []
    return started[-1] if started else job["id"]


def read_exit(run_dir: Path) -> ScriptExit | None:
    """How the job script ended; None when it was killed."""
    try:
        code, seconds = read_text(run_dir / CODE).split()
        return ScriptExit(int(code), int(seconds))
    except (OSError, ValueError):
        return None


def was_at_time_limit(exited: ScriptExit, job: Job, status: str | None) -> bool:
    """Whether the time limit ended a job: by the warning before it, or by a kill."""
    limit_s = limit_s_of(job)
    lead_s = job.get("lead_s", limit_s // 4)
    if status == "interrupted":  # which saved, as it was warned
        return exited.seconds >= limit_s - lead_s - EARLY_S
    return exited.code > 128 and exited.seconds >= limit_s - lead_s - min(lead_s, EARLY_S)


def limit_s_of(job: Job) -> float:
    """The time limit of a job, or of one chunk of it."""
    return job.get("limit_s") or job.get("time_s") or math.inf


def words_of_script(run_dir: Path, exited: ScriptExit | None) -> str:
    """What the log and the exit code of the job script say."""
    if MEMORY_KILL.search(end_of_log(run_dir)):
        return OUT_OF_MEMORY
    logs = f"lab logs {run_dir.name}"
    if exited is None:
        return f"over without a reason; did its node die? {logs}"
    if exited.code == 128 + SIGKILL:
        return "killed (SIGKILL), usually for lack of memory (job.mem)"
    if exited.code > 128:
        return f"ended by {signal_name(exited.code - 128)}; {logs}"
    return f"its script ended with code {exited.code}; {logs}"


def end_of_log(run_dir: Path) -> bytes:
    try:
        with open_file(run_dir / "job.log") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LOG_END_BYTES))
            return file.read()
    except OSError:
        return b""


@dataclass(frozen=True)
class Remedy:
    """What may help a job that was killed.

    Args:
        lacks: "memory", "time" or "node".
        nodes: where it ran, as the scheduler names them; "" where it does not say.
    """

    lacks: str
    nodes: str = ""


def remedy_for(words: str | None) -> Remedy | None:
    """What may help a job that ended in these words of `how_job_ended`; None for other ends."""
    if words == OUT_OF_MEMORY:
        return Remedy("memory")
    if words == OUT_OF_TIME or (words or "").startswith(AT_TIME_LIMIT):
        return Remedy("time")
    begin, _, end = NODE_FAILED.partition("{nodes}")
    if words and words.startswith(begin) and words.endswith(end):
        nodes = words.removeprefix(begin).removesuffix(end)
        return Remedy("node", "" if nodes == "not known" else nodes)
    return None
