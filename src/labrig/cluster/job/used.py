"""Looks at what the job of a run uses of a node, notes it in the attempt, and prints it at the end.

The first process of each node looks every half minute, so that a job which is killed has left what
was known. The job script calls `main` when the ranks are gone.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ... import env
from ...machine.gpu import gpus
from ...machine.job_use import use_of_job
from ...machine.ranks import Ranks
from ...record.files.atomic import read_advisory, write_json
from ...record.read.attempt_files import read_attempts
from ...record.read.run import Run
from ...record.read.used import (
    ASKED,
    UsedOnNode,
    format_used,
    settings_that_would_do,
    used_on_nodes,
)
from .gpu_guard import visible_gpus

FIRST_LOOK_S = 5
EVERY_S = 30
SHORTEST_S = 4  # between two looks whose difference tells how busy the cores were
LAST_LOOK_S = 10  # that the last look may take


class NodeUse:
    """What the job of a run has used of this node; goes on from what was noted before."""

    def __init__(self, run: Run, n: int, node: int) -> None:
        self.file = run.dir / "attempts" / str(n) / f"used-{node}.json"
        self.variable = f"{env.RUN_DIR}={run.dir}"
        self.job_id = os.environ[env.JOB]
        job = run.record.get("job") or {}
        noted: UsedOnNode = read_advisory(self.file, UsedOnNode) or {}
        asked: Any = {key: job[key] for key in ASKED if key in job}
        self.used = UsedOnNode(asked=asked) | noted
        self.n_gpus = job.get("gpus") or 0
        self.busy_gpus: set[str] = set()  # those that worked at a look
        self.seconds_before = max(0.0, time.time() - float(os.environ[env.JOB_STARTED]))
        self.began_s = time.monotonic()  # a clock that nobody sets

    def look(self) -> None:
        """Brings all figures up to date; what was noted as the most stays."""
        before_s = self.used.get("seconds", 0.0)
        cpu_before_s = self.used.get("cpu_s", 0.0)
        now = use_of_job(self.job_id, self.variable)
        seconds = self.seconds_before + time.monotonic() - self.began_s
        cpu_s = max(now.cpu_s, cpu_before_s)
        busiest = self.used.get("busiest_cores", 0.0)
        if seconds - before_s >= SHORTEST_S:
            busiest = max(busiest, (cpu_s - cpu_before_s) / (seconds - before_s))
        self.used["seconds"] = round(seconds, 1)
        self.used["cpu_s"] = round(cpu_s, 2)
        self.used["busiest_cores"] = round(busiest, 2)
        self.used["memory_bytes"] = max(now.memory_bytes, self.used.get("memory_bytes", 0))

    def look_at_gpus(self) -> None:
        """Adds what the GPUs of the job do now."""
        seen = visible_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"), gpus())
        self.busy_gpus |= {gpu.uuid for gpu in seen if gpu.is_in_use}
        percents = [gpu.utilization_percent for gpu in seen]
        measured = [percent for percent in percents if percent is not None]
        n_before = self.used.get("n_gpu_looks", 0)
        self.used["n_gpus"] = len(seen)
        self.used["n_gpus_used"] = len(self.busy_gpus)
        self.used["n_gpu_looks"] = n_before + 1
        if measured:
            total = n_before * (self.used.get("gpu_percent") or 0.0) + statistics.fmean(measured)
            self.used["gpu_percent"] = total / (n_before + 1)

    def write(self) -> None:
        """Notes the figures, once the attempt is a part of the record."""
        if self.file.with_name("start.json").exists():
            write_json(self.file, self.used)


@contextmanager
def use_noted(run: Run, ranks: Ranks) -> Iterator[None]:
    """Notes what a job uses of this node while its first process there works."""
    if ranks.local_rank != 0 or not {env.JOB, env.JOB_STARTED, env.NEXT_ATTEMPT} <= set(os.environ):
        yield
        return
    node = NodeUse(run, int(os.environ[env.NEXT_ATTEMPT]), ranks.node_rank)
    stop = threading.Event()
    watcher = threading.Thread(target=keep_looking, args=(node, stop), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join(LAST_LOOK_S)


def keep_looking(node: NodeUse, stop: threading.Event) -> None:
    """Looks until `stop` is set, and once more then; the first looks come soon, for short jobs."""
    pause_s = FIRST_LOOK_S
    is_over = False
    while not is_over:
        is_over = stop.wait(pause_s)
        pause_s = min(2 * pause_s, EVERY_S)
        # A full disk, or a figure that cannot be read, is no reason to end a training.
        with suppress(OSError, ValueError):
            if node.n_gpus and not is_over:  # at its end a job leaves its GPUs
                node.look_at_gpus()
            node.look()
            node.write()


def main() -> None:
    """Prints what the job used in the attempt that is over, and the settings that would do."""
    run = Run.open(Path(os.environ[env.RUN_DIR]))
    n = int(os.environ[env.NEXT_ATTEMPT])
    node = NodeUse(run, n, 0)
    if node.file.exists():  # its rank may have been killed since its last look
        node.look()
        node.write()
    used = format_used(used_on_nodes(run.dir, n))
    if used:
        print(f"used {used}")
    enough = settings_that_would_do(run.dir, read_attempts(run.dir))
    if used and enough:
        print(f"enough: {enough}")


if __name__ == "__main__":
    main()
