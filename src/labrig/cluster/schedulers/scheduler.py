"""What a scheduler is for the rest of the code: its words, and how its answers are read."""

from __future__ import annotations

import getpass
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import Failed
from ..job_state import JobState
from ..request import Request
from ..scheduler_command import run_scheduler_command
from .site_draft import SiteDraft

Command = tuple[str, ...]


@dataclass(frozen=True)
class ListedJob:
    """One job of a scheduler's list; what it says of the job is in the scheduler's words.

    Args:
        elapsed: how long it has run, as [days-][hours:]minutes:seconds; "" where that is not known.
        start: when a job that waits is expected to start; "" where that is not known.
    """

    job_id: str
    state: str
    reason: str
    elapsed: str
    start: str = ""


@dataclass(frozen=True)
class EndedJob:
    """A job that is over, in the scheduler's words.

    Args:
        states: the state, then what tells more; the first that `ends` knows counts.
        nodes: where it ran.
        text: a sentence of the scheduler's own; "" where it has none.
    """

    states: list[str]
    nodes: str
    text: str = ""


class Scheduler:
    """One scheduler. A class of its own sets the words that it has, and reads its answers.

    In options of a job {name} {nodes} {gpus} {tasks_per_node} {cpus_per_task} {n_tasks} {time} {time_min}
    {lead_s} and the settings job.* are filled in; in those of its log and array {name}, {run_dir} of the
    (first) run, {n} runs, {last} = n - 1 and {throttle}; in commands what is named there.
    """

    name = ""  # in a profile
    experimental = False  # nobody has run its job scripts yet

    # ---- where it is found, and what its jobs must not inherit
    found_by = ""  # a command that this scheduler alone has: lab site init
    launcher = "mpirun"  # that starts the processes of a job, in a draft
    variables = ""  # regular expression of the variables that it sets in a job
    kept_variables: Command = ()  # those of them that say where the scheduler is

    # ---- sending
    submit_command: Command = ()  # queues a job script
    reads_standard_input = False  # the job script is given to submit_command as its standard input
    # regular expression of the job's number in a line of its answer; the last such line counts
    answer = r"^(\d+)(?:\[\])?(?:[.;].*)?$"
    options: Command = ()  # of every job
    # job key -> the options that are added when it is set; a key that is missing here cannot be set
    optional: Mapping[str, Command] = {}
    reservation_is_queue = False  # job.reservation takes the place of the queue
    log = ""  # option for the file that a job prints into
    shell_command: Command = ()  # opens an interactive shell: this, options of the request,
    shell_without: Command = ()  # except those that begin with one of these,
    shell_end: Command = ()  # and this

    # ---- arrays and chains
    array: Command = ()  # options that make a job an array
    array_log = ""  # option for the file that one run of an array prints into
    array_id = ""  # id of one run: {number} of the array and {index}
    first_index = 0  # of an array
    chain: Command = ()  # options of a job that waits for the end of {job}, however it ends
    whole_array = "{number}"  # all runs of an array, as {job} of `chain`
    # ways to start a job again; which of them a site allows is said in its profile
    requeue_methods: Command = ("resubmit", "none")
    resubmit_array = ""  # shell command that sends one run of an array again

    # ---- the job script
    template = "mpi.sh"  # file in ../job that holds this scheduler's part
    prefix = ""  # what a directive begins with
    job_id = ""  # shell expression for the id of the job that runs
    index = "0"  # shell expression for the run of an array that this job is, counted from 0
    host_variable = ""  # variable that names the file with the job's hosts

    # ---- asking
    list_command: Command = ()  # prints the jobs of {user}
    waiting = ""  # regular expression of the states of jobs that do not run yet
    reasons: Mapping[str, str] = {}  # why a job waits: the scheduler's word -> a sentence
    start_command: Command = ()  # prints when job {id} is expected to start
    cancel_command: Command = ()  # ends job {id}
    # commands that print how job {id}, of which {number} is the array, ended, each with the function that
    # reads its answer; the first that knows the job counts
    end_questions: tuple[tuple[Command, Callable[[str, str], EndedJob | None]], ...] = ()
    # how a job ended: the scheduler's word -> a sentence, with {nodes}
    ends: Mapping[str, str] = {}
    number_command: Command = ()  # prints the {number} of job {id} that in_job_command needs
    in_job_command: Command = ()  # begins a command that runs on all {nodes} of a running job

    def read_jobs(self, answer: str) -> Iterable[ListedJob]:
        """The jobs in the answer of list_command."""
        raise NotImplementedError

    def draft_site(self) -> SiteDraft:
        """What the cluster says of its queues, GPUs and limits.

        Raises:
            Failed: it does not answer.
        """
        raise NotImplementedError

    def send_line(self, request: Request, script: str) -> str:
        """The line for the shell that queues a script again; `script` is quoted already."""
        words = shlex.join([self.submit_command[0], *request.submit_options])
        return f"{words} {'<' if self.reads_standard_input else ''}{script}"

    def send(self, request: Request, script: Path, n_runs: int, throttle: int = 1) -> list[str]:
        """Queues a script with `n_runs` runs; returns the job id of each.

        Args:
            throttle: how many of them may run at once. A scheduler reads it in the script.

        Raises:
            Failed: the scheduler accepted nothing; with its own words.
        """
        words = [*self.submit_command, *request.submit_options]
        if self.reads_standard_input:
            answer = run_scheduler_command(*words, cwd=script.parent, script=script)
        else:
            answer = run_scheduler_command(*words, str(script), cwd=script.parent)
        numbers = re.findall(self.answer, answer, re.MULTILINE)
        if not numbers:
            # where a site limits jobs, sbatch --parsable can succeed without a job
            said = f"it answered: {answer.strip()}" if answer.strip() else "it gave no reason"
            raise Failed(
                f"{self.submit_command[0]} queued nothing; {said}.\n"
                "Usually too many of your jobs are queued: lab queue"
            )
        number = numbers[-1]
        if n_runs == 1:
            return [number]
        indices = range(self.first_index, self.first_index + n_runs)
        return [self.array_id.format(number=number, index=index) for index in indices]

    def directives(self, request: Request, run_dir: Path, n_runs: int, throttle: int) -> list[str]:
        """The options in the job script: of the request, for the log, for an array."""
        further = [self.log] if n_runs == 1 else [self.array_log, *self.array]
        values = {
            "name": request.name,
            "run_dir": run_dir,
            "n": n_runs,
            "last": n_runs - 1,
            "throttle": throttle,
        }
        return [*request.options, *(option.format(**values) for option in further if option)]

    def jobs(self) -> dict[str, JobState]:
        """The user's queued and running jobs by id.

        Raises:
            Failed: the scheduler does not answer.
        """
        command = fill_in(self.list_command, user=getpass.getuser())
        states = {}
        for job in self.read_jobs(run_scheduler_command(*command)):
            elapsed_s = elapsed_seconds(job.elapsed)
            if re.match(self.waiting, job.state):
                states[job.job_id] = JobState("queued", self.reason_of(job), elapsed_s)
            else:
                states[job.job_id] = JobState("running", "", elapsed_s)
        return states

    def reason_of(self, job: ListedJob) -> str:
        """Why a job waits, in words, and when it is expected to start."""
        word = job.reason.partition(",")[0]  # what follows are names of nodes
        reason = self.reasons.get(word, job.reason)
        return f"{reason} (start: {job.start})" if job.start else reason

    def words_of_end(self, job_id: str) -> str:
        """How a job that is over ended; "" when its exit code says as much.

        Raises:
            Failed: the scheduler does not answer, or has forgotten the job.
        """
        number = re.sub(r"\D.*", "", job_id, flags=re.DOTALL)
        for command, read in self.end_questions:
            try:
                words = fill_in(command, id=job_id, number=number)
                answer = run_scheduler_command(*words, timeout_s=10)
            except Failed:
                continue
            ended = read(answer, job_id)
            if ended is not None:
                return self.words_for(ended)
        raise Failed(f"{self.name} no longer knows job {job_id}. Read its log: lab logs RUN")

    def words_for(self, ended: EndedJob) -> str:
        """The sentence for the first state that has one, else the scheduler's own."""
        for state in ended.states:
            if state in self.ends:
                return self.ends[state].format(nodes=ended.nodes or "not known")
        return ended.text

    def cancel(self, job_id: str) -> None:
        """Ends a job.

        Raises:
            Failed: the scheduler refuses.
        """
        run_scheduler_command(*fill_in(self.cancel_command, id=job_id))

    def start_estimate(self, job_id: str) -> str | None:
        """When a queued job is expected to start, in the scheduler's words; None if it is silent.

        Raises:
            Failed: the scheduler does not answer.
        """
        if not self.start_command:
            return None
        answer = run_scheduler_command(*fill_in(self.start_command, id=job_id))
        first_line = answer.strip().partition("\n")[0]
        return None if first_line in ("", "N/A") else first_line

    def shell_words(self, request: Request) -> list[str]:
        """The command that opens an interactive shell with the resources of `request`."""
        words = []
        for option in request.options:
            if not option.startswith(self.shell_without):
                words += split_option(option)
        return [*self.shell_command, *request.submit_options, *words, *self.shell_end]

    def chain_options(self, job_id: str, n_runs: int) -> list[str]:
        """The options of a job that waits for the end of the job (or array) `job_id`."""
        number = re.split(r"[_\[.]", job_id)[0]
        job = number if n_runs == 1 else self.whole_array.format(number=number)
        return fill_in(self.chain, job=job)


def fill_in(command: Command, **values: str) -> list[str]:
    return [word.format(**values) for word in command]


def split_option(option: str) -> list[str]:
    """An option as the words of a command: `-l h_rt=60` is two, `--comment=a b` is one."""
    if '"' in option:
        return shlex.split(option)
    flag = option.partition(" ")[0]
    return [option] if "=" in flag else option.split(" ", 1)


def elapsed_seconds(text: str) -> int:
    """Seconds of [days-][hours:]minutes:seconds; 0 where the scheduler does not say."""
    days, _, clock = text.rpartition("-")
    seconds = 0
    for part in clock.split(":"):
        if part.isdigit():
            seconds = seconds * 60 + int(part)
    return seconds + 86400 * int(days or 0)
