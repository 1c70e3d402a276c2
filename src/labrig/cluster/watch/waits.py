"""How long your runs waited in each queue, from their records."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from ...machine.counted import counted
from ...machine.text_formats import format_clock
from ...project import Project
from ...record.files.process import user
from ...record.read.roots import run_roots
from ...record.read.rows import read_rows

N_LATEST = 20  # runs of a queue that count


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
