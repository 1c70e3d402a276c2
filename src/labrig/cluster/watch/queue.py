"""`lab queue`: the jobs of this project that are queued or running, and how long your runs waited in each queue."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from statistics import median

from ...command_parser import CommandParser
from ...machine.text_formats import HOUR_S, counted, format_clock, printable
from ...machine.text_table import TextColumn, text_table
from ...project import Project, read_yaml
from ...providers import provided
from ...record.files.atomic import read_advisory
from ...record.files.json_lines import lines_from_end, parse_line
from ...record.files.metrics_file import is_row
from ...record.files.process import user
from ...record.files.schema import RunRecord, SummaryRecord
from ...record.read.attempt_files import last_attempt
from ...record.read.rows import read_rows, run_directories
from ...record.read.run import run_record, run_roots
from ...record.read.status import COUNT_FIRST, UNENDED, is_preempted, status_of
from .job_states import BY_USER, JobStates, how_job_ended

# The jobs of the last day that something else than their program ended: a node, memory, a limit.

DAY_S = 24 * 3600
MAX_STOPPED = 10  # how many are looked at; each may be a question to the scheduler
SIGNS = ("job.log", "run.json")  # written or changed while a job lives
N_LATEST = 20  # runs of a queue that count


def format_stopped(project: Project, states: JobStates) -> list[str]:
    """Two lines for each such job of the user's, the newest first; they end with how it ended."""
    stopped = stopped_runs(project, states)
    if not stopped:
        return []
    ids = [(record["run_id"], record["trial"], record["job"]["id"]) for record, _ in stopped]
    _, *jobs = text_table(job_columns(ids))
    lines = []
    for job, (_, words) in zip(jobs, stopped, strict=True):
        lines += [job, f"    {words}"]
    return ["stopped in the last 24 hours:", *map(printable, lines)]


def stopped_runs(project: Project, states: JobStates) -> list[tuple[RunRecord, str]]:
    """The records of such runs, the newest first, each with how its job ended."""
    directories = sorted(
        map(Path, run_directories(*run_roots(project))), key=lambda path: path.name
    )
    recent = [path for path in reversed(directories) if silent_s(path) < DAY_S]
    stopped = []
    n_asked = 0
    for run_dir in recent:
        record = run_record(run_dir)
        if n_asked == MAX_STOPPED or not was_stopped(run_dir, record, states):
            continue
        n_asked += 1
        words = how_job_ended(run_dir, record)
        if words and words != BY_USER:
            stopped.append((record, words))
    return stopped


def job_columns(jobs: list[tuple[str, str, str]]) -> list[TextColumn]:
    """The first columns of each table of jobs, always as wide: id of the run, trial, id of the job."""
    return [
        TextColumn("run", [run_id for run_id, _, _ in jobs], 22),
        TextColumn("trial", [trial[:14] for _, trial, _ in jobs], 14),
        TextColumn("job", [job_id for _, _, job_id in jobs], 13),
    ]


def was_stopped(run_dir: Path, record: RunRecord, states: JobStates) -> bool:
    """Whether a job of this user is over, and its program has not said that it finished or failed."""
    if "id" not in (record.get("job") or {}) or record["who"] != user():
        return False
    state = states.of(record)
    if state is not None:
        return False
    status = status_of(run_dir, lambda _: None, record)
    return status in ("lost", "cancelled", "interrupted", "failed")


def silent_s(run_dir: Path) -> float:
    """Seconds since the job of a run was sent, or last printed something."""
    newest_unix_s = 0.0
    for sign in SIGNS:
        with suppress(OSError):
            newest_unix_s = max(newest_unix_s, (run_dir / sign).stat().st_mtime)
    return time.time() - newest_unix_s


MIN_POLL_S = 2.0  # no scheduler is asked more often
DEFAULT_POLL_S = 30.0
STANDSTILL_S = 300.0  # without a step for so long
MAX_ROWS = 200  # of speed.jsonl, that say how long a step takes


