# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""How each scheduler spells its commands, options and variables: schedulers.yaml."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ..project import read_yaml


@dataclass(frozen=True)
class ShellWords:
    """The command of an interactive job: `start`, options of the request, then `end`.

    Options that begin with a word of `without` are left out.
    """

    start: list[str]
    without: list[str]
    end: list[str]


@dataclass(frozen=True)
class Dialect:
    """The words of one scheduler. Texts in braces are filled in; schedulers.yaml lists them.

    Args:
        template: file in job/ that holds this scheduler's part of the job script.
        prefix: what a directive in the job script begins with.
        send: command that queues a job script.
        job_id: shell expression for the id of the job that runs.
        index: shell expression for the run of an array that this job is, counted from 0.
        shell: how to open an interactive shell.
        options: options of every job.
        optional: job key -> options that are added when it is set; a job key that is missing here
            cannot be set.
        list_jobs: command that prints the user's jobs.
        waiting: regular expression of the states of jobs that do not run yet.
        cancel: command that ends a job.
        start_time: command that prints when a job is expected to start.
        ended: commands that print how a job ended; the first that knows the job counts.
        ends: the scheduler's word for it -> a sentence.
        in_job: beginning of a command that runs on every node of a running job.
        number_of: command that prints the number of a job for in_job.
        array_id: id of one run of an array.
        first_index: the first index of an array.
        log, array_log: options for the file that a job, or one run of an array, prints into.
        array: options that make a job an array.
        resubmit_array: shell command that sends one run of an array again.
        chain: options of a job that waits for the end of {job}, however it ends.
        whole_array: all runs of an array as {job} of `chain`.
        reservation_is_queue: job.reservation takes the place of the queue.
        experimental: nobody has run this scheduler's job scripts yet.
        host_variable: variable that names the file with the job's hosts.
        reasons: why a job waits: the scheduler's word -> a sentence.
    """

    template: str
    prefix: str
    send: list[str]
    job_id: str
    index: str
    shell: ShellWords
    options: list[str] = field(default_factory=list)
    optional: dict[str, list[str]] = field(default_factory=dict)
    list_jobs: list[str] = field(default_factory=list)
    waiting: str = ""
    cancel: list[str] = field(default_factory=list)
    start_time: list[str] = field(default_factory=list)
    ended: list[list[str]] = field(default_factory=list)
    ends: dict[str, str] = field(default_factory=dict)
    in_job: list[str] = field(default_factory=list)
    number_of: list[str] = field(default_factory=list)
    array_id: str = ""
    first_index: int = 0
    log: str | None = None
    array_log: str | None = None
    array: list[str] = field(default_factory=list)
    resubmit_array: str = ""
    chain: list[str] = field(default_factory=list)
    whole_array: str = "{number}"
    reservation_is_queue: bool = False
    experimental: bool = False
    host_variable: str = ""
    reasons: dict[str, str] = field(default_factory=dict)


@cache
def load_dialect(scheduler: str) -> Dialect:
    """The words of slurm, pbs, gridengine, pjm or local."""
    words = read_yaml(Path(__file__).parent / "schedulers.yaml")[scheduler]
    return Dialect(**words | {"shell": ShellWords(**words["shell"])})
