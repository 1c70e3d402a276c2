# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""How each scheduler is spoken to: send a script, ask for one's jobs, cancel, open a shell on a node."""

from __future__ import annotations

import getpass
import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import Failed
from .request import Request, seconds
from .site import words_of

OF_A_JOB = re.compile(  # variables of the job one stands in: inherited, they would misplace or slow down the new one
    r"SLURM_|SBATCH_|SRUN_|SALLOC_|PMI|PMIX|OMPI_|PALS_|PBS_|PE_|SGE_TASK|JOB_ID|JOB_NAME|RESTARTED|NSLOTS|PJM_|TORCHELASTIC_"
    r"|LAB_(?!SITE_PATH)|(?:RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK|MASTER_ADDR|MASTER_PORT)$"
    r"|CUDA_VISIBLE_DEVICES$|GPU_DEVICE_ORDINAL$|ROCR_VISIBLE_DEVICES$|(?:OMP|MKL)_NUM_THREADS$|PYTHON(?!NOUSERSITE|DONTWRITE)"
)
OF_THE_CLUSTER = {"SLURM_CONF", "PBS_CONF_FILE", "PBS_EXEC", "PBS_HOME", "PBS_SERVER"}


@dataclass(frozen=True)
class JobState:
    """A job the scheduler knows: state "queued" or "running", in words, and how long it has run."""

    state: str
    reason: str
    elapsed_s: int = 0


def clean_environment() -> dict[str, str]:
    """The environment without what belongs to the job or run one stands in."""
    return {name: value for name, value in os.environ.items() if name in OF_THE_CLUSTER or not OF_A_JOB.match(name)}


