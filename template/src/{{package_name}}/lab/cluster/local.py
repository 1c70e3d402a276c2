# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Jobs on a machine without a scheduler: detached processes."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from .. import env
from ..machine.gpu import least_used_gpus
from ..record.process import pid_started
from .job_state import JobState
from .job_variables import clean_environment
from .request import Request
from .scheduler import Scheduler


class Local(Scheduler):
    """A machine without a scheduler: each run is a detached process, on the emptiest GPUs.

    A job id is the process id and the start of the process: a later one may get the same number.
    """

    def send(self, request: Request, script: Path, n_runs: int) -> list[str]:
        """Starts a process for each run; the runs of an array wait for each other.

        Raises:
            Refused: there are too few free GPUs.
        """
        environment = clean_environment()
        if request.gpus:
            chosen = least_used_gpus(request.gpus, request.memory_MB)
            environment |= {
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "CUDA_VISIBLE_DEVICES": ",".join(str(gpu.index) for gpu in chosen),
            }
        return [_start(script, environment | {env.INDEX: str(index)}) for index in range(n_runs)]

    def jobs(self) -> dict[str, JobState]:
        """Every process of this machine as if it were a job: a run looks up its own id."""
        up_s = float(Path("/proc/uptime").read_text(encoding="utf-8").split()[0])
        waiting = waiting_processes()
        states = {}
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            started_ticks = pid_started(int(name))
            if started_ticks:
                age_s = up_s - int(started_ticks) / os.sysconf("SC_CLK_TCK")
                state, reason = "running", ""
                if int(name) in waiting:
                    state, reason = "queued", "another run of its array is running"
                states[f"{name}-{started_ticks}"] = JobState(state, reason, round(age_s))
        return states

    def cancel(self, job_id: str) -> None:
        """Asks the process to save and end, if it still runs."""
        pid = int(job_id.partition("-")[0])
        if job_id == _job_id(pid):
            os.kill(pid, signal.SIGTERM)


def waiting_processes() -> set[int]:
    """The job scripts that wait for the other runs of their array: each has a child `flock`."""
    waiting = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            stat = Path(f"/proc/{name}/stat").read_text(encoding="utf-8", errors="replace")
            command, _, fields = stat.partition("(")[2].rpartition(")")
            if command == "flock":
                waiting.add(int(fields.split()[1]))  # its parent
    return waiting


def _start(script: Path, environment: dict[str, str]) -> str:
    """Starts a job script that outlives the terminal; returns its job id."""
    process = subprocess.Popen(
        ["bash", str(script)],
        env=environment,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return _job_id(process.pid)


def _job_id(pid: int) -> str:
    return f"{pid}-{pid_started(pid)}"


def scheduler_of(name: str) -> Scheduler:
    """The scheduler of this name in a profile."""
    return Local(name) if name == "local" else Scheduler(name)
