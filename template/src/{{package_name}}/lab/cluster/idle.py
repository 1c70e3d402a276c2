# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The idle-GPU guard of a machine without a scheduler: ends a process that holds GPUs and does not use them.

Started by job.sh: python -m <package>.lab.cluster.idle PID
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

from .local import Gpu, gpus

EVERY_S = 30
IDLE_MIN = 30  # minutes at 0 % on all of the job's GPUs


def guard(
    pid: int,
    mine: set[str],
    *,
    idle_s: float = IDLE_MIN * 60,
    every_s: float = EVERY_S,
    found: Callable[[], list[Gpu]] = gpus,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Watches while `pid` lives; True when it was asked to stop (SIGUSR2: it saves and ends)."""
    busy_at_s = clock()
    while alive(pid):
        if any(gpu.utilization > 0 for gpu in found() if gpu.index in mine):
            busy_at_s = clock()
        if clock() - busy_at_s >= idle_s:
            print(
                f"GPU {', '.join(sorted(mine))} did nothing for {idle_s / 60:.0f} minutes: asking the job to save and end. "
                "Is its data loading stuck, or was it forgotten? lab logs RUN",
                flush=True,
            )
            os.kill(pid, signal.SIGUSR2)
            return True
        sleep(every_s)
    return False


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    guard(int(sys.argv[1]), set(os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")) - {""})
