# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What the GPUs of this machine are doing, and the guard that ends a job which holds some and does not use them.

A job without a scheduler starts it: python -m <package>.lab.speed.gpus PID (of the job script, which passes signals on)
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

EVERY_S = 30
IDLE_MIN = 30  # minutes at 0 % on all of the job's GPUs


def gpus(*fields: str) -> list[list[str]]:
    """nvidia-smi's words for `fields` (nvidia-smi --help-query-gpu), a list per GPU; empty without a driver."""
    query = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(query, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows = [[word.strip() for word in line.split(",")] for line in said.splitlines()]
    return [row for row in rows if len(row) == len(fields)]


def guard(pid: int, mine: set[str], *, asked: Callable = gpus, clock=time.monotonic, sleep=time.sleep) -> bool:
    """Watches the GPUs with the indices `mine` while `pid` lives; True when it was asked to stop (SIGUSR2: it saves)."""
    busy_at_s = clock()
    while os.path.exists(f"/proc/{pid}"):
        if {percent for index, percent in asked("index", "utilization.gpu") if index in mine} != {"0"}:
            busy_at_s = clock()  # also when nobody can tell
        if clock() - busy_at_s >= IDLE_MIN * 60:
            print(f"GPU {', '.join(sorted(mine))} did nothing for {IDLE_MIN} minutes: asking the job to save and end.")
            print("Is its data loading stuck, or was it forgotten? lab logs RUN", flush=True)
            os.kill(pid, signal.SIGUSR2)
            return True
        sleep(EVERY_S)
    return False


if __name__ == "__main__":
    guard(int(sys.argv[1]), set(os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")) - {""})
