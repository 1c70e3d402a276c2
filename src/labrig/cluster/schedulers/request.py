"""What a job asks of its scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field


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