@dataclass(frozen=True)
class QueuedJob:
    """A run whose job is queued or running.

    Args:
        state: "queued" or "running"; "unknown" where the scheduler has not said whether it has it.
        reason: why it waits, or why nothing more is known; "" else.
        seconds: for how long it has been in this state.
        gpu_hours: used so far.
    """

    run_id: str
    trial: str
    job_id: str
    site: str
    state: str
    reason: str
    seconds: int
    gpu_hours: float


def queue(project: Project | None = None) -> list[QueuedJob]:
    """Your runs of this project that are queued or running, or may be, newest first."""
    return _jobs(project or Project.of_notebook(), JobStates())


def _jobs(project: Project, states: JobStates) -> list[QueuedJob]:
    jobs = [_job_of(Path(directory), states) for directory in run_directories(*run_roots(project))]
    waiting_or_running = [job for job in jobs if job is not None]
    return sorted(waiting_or_running, key=lambda job: job.run_id, reverse=True)


def _job_of(run_dir: Path, states: JobStates) -> QueuedJob | None:
    """The job of a run; None where it is over, there is none, or somebody else submitted it."""
    summary = read_advisory(run_dir / "summary.json", SummaryRecord)
    has_finished = summary is not None and summary["status"] in COUNT_FIRST
    if has_finished and not is_preempted(run_dir, summary):
        return None
    record = run_record(run_dir)
    job_state = states.of(record)
    if job_state is None or record["who"] != user():
        return None
    state = job_state.state
    reason = states.reason_of(record, job_state)
    if state == "unknown":
        state = status_of(run_dir, lambda _: "unknown", record)
        reason = "" if reason in states.silent else reason  # which is said once, not for each run
    if state not in UNENDED:
        return None
    if state == "running" and not reason:
        reason = standstill(run_dir, job_state.elapsed_s)
    job = record["job"]
    submitted_unix_s = job.get("submitted_unix_s") or (run_dir / "run.json").stat().st_mtime
    queued_s = max(0.0, time.time() - submitted_unix_s)
    n_gpus = job.get("nodes", 0) * job.get("gpus", 0)
    return QueuedJob(
        run_id=record["run_id"],
        trial=record["trial"],
        job_id=job_state.job_id or job.get("id", "-"),
        site=job["site"],
        state=state,
        reason=reason,
        seconds=job_state.elapsed_s if state == "running" else round(queued_s),
        gpu_hours=n_gpus * job_state.elapsed_s / HOUR_S,
    )


def standstill(run_dir: Path, running_s: float) -> str:
    """That a training makes no steps, and how long one took; "" where it makes some, or tests.

    A validation as long as one before is none.
    """
    speed = run_dir / "speed.jsonl"
    try:
        silent_s = min(time.time() - speed.stat().st_mtime, running_s)
    except OSError:
        return ""
    attempt = last_attempt(run_dir)
    if silent_s < STANDSTILL_S or (attempt and "tested_weights" in attempt.start):
        return ""
    lines = map(parse_line, islice(lines_from_end(speed), MAX_ROWS))
    pairs = pairwise(row for row in lines if row and is_row(row))  # the newest first
    steps = [
        (new["time_unix_s"] - old["time_unix_s"], new["step"] - old["step"])
        for new, old in pairs
        if new["attempt"] == old["attempt"] and new["step"] > old["step"]
    ]
    if not steps or silent_s < 3 * max(seconds for seconds, _ in steps):
        return ""
    step_s = median(seconds / n for seconds, n in steps)
    return f"no step for {silent_s / 60:.0f} min (a step takes {step_s:.2g} s): lab logs {run_dir.name} --stacks"


def watches(args: list[str]) -> bool:
    """Whether --watch was typed after `lab queue`."""
    parser = CommandParser(
        prog="lab queue",
        description="Your jobs: run, state, for how long, GPU-hours. Then those of the last day"
        " that something else than their program ended. Runs that wait here, as you may not queue"
        " more jobs, are sent as places become free.",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="repeat until no job is left, as often as the site allows",
    )
    return parser.parse_args(args).watch


