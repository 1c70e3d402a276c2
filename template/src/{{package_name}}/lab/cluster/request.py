# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""What a job asks of its scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Request:
    """A job as the scheduler will see it.

    Args:
        name: shown by the scheduler.
        gpus: per node.
        tasks_per_node: processes per node.
        cpus_per_task: cores of each process.
        time_s: time limit.
        lead_s: how long before the time limit the job is warned.
        options: directives for the job script, in the scheduler's own words.
        submit_options: options that the scheduler accepts on the command line only.
        memory_MB: per node; None where the job did not ask.
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

    @property
    def n_tasks(self) -> int:
        """Processes of the whole job."""
        return self.nodes * self.tasks_per_node

    @property
    def gpu_hours(self) -> float:
        """GPU-hours when the job runs to its time limit."""
        return self.nodes * self.gpus * self.time_s / 3600
