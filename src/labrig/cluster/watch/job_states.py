"""The state of a run's job, as its scheduler says. What it still waits for, and how it ended, in words.

Asked in this order: who cancelled it, the scheduler, the exit code of the job script, the log.
"""

from __future__ import annotations

import math
import platform
import re
import shlex
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGKILL

from ...errors import Failed, LabError
from ...machine.text_formats import and_more, format_hms
from ...record.files.atomic import open_file, read_text, write_file
from ...record.files.process import signal_name, user
from ...record.files.schema import AfterRuns, Job, RunRecord
from ...record.read.attempt_files import last_attempt
from ...record.read.run import Run, run_record
from ...record.read.status import (
    CANCELLED,
    COUNT_FIRST,
    JOB_OVER,
    UNENDED,
    JobStateOf,
    JobWordsOf,
    alive,
    status_of,
)
from ..schedulers.job import OUT_OF_MEMORY, OUT_OF_TIME, JobState
from .unanswered import Unsettled, directory_of, settle, waits_here

WAITS_HERE = "waiting here, as you may not queue more jobs; lab queue sends it when a place is free"
MAX_NAMED = 3
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


class JobStates:
    """Answers for many runs. Each scheduler is asked once, when the first run needs its answer."""

    def __init__(self) -> None:
        # scheduler -> its jobs, or why it does not answer
        self._answers: dict[str, dict[str, JobState] | str] = {}
        self.waiting: list[RunRecord] = []  # of the runs that were asked for and wait here

    @property
    def silent(self) -> list[str]:
        """Why the schedulers that were asked did not answer, a sentence each."""
        return [answer for answer in self._answers.values() if isinstance(answer, str)]

    def of(self, record: RunRecord) -> JobState | None:
        """The state of the job in a run's record.

        Returns:
            "queued" or "running"; "unknown", with the reason, when this machine cannot tell;
            None when there is no job or it is over, which is remembered in the run's directory.
        """
        job = record.get("job")
        if not job or "refused" in job or "cancelled" in job:
            return None
        if "id" not in job and job.get("sending") and alive(record["process"]) is not False:
            return JobState("unknown", "it is being sent")
        if record["who"] != user():
            return JobState("unknown", f"it belongs to {record['who']}")
        if "id" not in job and not waits_here(job):
            try:
                job = settle(record)
            except Unsettled as error:
                return JobState("unknown", str(error))
            if job is None:
                return None
        if waits_here(job):
            self.waiting.append(record)
            return JobState("queued", WAITS_HERE)
        if job["scheduler"] == "local" and record["host"] != platform.node():
            return JobState("unknown", f"it is on {record['host']}")
        jobs = self._ask(job["scheduler"])
        if isinstance(jobs, str):
            return JobState("unknown", jobs)
        remember_whether_over(record, not any(chunk in jobs for chunk in ids_of(job)))
        if "chain" not in job:
            return jobs.get(job["id"])
        chunks = [replace(jobs[chunk], job_id=chunk) for chunk in job["chain"] if chunk in jobs]
        return next(iter(chunks), None)

    def ids_of(self, scheduler: str) -> set[str]:
        """The ids of all jobs of this user that a scheduler has."""
        jobs = self._ask(scheduler)
        return set() if isinstance(jobs, str) else set(jobs)

    def word_of(self, record: RunRecord) -> str | None:
        """The word for the state of a run's job, for `status_of`."""
        job = self.of(record)
        return None if job is None else job.state

    def reason_of(self, record: RunRecord, state: JobState) -> str:
        """Why a run waits: for the runs before it, else as its scheduler says."""
        reason = ""
        if state.state == "queued" and "after" in record:
            reason = words_of_waiting(record["after"], self.word_of) or ""
        if waits_here(record["job"]):
            return f"waiting here; {reason}" if reason else WAITS_HERE
        return reason or state.reason

    def _ask(self, scheduler: str) -> dict[str, JobState] | str:
        if scheduler not in self._answers:
            from ..schedulers import scheduler_of  # needless for runs that are not jobs

            try:
                self._answers[scheduler] = scheduler_of(scheduler).jobs()
            except Failed as error:
                self._answers[scheduler] = str(error)
        return self._answers[scheduler]


def ids_of(job: Job) -> list[str]:
    """The ids of the jobs of a run: several of a chain."""
    return job.get("chain", [job["id"]])


def remember_whether_over(record: RunRecord, is_over: bool) -> None:
    """Notes in the directory of a run that its scheduler no longer holds its job, or takes it back.

    Another cluster, which shares the disk, does not know the job either: only machines that are named
    like the one that sent it count.
    """
    directory = directory_of(record)
    if directory is None or series_of(platform.node()) != series_of(record["host"] or ""):
        return
    marker = directory / JOB_OVER
    if marker.exists() == is_over:
        return
    with suppress(OSError):  # a read-only disk: the scheduler is asked again
        if is_over:
            marker.touch()
        else:
            marker.unlink(missing_ok=True)


def series_of(host: str) -> str:
    """The name of a machine without its number: login1 and login2 are of one cluster."""
    return re.sub(r"\d+", "", host)