def call(*command: str, cwd: Path | None = None, timeout_s: float = 60) -> str:
    """What a scheduler's command prints; `cwd` becomes the working directory of a job, and must outlive it.

    Raises:
        Failed: it is not installed here, failed, or did not answer in time; with its own words.
    """
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError as error:
        raise Failed(
            f"{command[0]} is not installed here. Is this a login node of the site? lab doctor tells."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{' '.join(command)} did not answer within {timeout_s:.0f} s; is the scheduler down?") from error
    if done.returncode:
        raise Failed(f"{' '.join(command)} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


class Slurm:
    """Slurm 20.11 or newer."""

    def submit_command(self, request: Request, script: Path) -> list[str]:
        return ["sbatch", "--parsable", *request.submit_options, str(script)]

    def submit(self, request: Request, script: Path, n: int) -> list[str]:
        job_id = call(*self.submit_command(request, script), cwd=script.parent).strip().partition(";")[0]
        if not job_id:  # some sites' limits make sbatch --parsable succeed without a job
            raise Failed(
                "sbatch accepted nothing and gave no reason; a limit on submitted jobs is the usual one. lab queue"
            )
        return [job_id] if n == 1 else [f"{job_id}_{i}" for i in range(n)]

    def jobs(self) -> dict[str, JobState]:
        found = {}
        for line in call("squeue", "--me", "--noheader", "--array", "--format=%i|%T|%r|%M").splitlines():
            job_id, state, reason, elapsed = line.split("|")
            running = state in (
                "RUNNING",
                "COMPLETING",
                "CONFIGURING",
                "SUSPENDED",
                "STOPPED",
                "SIGNALING",
                "STAGE_OUT",
            )
            if running or state in ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"):
                words = "" if running else words_of("slurm")["reasons"].get(reason, reason)
                found[job_id] = JobState("running" if running else "queued", words, _elapsed(elapsed))
        return found

    def cancel(self, job_id: str) -> None:
        call("scancel", job_id)

    def start_estimate(self, job_id: str) -> str | None:
        text = call("squeue", "--start", "--noheader", "--format=%S", f"--jobs={job_id}").strip().partition("\n")[0]
        return None if text in ("", "N/A") else text

    def shell(self, request: Request) -> list[str]:
        skipped = ("--signal", "--requeue", "--open-mode", "--job-name")
        options = [option for option in request.options if not option.startswith(skipped)]
        return ["srun", "--job-name=lab-shell", *options, "--pty", "bash", "-l"]


class Pbs:
    """PBS Pro; rendered and checked against stored texts, not run."""

    def submit_command(self, request: Request, script: Path) -> list[str]:
        return ["qsub", *request.submit_options, str(script)]

    def submit(self, request: Request, script: Path, n: int) -> list[str]:
        job_id = call(*self.submit_command(request, script), cwd=script.parent).strip()
        return [job_id.replace("[]", f"[{i}]") for i in range(n)]

    def jobs(self) -> dict[str, JobState]:
        jobs = json.loads(call("qstat", "-t", "-f", "-F", "json") or "{}").get("Jobs", {})
        found = {}
        for job_id, job in jobs.items():
            if job.get("Job_Owner", "").partition("@")[0] == getpass.getuser() and job["job_state"] not in "FX":
                running = job["job_state"] in "RE"
                used = job.get("resources_used", {}).get("walltime", "0:0:0")
                found[job_id] = JobState("running" if running else "queued", job.get("comment", ""), seconds(used))
        return found

    def cancel(self, job_id: str) -> None:
        call("qdel", job_id)

    def start_estimate(self, job_id: str) -> str | None:
        return None

    def shell(self, request: Request) -> list[str]:
        skipped = ("-j", "-k", "-r", "-N")
        return ["qsub", "-I", *_words(option for option in request.options if not option.startswith(skipped))]


class GridEngine:
    """Grid Engine: Altair's, Son of Grid Engine, Open Cluster Scheduler."""

    def submit_command(self, request: Request, script: Path) -> list[str]:
        return ["qsub", "-terse", *request.submit_options, str(script)]

    def submit(self, request: Request, script: Path, n: int) -> list[str]:
        job_id = call(*self.submit_command(request, script), cwd=script.parent).strip().partition(".")[0]
        return [job_id] if n == 1 else [f"{job_id}.{i + 1}" for i in range(n)]

    def jobs(self) -> dict[str, JobState]:
        found = {}
        for line in call("qstat", "-u", getpass.getuser(), "-g", "d").splitlines()[2:]:
            words = line.split()
            task = words[-1] if len(words) > 8 and words[-1].isdigit() and "@" not in words[-1] else ""
            task = task if self._is_array(words) else ""
            running = "r" in words[4] or "t" in words[4]
            reason = "in error; qstat -j tells, qmod -cj clears it" if "E" in words[4] else "" if running else "waiting"
            found[words[0] + (f".{task}" if task else "")] = JobState("running" if running else "queued", reason)
        return found

    @staticmethod
    def _is_array(words: list[str]) -> bool:
        """Columns: id prior name user state date time [queue] slots [task]."""
        return len(words) - ("@" in words[7]) == 9

    def cancel(self, job_id: str) -> None:
        number, _, task = job_id.partition(".")
        call("qdel", number, *(["-t", task] if task else []))

    def start_estimate(self, job_id: str) -> str | None:
        return None

    def shell(self, request: Request) -> list[str]:
        skipped = ("-S", "-cwd", "-j", "-r", "-N")
        options = [option for option in request.options if not option.startswith(skipped)]
        return ["qrsh", *request.submit_options, *_words(options)]


class Pjm:
    """Fujitsu Technical Computing Suite; rendered and checked against stored texts, not run."""

    def submit_command(self, request: Request, script: Path) -> list[str]:
        return ["pjsub", *request.submit_options, str(script)]

    def submit(self, request: Request, script: Path, n: int) -> list[str]:
        said = call(*self.submit_command(request, script), cwd=script.parent)
        number = re.search(r"\d+", said)
        if not number:
            raise Failed(f"pjsub gave no job id: {said.strip()}")
        return [number[0]] if n == 1 else [f"{number[0]}[{i}]" for i in range(n)]

    def jobs(self) -> dict[str, JobState]:
        found = {}
        for line in call("pjstat", "-E", "--data", "--choose", "jid,st,elp").splitlines():
            words = [word.strip() for word in line.split(",")]
            if len(words) >= 4 and words[1][:1].isdigit():
                found[words[1]] = JobState("running" if words[2].startswith("R") else "queued", words[2], 0)
        return found

    def cancel(self, job_id: str) -> None:
        call("pjdel", job_id)

    def start_estimate(self, job_id: str) -> str | None:
        return None

    def shell(self, request: Request) -> list[str]:
        return ["pjsub", "--interact", *_words(option for option in request.options if option not in ("-j",))]


SCHEDULERS = {"slurm": Slurm, "pbs": Pbs, "gridengine": GridEngine, "pjm": Pjm}


def _words(options: Sequence[str]) -> list[str]:
    return [word for option in options for word in option.split(" ", 1)]


def _elapsed(text: str) -> int:
    """Slurm's [days-][hours:]minutes:seconds."""
    days, _, rest = text.rpartition("-")
    parts = [int(part) for part in rest.split(":") if part.isdigit()]
    return sum(part * 60**i for i, part in enumerate(reversed(parts))) + 86400 * int(days or 0)
