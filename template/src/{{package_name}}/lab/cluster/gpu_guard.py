# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Stops a job without a scheduler that does not use its GPUs."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

from ..machine.gpu import gpus

EVERY_S, IDLE_MIN = 30, 30  # the second: minutes at 0 % on all of the job's GPUs


def stop_idle_job(
    pid: int, mine: set[str], *, asked: Callable = gpus, clock=time.monotonic, sleep=time.sleep
) -> bool:
    """Watches the GPUs with the indices `mine` while `pid` lives; True when it was asked to stop (SIGUSR2: it saves)."""
    busy_at_s = clock()
    while os.path.exists(f"/proc/{pid}"):
        if {percent for index, percent in asked("index", "utilization.gpu") if index in mine} != {
            "0"
        }:
            busy_at_s = clock()  # also when nobody can tell
        if clock() - busy_at_s >= IDLE_MIN * 60:
            print(
                f"GPU {', '.join(sorted(mine))} did nothing for {IDLE_MIN} minutes: asking the job to save and end."
            )
            print("Is its data loading stuck, or was it forgotten? lab logs RUN", flush=True)
            os.kill(pid, signal.SIGUSR2)
            return True
        sleep(EVERY_S)
    return False


if __name__ == "__main__":
    stop_idle_job(
        int(sys.argv[1]), set(os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")) - {""}
    )