def job_state_of() -> JobStateOf:
    """A function from a run's record to the word for its job's state.

    The record, which asks no scheduler itself, asks for it by name: see PROVIDES of this folder.
    """
    return JobStates().word_of


def job_words_of() -> JobWordsOf:
    """A function from a run to what is known of its job, in words.

    The record, which asks no scheduler itself, asks for it by name: see PROVIDES of this folder.
    """
    states = JobStates()

    def words_of(run_dir: Path, record: RunRecord) -> str | None:
        job = record.get("job") or {}
        state = states.of(record)
        job = record.get("job") or {}  # which may be settled now
        if "refused" in job:
            return f"refused: {job['refused']}"
        if "cancelled" in job:
            return "cancelled while it waited here"
        if state and waits_here(job):
            return f"not sent to {job['site']} yet: {states.reason_of(record, state)}"
        if "id" not in job:
            return f"not known on {job['site']}: {state.reason}" if state else None
        words = states.reason_of(record, state) if state else how_job_ended(run_dir, record)
        return f"{job['id']} on {job['site']}" + (f": {words}" if words else "")

    return words_of


def require_job(run: Run) -> Job:
    """The job of a run's record."""
    job = run.record.get("job") or {}
    if "unknown" in job:
        raise LabError(
            f"{job['scheduler']} has not said whether it has the job of {run.id}: {job['unknown']}\n"
            "Ask it again: lab queue"
        )
    if waits_here(job):
        raise LabError(f"{run.id} has no job yet. It is {WAITS_HERE}")
    if "id" not in job:
        raise LabError(
            f"{run.id} has no job: it was trained in a terminal, or never sent."
            f" See: lab runs show {run.id}"
        )
    return job


@dataclass(frozen=True)
class Awaited:
    """A run that another one comes after.

    Args:
        status: as `status_of`, or "deleted".
        record: empty for one that is deleted.
    """

    run_id: str
    status: str
    record: RunRecord

    @property
    def is_open(self) -> bool:
        return self.status in UNENDED

    def __str__(self) -> str:
        return f"run {self.run_id}, which it comes after, is {self.status}"


def awaited_runs(after: AfterRuns, job_state_of: JobStateOf | None = None) -> list[Awaited]:
    """How the runs are now that must be over before.

    Args:
        job_state_of: asks the schedulers; without it what was seen before counts.
    """
    awaited = []
    for run_id, directory in after["runs"].items():
        record = run_record(Path(directory))
        status = status_of(Path(directory), job_state_of, record) if record else "deleted"
        awaited.append(Awaited(run_id, status, record))
    return awaited


def first_unfinished(after: AfterRuns, awaited: list[Awaited]) -> Awaited | None:
    """The run because of which another one can never start; None while it can."""
    if after["when"] == "ended":
        return None
    over = (each for each in awaited if not each.is_open and each.status != "finished")
    return next(over, None)


def words_of_waiting(after: AfterRuns, job_state_of: JobStateOf) -> str | None:
    """What a queued run waits for; None when the runs before it are over as they must be."""
    awaited = awaited_runs(after, job_state_of)
    unfinished = first_unfinished(after, awaited)
    if unfinished:
        return f"{unfinished}; it will never start, lab cancel it"
    still_open = [f"{each.run_id} ({each.status})" for each in awaited if each.is_open]
    return f"waits for {and_more(still_open, MAX_NAMED)}" if still_open else None


def words_of_never(run_dir: Path, record: RunRecord) -> str | None:
    """That a job whose run never began is over as a run before it has not finished.

    It is remembered: the run is cancelled.
    """
    after = record.get("after")
    if after is None or (run_dir / "attempts/1/start.json").exists():
        return None
    unfinished = first_unfinished(after, awaited_runs(after))
    if unfinished is None:
        return None
    words = f"never started: {unfinished}"
    write_file(run_dir / CANCELLED, f"{words}\n")
    return words


@dataclass(frozen=True)
class ScriptExit:
    """How the job script ended; above 128 the code is 128 + the number of a signal."""

    code: int
    seconds: int


def how_job_ended(run_dir: Path, record: RunRecord) -> str | None:
    """How a job that is over ended, and the line that continues it with what it lacked.

    Args:
        record: run.json of the run.

    Returns:
        None when there is no such job, or the run itself says all.
    """
    words = words_of_end(run_dir, record)
    if words == OUT_OF_MEMORY:
        setting = "job.mem"
    elif words == OUT_OF_TIME or (words or "").startswith(AT_TIME_LIMIT):
        setting = "job.time"
    else:
        return words
    if "program" in record["job"]:
        return f"{words}; ask for more with {setting}"
    changed = [
        word for word in record["job"].get("changed", []) if not word.startswith(f"{setting}=")
    ]
    command = shlex.join(["lab", "submit", record["run_id"], *changed])
    return f"{words}. To continue with more: {command} {setting}=…"


def words_of_end(run_dir: Path, record: RunRecord) -> str | None:
    """How a job ended, see `how_job_ended`."""
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
