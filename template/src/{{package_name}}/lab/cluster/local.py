# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Jobs on a machine without a scheduler."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from .. import env
from ..machine.gpu import least_used_gpus
from ..record.process import pid_started
from .scheduler import JobState, Scheduler, clean_environment

if TYPE_CHECKING:
    from .request import Request


class Local(Scheduler):
    """A machine without a scheduler: a detached process per run, on the emptiest GPUs.

    Job ids are process ids with the start time, which tells a process from a later one of the same number.
    """

    def send(self, request: Request, script: Path, n: int) -> list[str]:
        """Starts a process per run; the runs of an array wait for each other."""
        environment = clean_environment()
        if request.gpus:
            chosen = least_used_gpus(request.gpus, request.memory_MB)
            environment |= {
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "CUDA_VISIBLE_DEVICES": ",".join(str(gpu.index) for gpu in chosen),
            }
        nowhere = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        started = []
        for index in range(n):  # each in a session of its own: it outlives the terminal
            own = environment | {env.INDEX: str(index)}
            process = subprocess.Popen(
                ["bash", str(script)], env=own, start_new_session=True, **nowhere
            )
            started.append(f"{process.pid}-{pid_started(process.pid)}")
        return started

    def jobs(self) -> dict[str, JobState]:
        """Every process that could be a job; a run asks for its own."""
        up_s = float(Path("/proc/uptime").read_text(encoding="utf-8").split()[0])
        found = {pid: pid_started(int(pid)) for pid in os.listdir("/proc") if pid.isdigit()}
        ages_s = {
            f"{pid}-{ticks}": up_s - int(ticks) / os.sysconf("SC_CLK_TCK")
            for pid, ticks in found.items()
            if ticks
        }
        return {job_id: JobState("running", "", round(age_s)) for job_id, age_s in ages_s.items()}

    def cancel(self, job_id: str) -> None:
        pid = int(job_id.partition("-")[0])
        if f"{pid}-{pid_started(pid)}" == job_id:
            os.kill(pid, signal.SIGTERM)


def scheduler_of(name: str) -> Scheduler:
    """Speaks to a scheduler by its name in the profile."""
    return Local(name) if name == "local" else Scheduler(name)
