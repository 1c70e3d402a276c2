# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What the GPUs of this machine are doing: the emptiest ones, and the guard that ends a job which does not use its own.

A job without a scheduler starts it: python -m <package>.lab.speed.gpus PID (of the job script, which passes signals on)
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from ..errors import Refused

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


def emptiest(n: int, need_MB: int | None = None, asked: Callable = gpus) -> list[str]:
    """Indices of the n GPUs with the most free memory.

    Raises:
        Refused: there are fewer, or one of them has less free memory than `need_MB` (None: half of its own).
    """
    rows = asked("index", "memory.free", "memory.total")
    there = sorted(((index, int(free), int(total)) for index, free, total in rows), key=lambda gpu: -gpu[1])
    if len(there) < n:
        raise Refused(f"job.gpus={n}, but this machine has {len(there)} NVIDIA GPUs. Without one: job.gpus=0")
    for index, free_MB, total_MB in there[:n]:
        need = total_MB // 2 if need_MB is None else need_MB
        if free_MB < need:
            raise Refused(
                f"GPU {index} is the emptiest left, with {free_MB} of {total_MB} MB free; {need} MB are needed.\n"
                "Somebody works there: nvidia-smi. Wait for them, or insist: job.mem=0"
            )
    return [index for index, _, _ in there[:n]]


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
