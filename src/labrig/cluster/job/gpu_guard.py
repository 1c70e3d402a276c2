"""Stops a job that does not use its GPUs: it saves, ends, and is not started again.

The job script starts it. Of a job on several nodes it sees the GPUs of the first.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ... import env
from ...machine.gpu import Gpu, gpus, wait_until_idle
from ...record.read.status import CANCELLED


def stop_idle_job(
    pid: int,
    visible: str | None,
    idle_min: float,
    run_dir: Path,
    *,
    ask_gpus: Callable[[], list[Gpu]] = gpus,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Watches the GPUs of a job while its script, the process `pid`, lives.

    Args:
        visible: CUDA_VISIBLE_DEVICES; None: all GPUs of the node.
        idle_min: minutes without any work on all of them.

    Returns:
        True when the script was asked to save and end (SIGUSR2).
    """
    is_idle = wait_until_idle(
        lambda: os.path.exists(f"/proc/{pid}"),
        lambda: [gpu.utilization_percent for gpu in visible_gpus(visible, ask_gpus())],
        idle_min,
        clock=clock,
        sleep=sleep,
    )
    if is_idle:
        reason = f"stopped: its GPUs did nothing for {idle_min:g} minutes (job.idle_min)"
        (run_dir / CANCELLED).write_text(f"{reason}\n", encoding="utf-8")
        print(f"{reason}. It saves and ends, and is not started again.")
        print("Is its data loading stuck, or was it forgotten?", flush=True)
        os.kill(pid, signal.SIGUSR2)
    return is_idle


def visible_gpus(visible: str | None, all_gpus: list[Gpu]) -> list[Gpu]:
    """The GPUs that CUDA_VISIBLE_DEVICES names, by index or (the beginning of) UUID."""
    if visible is None:
        return all_gpus
    names = visible.split(",")
    uuids = tuple(name for name in names if name.startswith("GPU-"))
    return [gpu for gpu in all_gpus if str(gpu.index) in names or gpu.uuid.startswith(uuids)]


def main(words: list[str]) -> None:
    """
    Args:
        words: process id of the job script, minutes.
    """
    pid, idle_min = words
    if gpus():
        stop_idle_job(
            int(pid),
            os.environ.get("CUDA_VISIBLE_DEVICES"),
            float(idle_min),
            Path(os.environ[env.RUN_DIR]),
        )


if __name__ == "__main__":
    main(sys.argv[1:])
