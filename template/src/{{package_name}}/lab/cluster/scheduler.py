# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Submits, asks and cancels jobs of Slurm, PBS, Grid Engine and PJM."""

from __future__ import annotations

import getpass
import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from ..errors import Failed
from .dialect import load_dialect

if TYPE_CHECKING:
    from .request import Request

OF_A_JOB = re.compile(  # variables of the job one stands in: inherited, they would misplace or slow down the new one
    r"SLURM_|SBATCH_|SRUN_|SALLOC_|PMI|PMIX|OMPI_|PALS_|PBS_|PE_|SGE_TASK|JOB_ID|JOB_NAME|RESTARTED|NSLOTS|PJM_|TORCHELASTIC_"
    r"|LAB_(?!SITE_PATH)|(?:RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK|MASTER_ADDR|MASTER_PORT)$"
    r"|CUDA_VISIBLE_DEVICES$|GPU_DEVICE_ORDINAL$|ROCR_VISIBLE_DEVICES$|(?:OMP|MKL)_NUM_THREADS$|PYTHON(?!NOUSERSITE|DONTWRITE)"
)
OF_THE_CLUSTER = {"SLURM_CONF", "PBS_CONF_FILE", "PBS_EXEC", "PBS_HOME", "PBS_SERVER"}
Answer = Iterator[
    tuple[str, str, str, str]
]  # of each job: id, state in the scheduler's words, reason, elapsed time


@dataclass(frozen=True)
class JobState:
    """A job the scheduler knows: state "queued" or "running", why it waits in words, and how long it has run."""

    state: str
    reason: str
    elapsed_s: int = 0


class Scheduler:
    """Slurm, PBS Pro, Grid Engine or PJM, by its words. PBS and PJM were never run."""

    def __init__(self, name: str) -> None:
        self.words, self.read_jobs = load_dialect(name), JOBS.get(name)

    def send_command(self, request: Request, script: Path) -> list[str]:
        return [*self.words["send"], *request.submit_options, str(script)]

    def send(self, request: Request, script: Path, n: int) -> list[str]:
        """Sends a script with `n` runs; the job id of each.

        Raises:
            Failed: the scheduler took nothing; with its own words.
        """
        number = re.search(
            r"[1-9]\d*",
            run_scheduler_command(*self.send_command(request, script), cwd=script.parent),
        )
        if not number:  # some sites' limits make sbatch --parsable succeed without a job
            raise Failed(
                f"{self.words['send'][0]} took nothing and gave no reason; usually a limit on submitted jobs"
            )
        indices = range(self.words.get("first_index", 0), self.words.get("first_index", 0) + n)
        return (
            [number[0]]
            if n == 1
            else [self.words["array_id"].format(number=number[0], index=i) for i in indices]
        )

    def jobs(self) -> dict[str, JobState]:
        """The user's queued and running jobs by id."""
        found = {}
        for job_id, said, reason, elapsed in self.read_jobs(
            run_scheduler_command(*self._filled("list", user=getpass.getuser()))
        ):
            waits = re.match(self.words["waiting"], said)
            why = self.words.get("reasons", {}).get(reason, reason) if waits else ""
            found[job_id] = JobState("queued" if waits else "running", why, _seconds(elapsed))
        return found

    def cancel(self, job_id: str) -> None:
        run_scheduler_command(*self._filled("cancel", id=job_id))

    def start_estimate(self, job_id: str) -> str | None:
        """When a queued job is expected to start, in the scheduler's words; None when it does not say."""
        text = (
            run_scheduler_command(*self._filled("start", id=job_id)).strip().partition("\n")[0]
            if "start" in self.words
            else ""
        )
        return None if text in ("", "N/A") else text

    def shell(self, request: Request) -> list[str]:
        """The command that opens an interactive shell with the resources of `request`."""
        shell = self.words["shell"]
        options = [
            option for option in request.options if not option.startswith(tuple(shell["without"]))
        ]
        words = [word for option in options for word in split(option)]
        return [*shell["start"], *request.submit_options, *words, *shell["end"]]

    def _filled(self, command: str, **values: str) -> list[str]:
        return [word.format(**values) for word in self.words[command]]


def split(option: str) -> list[str]:
    """An option as the words of a command: `-l h_rt=60` is two, `--comment=a b` is one."""
    return [option] if "=" in option.partition(" ")[0] else option.split(" ", 1)


def _slurm(text: str) -> Answer:
    for line in text.splitlines():
        yield tuple(line.split("|"))


def _pbs(text: str) -> Answer:
    for job_id, job in json.loads(text or "{}").get("Jobs", {}).items():
        if (
            job.get("Job_Owner", "").partition("@")[0] == getpass.getuser()
            and job["job_state"] not in "FX"
        ):
            used = job.get("resources_used", {}).get("walltime", "")
            yield job_id.partition(".")[0], job["job_state"], job.get("comment", ""), used


def _gridengine(text: str) -> Answer:
    for job in ElementTree.fromstring(text).iter("job_list"):
        number, task, state = (
            job.findtext(name, "") for name in ("JB_job_number", "tasks", "state")
        )
        yield (
            f"{number}.{task}" if task else number,
            state,
            "in error" if "E" in state else "waiting",
            "",
        )


def _pjm(text: str) -> Answer:
    for line in text.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) >= 4 and words[1][:1].isdigit():
            yield words[1], words[2], words[2], words[3]


JOBS = {"slurm": _slurm, "pbs": _pbs, "gridengine": _gridengine, "pjm": _pjm}


def _seconds(elapsed: str) -> int:
    """Of [days-][hours:]minutes:seconds."""
    days, _, rest = elapsed.rpartition("-")
    parts = [int(part) for part in rest.split(":") if part.isdigit()]
    return sum(part * 60**i for i, part in enumerate(reversed(parts))) + 86400 * int(days or 0)


def clean_environment() -> dict[str, str]:
    """The environment without what belongs to the job or run one stands in."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in OF_THE_CLUSTER or not OF_A_JOB.match(name)
    }


def run_scheduler_command(*command: str, cwd: Path | None = None, timeout_s: float = 60) -> str:
    """What a scheduler's command prints; `cwd` becomes the working directory of a job, and must outlive it.

    Raises:
        Failed: it is not installed here, failed, or did not answer in time; with its own words.
    """
    options = {
        "cwd": cwd,
        "env": clean_environment(),
        "stdin": subprocess.DEVNULL,
        "timeout": timeout_s,
    }
    try:
        done = subprocess.run(command, capture_output=True, text=True, **options)
    except FileNotFoundError as error:
        raise Failed(
            f"{command[0]} is not installed here. Is this a login node? lab doctor tells."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise Failed(
            f"{' '.join(command)} did not answer within {timeout_s:.0f} s; is the scheduler down?"
        ) from error
    if done.returncode:
        raise Failed(f"{' '.join(command)} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout
