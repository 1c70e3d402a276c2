# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""Sends, lists and cancels jobs of Slurm, PBS, Grid Engine and PJM."""

from __future__ import annotations

import getpass
import re
from pathlib import Path

from ..errors import Failed
from .dialect import load_dialect
from .job_state import JobState
from .request import Request
from .scheduler_answers import READERS, ListedJob, elapsed_seconds
from .scheduler_command import run_scheduler_command
from .scheduler_ends import END_READERS, EndedJob


class Scheduler:
    """Slurm, PBS Pro, Grid Engine or PJM. PBS and PJM were never run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dialect = load_dialect(name)

    def send_command(self, request: Request, script: Path) -> list[str]:
        """The command that queues `script`."""
        return [*self.dialect.send, *request.submit_options, str(script)]

    def send(self, request: Request, script: Path, n_runs: int, throttle: int = 1) -> list[str]:
        """Queues a script with `n_runs` runs; returns the job id of each.

        Args:
            throttle: how many of them may run at once. A scheduler reads it in the script.

        Raises:
            Failed: the scheduler accepted nothing; with its own words.
        """
        answer = run_scheduler_command(*self.send_command(request, script), cwd=script.parent)
        number = re.search(r"[1-9]\d*", answer)
        if not number:
            # where a site limits jobs, sbatch --parsable can succeed without a job
            raise Failed(
                f"{self.dialect.send[0]} queued nothing and gave no reason."
                " Usually too many of your jobs are queued: lab queue"
            )
        if n_runs == 1:
            return [number[0]]
        first = self.dialect.first_index
        return [
            self.dialect.array_id.format(number=number[0], index=index)
            for index in range(first, first + n_runs)
        ]

    def jobs(self) -> dict[str, JobState]:
        """The user's queued and running jobs by id.

        Raises:
            Failed: the scheduler does not answer.
        """
        command = _fill_in(self.dialect.list_jobs, user=getpass.getuser())
        states = {}
        for job in READERS[self.name](run_scheduler_command(*command)):
            elapsed_s = elapsed_seconds(job.elapsed)
            if re.match(self.dialect.waiting, job.state):
                states[job.job_id] = JobState("queued", self.reason_of(job), elapsed_s)
            else:
                states[job.job_id] = JobState("running", "", elapsed_s)
        return states

    def reason_of(self, job: ListedJob) -> str:
        """Why a job waits, in words, and when it is expected to start."""
        word = job.reason.partition(",")[0]  # what follows are names of nodes
        reason = self.dialect.reasons.get(word, job.reason)
        return f"{reason} (start: {job.start})" if job.start else reason

    def words_of_end(self, job_id: str) -> str:
        """How a job that is over ended; "" when its exit code says as much.

        Raises:
            Failed: the scheduler does not answer, or has forgotten the job.
        """
        for command in self.dialect.ended:
            number = re.sub(r"\D.*", "", job_id, flags=re.DOTALL)
            try:
                answer = run_scheduler_command(
                    *_fill_in(command, id=job_id, number=number), timeout_s=10
                )
            except Failed:
                continue
            ended = END_READERS[command[0]](answer, job_id)
            if ended is not None:
                return self.words_for(ended)
        raise Failed(f"{self.name} no longer knows job {job_id}. Read its log: lab logs RUN")

    def words_for(self, ended: EndedJob) -> str:
        """The sentence for the first state that has one, else the scheduler's own."""
        for state in ended.states:
            if state in self.dialect.ends:
                return self.dialect.ends[state].format(nodes=ended.nodes or "not known")
        return ended.text

    def cancel(self, job_id: str) -> None:
        """Ends a job.

        Raises:
            Failed: the scheduler refuses.
        """
        run_scheduler_command(*_fill_in(self.dialect.cancel, id=job_id))

    def start_estimate(self, job_id: str) -> str | None:
        """When a queued job is expected to start, in the scheduler's words; None if it is silent.

        Raises:
            Failed: the scheduler does not answer.
        """
        if not self.dialect.start_time:
            return None
        answer = run_scheduler_command(*_fill_in(self.dialect.start_time, id=job_id))
        first_line = answer.strip().partition("\n")[0]
        return None if first_line in ("", "N/A") else first_line

    def shell_command(self, request: Request) -> list[str]:
        """The command that opens an interactive shell with the resources of `request`."""
        shell = self.dialect.shell
        words = []
        for option in request.options:
            if not option.startswith(tuple(shell.without)):
                words += split_option(option)
        return [*shell.start, *request.submit_options, *words, *shell.end]


def _fill_in(command: list[str], **values: str) -> list[str]:
    return [word.format(**values) for word in command]


def split_option(option: str) -> list[str]:
    """An option as the words of a command: `-l h_rt=60` is two, `--comment=a b` is one."""
    flag = option.partition(" ")[0]
    return [option] if "=" in flag else option.split(" ", 1)