def queue_command(project: Project, args: list[str]) -> None:
    """`lab queue`: the jobs of this machine, and those that it sent to others."""
    watch = watches(args)
    elsewhere = provided("jobs_elsewhere") or nowhere
    with elsewhere(project) as print_jobs_elsewhere:
        while True:
            jobs = print_queue(project)
            is_open = print_jobs_elsewhere()
            if not watch or not (jobs or is_open):
                return
            intervals_s = [poll_interval_s(project, job.site) for job in jobs]
            time.sleep(max(intervals_s, default=DEFAULT_POLL_S))
            print()


@contextmanager
def nowhere(project: Project) -> Iterator[Callable[[], bool]]:
    """No job was sent to another machine."""
    yield lambda: False


def print_queue(project: Project) -> list[QueuedJob]:
    """Sends what waits here and fits now, then prints the jobs, those that were stopped, and typical waits.

    Returns:
        The jobs.
    """
    states = JobStates()
    jobs = _jobs(project, states)
    if states.waiting:
        from .waiting_here import send_waiting  # needless where nothing waits

        if send_waiting(states.waiting):
            states = JobStates()
            jobs = _jobs(project, states)
    silent = [f"{words}\nWhat follows is what was known before" for words in states.silent]
    print("\n".join([*silent, format_queue(jobs), *format_stopped(project, states)]), flush=True)
    if jobs:
        print_waits(project)
    return jobs


def print_waits(project: Project) -> None:
    """Prints the typical wait in each queue, from your own runs."""
    for wait in typical_waits(project):
        print(printable(f"typical wait: {format_wait(wait)}"), flush=True)


def poll_interval_s(project: Project, site: str) -> float:
    """Seconds between two questions to the scheduler of a site."""
    interval_s = read_yaml(project.site_file(site)).get("poll_s") or DEFAULT_POLL_S
    return max(MIN_POLL_S, float(interval_s))


def format_queue(jobs: list[QueuedJob]) -> str:
    """A line for each job, and below it the reason where there is one."""
    if not jobs:
        return "no jobs"
    columns = [
        *job_columns([(job.run_id, job.trial, job.job_id) for job in jobs]),
        TextColumn("state", [job.state for job in jobs], 7),
        TextColumn("for", [format_clock(job.seconds) for job in jobs], 9, on_right=True),
        TextColumn("GPU-h", [f"{job.gpu_hours:.1f}" for job in jobs], 5, on_right=True),
    ]
    head, *table = text_table(columns)
    lines = [head]
    for job, line in zip(jobs, table, strict=True):
        lines.append(line)
        if job.reason:
            lines.append(f"    {job.reason}")
    return "\n".join(map(printable, lines))


@dataclass(frozen=True)
class Wait:
    """The typical wait in one queue.

    Args:
        queue: "" for the default one.
        seconds: the median.
        n_runs: that it is the median of.
    """

    site: str
    queue: str
    seconds: float
    n_runs: int


def typical_waits(project: Project) -> list[Wait]:
    """The typical wait in each queue that your runs have waited in."""
    seconds_of: dict[tuple[str, str], list[float]] = {}
    for row in read_rows(run_roots(project)):
        waited = row["waited"]
        if waited and row["who"] == user():
            seconds_of.setdefault((waited["site"], waited["queue"]), []).append(waited["seconds"])
    return [
        Wait(site, queue, statistics.median(seconds[:N_LATEST]), len(seconds[:N_LATEST]))
        for (site, queue), seconds in sorted(seconds_of.items())
    ]


def format_wait(wait: Wait) -> str:
    """One line: 0:12:03 in gpu of slurm (14 runs)."""
    runs = counted(wait.n_runs, "run")
    queue = wait.queue or "the default queue"
    return f"{format_clock(wait.seconds)} in {queue} of {wait.site} ({runs})"
