# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""A machine without a scheduler: a detached process per job, on the emptiest GPUs, listed in a file of the user's."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..errors import Refused
from .request import Request
from .scheduler import SCHEDULERS, GridEngine, JobState, Pbs, Pjm, Slurm, clean_environment


@dataclass(frozen=True)
class Gpu:
    """One device as nvidia-smi sees it; utilization in percent."""

    index: str
    free_MB: int
    total_MB: int
    utilization: int


def gpus() -> list[Gpu]:
    """The GPUs of this machine; empty without nvidia-smi."""
    if not shutil.which("nvidia-smi"):
        return []
    query = [
        "nvidia-smi",
        "--query-gpu=index,memory.free,memory.total,utilization.gpu",
        "--format=csv,noheader,nounits",
    ]
    said = subprocess.run(query, capture_output=True, text=True, timeout=60).stdout
    rows = [[word.strip() for word in line.split(",")] for line in said.splitlines()]
    return [Gpu(row[0], *(int(word) if word.isdigit() else 0 for word in row[1:])) for row in rows if len(row) == 4]


def emptiest(n: int, need_MB: int = 0, found: Callable[[], list[Gpu]] = gpus) -> list[str]:
    """Indices of the n GPUs with the most free memory.

    Raises:
        Refused: there are fewer, or one of them has less free memory than `need_MB` or less than half of its own.
    """
    there = sorted(found(), key=lambda gpu: (-gpu.free_MB, gpu.utilization))
    if len(there) < n:
        raise Refused(f"job.gpus={n}, but this machine has {len(there)} NVIDIA GPUs. Without one: job.gpus=0")
    for gpu in there[:n]:
        need = max(need_MB, gpu.total_MB // 2)
        if gpu.free_MB < need:
            raise Refused(
                f"GPU {gpu.index} is the emptiest left, with {gpu.free_MB} of {gpu.total_MB} MB free; {need} MB are needed.\n"
                "Somebody works there: nvidia-smi. Wait for them, or insist: job.mem=0"
            )
    return [gpu.index for gpu in there[:n]]


class Local:
    """Job ids are process ids with the start time, which tells a process from a later one of the same number."""

    def submit_command(self, request: Request, script: Path) -> list[str]:
        return ["setsid", "bash", str(script)]

    def submit(self, request: Request, script: Path, n: int) -> list[str]:
        """Starts a process per run; the runs of an array wait for each other."""
        environment = clean_environment()
        if request.gpus:
            chosen = emptiest(request.gpus, request.memory_MB)
            environment |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(chosen)}
        started = []
        for index in range(n):
            process = subprocess.Popen(
                ["bash", str(script)],
                env=environment | {"LAB_INDEX": str(index)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # it outlives the terminal
            )
            started.append(f"{process.pid}-{_started(process.pid)}")
        return started

    def jobs(self) -> dict[str, JobState]:
        """Every process of the user that could be a job; a run asks for its own."""
        return {
            f"{pid}-{_started(pid)}": JobState("running", "", _age_s(pid))
            for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
        }

    def cancel(self, job_id: str) -> None:
        pid = int(job_id.partition("-")[0])
        if f"{pid}-{_started(pid)}" == job_id:
            os.kill(pid, signal.SIGTERM)

    def start_estimate(self, job_id: str) -> str | None:
        return None

    def shell(self, request: Request) -> list[str]:
        return ["bash", "-l"]


def _started(pid: int) -> str | None:
    """Start time in clock ticks after boot; None when there is no such process, or it is only waiting to be buried."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def _age_s(pid: int) -> int:
    started = _started(pid)
    up_s = float(Path("/proc/uptime").read_text(encoding="utf-8").split()[0])
    return round(up_s - int(started) / os.sysconf("SC_CLK_TCK")) if started else 0


def scheduler_of(scheduler: str) -> Slurm | Pbs | GridEngine | Pjm | Local:
    """Speaks to a scheduler by its name in the profile."""
    return Local() if scheduler == "local" else SCHEDULERS[scheduler]()
