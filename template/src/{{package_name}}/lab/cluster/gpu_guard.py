# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Stops a job without a scheduler that does not use its GPUs."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

from ..machine.gpu import Gpu, gpus
from ..machine.idle_gpus import IDLE_MIN, wait_until_idle


def stop_idle_job(
    pid: int,
    indices: set[int],
    *,
    ask_gpus: Callable[[], list[Gpu]] = gpus,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Watches the GPUs with these indices while the process `pid` lives.

    Returns:
        True when the process was asked to save and end (SIGUSR2), because none of its GPUs did anything.
    """
    is_idle = wait_until_idle(
        lambda: os.path.exists(f"/proc/{pid}"),
        lambda: [gpu.utilization_percent for gpu in ask_gpus() if gpu.index in indices],
        clock=clock,
        sleep=sleep,
    )
    if is_idle:
        names = ", ".join(str(index) for index in sorted(indices))
        print(f"GPU {names} did nothing for {IDLE_MIN} minutes: asking the job to save and end.")
        print("Is its data loading stuck, or was it forgotten? lab logs RUN", flush=True)
        os.kill(pid, signal.SIGUSR2)
    return is_idle


if __name__ == "__main__":
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    stop_idle_job(int(sys.argv[1]), {int(index) for index in visible.split(",") if index})
