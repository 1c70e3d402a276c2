"""A job, as all schedulers have it: what it asks for, the runs of an array, its state."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

# How jobs ended, as every scheduler says it: by these `lab queue` knows what to type.
OUT_OF_MEMORY = "out of memory"
OUT_OF_TIME = "killed at its time limit (job.time), before it had saved"
NODE_FAILED = "its node failed ({nodes}); what was saved can be resumed"


@dataclass(frozen=True)
class Chunks:
    """How the time of a run is divided into jobs.

    Args:
        total_s: of all chunks.
        are_chained: whether each is a job of its own; else one job is started again and again.
    """

    total_s: int
    number: int = 1
    are_chained: bool = False


@dataclass(frozen=True)
class JobRequest:
    """A job as the scheduler will see it.

    Args:
        name: shown by the scheduler.
        gpus: per node.
        tasks_per_node: processes per node.
        cpus_per_task: cores of each process.
        time_s: time limit of one job.
        lead_s: how long before the time limit the job is warned.
        options: directives for the job script, in the scheduler's own words.
        submit_options: options that the scheduler accepts on the command line only.
        memory_MB: per node; None where the job did not ask.
        queue: its name in the site's profile; "" for the default one.
        chunks: how many such jobs make the run; None: one.
        why: where cores and memory come from, a line each.
        typed: those of cpus_per_task and mem that were set, and not taken from the site.
    """

    name: str
    nodes: int
    gpus: int
    tasks_per_node: int
    cpus_per_task: int
    time_s: int
    lead_s: int
    options: list[str] = field(default_factory=list)
    submit_options: list[str] = field(default_factory=list)
    memory_MB: int | None = None
    queue: str = ""
    chunks: Chunks | None = None
    why: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()

    @property
    def total_s(self) -> int:
        """Time of the whole run: of all its chunks."""
        if self.chunks is None or self.chunks.number <= 1:
            return self.time_s
        return self.chunks.total_s

    @property
    def is_chain(self) -> bool:
        """Whether a run is several jobs, each of which waits for the one before."""
        return self.chunks is not None and self.chunks.are_chained

    @property
    def n_tasks(self) -> int:
        """Processes of the whole job."""
        return self.nodes * self.tasks_per_node

    @property
    def gpu_hours(self) -> float:
        """GPU-hours when the run takes all its time."""
        return self.nodes * self.gpus * self.total_s / 3600


@dataclass(frozen=True)
class Limit:
    """A number that may not be exceeded.

    Args:
        said_by: who says so, in words.
        counted: an option with which the scheduler lists the jobs that count; "" for all of the user's.
    """

    number: int
    said_by: str
    counted: str = ""


@dataclass(frozen=True)
class Limits:
    """What a scheduler says of its limits; None where it does not say.

    Args:
        array: of the runs of one job array.
        jobs: of a user's jobs that are queued or running, each run of an array counted.
    """

    array: Limit | None = None
    jobs: Limit | None = None


def lowest(*limits: Limit | None) -> Limit | None:
    """The limit with the lowest number; None when there is none."""
    known = [limit for limit in limits if limit is not None]
    return min(known, key=lambda limit: limit.number, default=None)


def link_array_logs(run_dirs: list[Path], first_index: int) -> None:
    """Links <first run>/array/<index>.log to the log of each run."""
    folder = run_dirs[0] / "array"
    folder.mkdir(exist_ok=True)  # of a try that broke off
    for index, run_dir in enumerate(run_dirs, start=first_index):
        log = os.path.relpath(run_dir / "job.log", folder)
        link = folder / f"{index}.log"
        link.unlink(missing_ok=True)
        link.symlink_to(log)


def run_dirs_of(script: Path) -> list[Path]:
    """The directories of the runs of a script, in the order of their indices."""
    links = (script.parent / "array").glob("*.log")
    ordered = sorted((link for link in links if link.stem.isdecimal()), key=lambda at: int(at.stem))
    return [log_of(script, int(link.stem)).parent for link in ordered] or [script.parent]


def log_of(script: Path, index: int) -> Path:
    """The log of the run that an index of an array means; of a single job its only one."""
    link = script.parent / "array" / f"{index}.log"
    if not link.is_symlink():
        return script.parent / "job.log"
    return Path(os.path.normpath(link.parent / os.readlink(link)))  # which need not exist yet


@dataclass(frozen=True)
class JobState:
    """A job that the scheduler knows.

    Args:
        state: "queued", "running", or "unknown" where it cannot be asked from here.
        reason: why it is queued or unknown, in words.
        elapsed_s: how long it has run.
        job_id: of the chunk that is meant, where a run has several jobs.
    """

    state: str
    reason: str
    elapsed_s: int = 0
    job_id: str = ""
