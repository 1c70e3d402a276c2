"""Jobs on a machine without a scheduler: detached processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from ... import env
from ...machine.gpu import require_gpus
from ...record.files.process import pid_started
from .command import clean_environment
from .gpu_lease import lease_directory
from .job import JobRequest, JobState
from .scheduler import Scheduler

LEASE = "labrig.cluster.schedulers.gpu_lease"
AFTER = "lab-after"  # the name of a process that waits for others, given as PID-START, then becomes another
WAIT_FOR_OTHERS = r"""
runs() { # a process that has ended and that nobody has asked about is a Z
  set -- "$1" $(sed 's/.*) //' "/proc/${1%-*}/stat" 2>/dev/null)
  [ "${2:-Z}" != Z ] && [ "${21:-}" = "${1#*-}" ]
}
while [ "$1" != -- ]; do
  while runs "$1"; do sleep 1; done
  shift
done
shift
exec "$@"
"""


class Local(Scheduler):
    """A machine without a scheduler: each run is a detached process, which waits for free GPUs.

    A job id is the process id and the start of the process: a later one may get the same number.
    """

    name = "local"
    submit_command = ("setsid", "bash")
    optional = {"mem": ()}
    shell_command = ("bash", "-l")
    shell_without = ("",)  # all of them
    requeue_methods = ("none",)
    template = "local.sh"
    prefix = "# "
    job_id = "$$"
    after = ("{jobs}",)
    after_joint = " "

    def send(self, request: JobRequest, script: Path, n_runs: int, throttle: int = 1) -> list[str]:
        """Starts a process for each run.

        Those with GPUs wait in line for them, of an array `throttle` at a time; the runs of an
        array without GPUs for each other.
        """
        environment = clean_environment()
        command = ["bash", str(script)]
        if request.gpus:
            require_gpus(request.gpus)
            lease_directory()
            need_MB = "" if request.memory_MB is None else str(request.memory_MB)
            turns = str(max(1, throttle)) if n_runs > 1 else ""
            limit_s = str(request.time_s)
            lease = [sys.executable, "-m", LEASE, str(request.gpus), need_MB, limit_s, turns]
            command = [*lease, str(script)]
            # What waits imports what this process imports; the job script sets its own.
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        if request.submit_options:  # of `after`
            others = request.submit_options[0].split()
            command = ["bash", "-c", WAIT_FOR_OTHERS, AFTER, *others, "--", *command]
        return [_start(command, environment | {env.INDEX: str(index)}) for index in range(n_runs)]

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
                    state, reason = "queued", waiting[int(name)]
                states[f"{name}-{started_ticks}"] = JobState(state, reason, round(age_s))
        return states

    def cancel(self, job_ids: list[str]) -> None:
        """Asks the processes to save and end, those that still run."""
        for job_id in job_ids:
            pid = int(job_id.partition("-")[0])
            if job_id == _job_id(pid):
                os.kill(pid, signal.SIGTERM)


def waiting_processes() -> dict[int, str]:
    """The processes that wait to run a job script, each with its reason.

    One of an array without GPUs has a child `flock`, one that wants GPUs is `gpu_lease` itself, one that
    waits for other jobs is AFTER.
    """
    waiting = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            stat = Path(f"/proc/{name}/stat").read_text(encoding="utf-8", errors="replace")
            command, _, fields = stat.partition("(")[2].rpartition(")")
            if command == "flock":
                parent = int(fields.split()[1])
                waiting[parent] = "another run of its array is running"
                continue
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            if AFTER.encode() in words:  # before the line for GPUs
                waiting[int(name)] = "it waits for other jobs to end"
            elif LEASE.encode() in words:
                waiting[int(name)] = "it waits in line for GPUs: lab top"
    return waiting


def _start(command: list[str], environment: dict[str, str]) -> str:
    """Starts a process that outlives the terminal and becomes the job script; returns its job id."""
    process = subprocess.Popen(
        command,
        env=environment,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return _job_id(process.pid)


def _job_id(pid: int) -> str:
    return f"{pid}-{pid_started(pid)}"
