"""What a scheduler is for the rest of the code: its words, and how its answers are read."""

from __future__ import annotations

import getpass
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path

from ...errors import Failed
from ...record.read.find import number_of_job
from .command import Unanswered, run_scheduler_command
from .job import JobRequest, JobState, Limits
from .site_draft import SiteDraft

Words = tuple[str, ...]


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
    kept_variables: Words = ()  # those of them that say where the scheduler is

    # ---- sending
    submit_command: Words = ()  # queues a job script
    reads_standard_input = False  # the job script is given to submit_command as its standard input
    # regular expression of the job's number in a line of its answer; the last such line counts. A number
    # may have letters (f3Qd9), but no _ . [ which begin the index of one run of an array
    answer = r"^(\d+)(?:\[\])?(?:[.;]\S*)?$"
    # regular expression of failures after which a job may be queued all the same
    unanswered = (
        r"(?i)timed?[ -]?out|unable to contact|(?:cannot|can't|unable to|failed to|error) connect|"
        r"connection|communication|transmitted|socket|reset by peer|not respond|no response|"
        r"temporarily unavailable|try again"
    )
    run_id_option = ""  # by which a job carries the {run_id} of its first run; it may hold {name}
    sent_command: Words = ()  # prints the jobs of {user} with it, those that ended lately too
    options: Words = ()  # of every job
    # job key -> the options that are added when it is set; a key that is missing here cannot be set
    optional: Mapping[str, Words] = {}
    # begins of resource options -> the same with a type of GPU: options_with_gpu_type
    gpu_type_options: Mapping[str, str] = {}
    gpu_type_example = ""  # what a site's own option for {gpu_type} may look like
    reservation_is_queue = False  # job.reservation takes the place of the queue
    log = ""  # option for the file that a job prints into
    shell_command: Words = ()  # opens an interactive shell: this, options of the request,
    shell_without: Words = ()  # except those that begin with one of these,
    shell_end: Words = ()  # and this

    # ---- arrays and chains
    array: Words = ()  # options that make a job an array
    # options on the command line that send only the runs {first} to {last} of an array, and those for
    # a single run where they differ; without them all runs of an array are sent at once
    piece: Words = ()
    piece_of_one: Words = ()
    array_log = ""  # option for the file that one run of an array prints into
    array_id = ""  # id of one run: {number} of the array and {index}
    first_index = 0  # of an array
    chain: Words = ()  # options of a job that waits for the end of {job}, however it ends
    first_of_chain: Words = ()  # options of the job for which the others wait
    whole_array = "{number}"  # all runs of an array, as {job} of `chain`; "": it has no chain
    # options on the command line of a job that waits for several others: {jobs} are those below
    after: Words = ()
    after_ok = ""  # for {job}, which must end well; "": the scheduler cannot ask for that
    after_end = "{job}"  # for {job}, however it ends
    after_joint = ","  # between two of them
    waits_for_arrays = False  # it waits for the whole array of a job, not for one run of it
    # ways to start a job again; which of them a site allows is said in its profile
    requeue_methods: Words = ("resubmit", "none")
    resubmit_array = ""  # shell command that sends one run of an array again

    # ---- the job script
    template = "mpi.sh"  # file in ../job that holds this scheduler's part
    prefix = ""  # what a directive begins with
    job_id = ""  # shell expression for the id of the job that runs
    index = "0"  # shell expression for the run of an array that this job is, counted from 0
    host_variable = ""  # variable that names the file with the job's hosts

    # ---- asking
    list_command: Words = ()  # prints the jobs of {user}
    waiting = ""  # regular expression of the states of jobs that do not run yet
    # why a job waits: the scheduler's word -> a sentence; a word may be a pattern, QOSMax*
    reasons: Mapping[str, str] = {}
    # what a job does that has started and does not compute: regular expression of its state -> a sentence
    standing: Mapping[str, str] = {}
    start_command: Words = ()  # prints when job {id} is expected to start
    cancel_command: Words = ()  # ends job {id}; it takes several ids, a word each
    stacks_command: Words = ()  # sends {signal}, such as URG, to all processes of job {id}
    # commands that print how job {id}, of which {number} is the array, ended, each with the function that
    # reads its answer; the first that knows the job counts
    end_questions: tuple[tuple[Words, Callable[[str, str], EndedJob | None]], ...] = ()
    # how a job ended: the scheduler's word -> a sentence, with {nodes}
    ends: Mapping[str, str] = {}
    number_command: Words = ()  # prints the {number} of job {id} that in_job_command needs
    in_job_command: Words = ()  # begins a command that runs on all {nodes} of a running job

    def read_jobs(self, answer: str) -> Iterable[ListedJob]:
        """The jobs in the answer of list_command."""
        raise NotImplementedError

    def draft_site(self) -> SiteDraft:
        """What the cluster says of its queues, GPUs and limits.

        Raises:
            Failed: it does not answer.
        """
        raise NotImplementedError

    def limits(self, request: JobRequest) -> Limits:
        """What it says of how many jobs like this one a user may queue; nothing where it is silent."""
        return Limits()

    def cpus_per_gpu(self, queue: str, gpu_type: str | None) -> tuple[int, str] | None:
        """Cores of each GPU of a queue's nodes, "" for the default one, and who says so.

        None where it does not say.

        Raises:
            Failed: it does not answer.
        """
        return None

    def options_with_gpu_type(self, options: list[str]) -> list[str] | None:
        """Options of a resource type that ask for {gpu_type} too; None where there is no way."""
        typed = []
        for option in options:
            for begin, with_type in self.gpu_type_options.items():
                if option.startswith(begin):
                    option = with_type + option.removeprefix(begin)
                    break
            typed.append(option)
        return None if typed == options else typed

    def n_jobs(self, counted: str) -> int:
        """The user's jobs that are queued or running; `counted` as in `Limit`.

        Raises:
            Failed: the scheduler does not answer.
        """
        return len(self.jobs())

    @property
    def submit_words(self) -> list[str]:
        """What a person types to queue a script: `flux batch`, and `sbatch` of `sbatch --parsable`."""
        return list(takewhile(lambda word: not word.startswith("-"), self.submit_command))

    def send_line(self, request: JobRequest, script: str) -> str:
        """The line for the shell that queues a script again; `script` is quoted already."""
        words = shlex.join([*self.submit_words, *request.submit_options])
        by_input = "<" if self.reads_standard_input else ""
        return f"{words} {by_input}{script}"

    def send(self, request: JobRequest, script: Path, n_runs: int, throttle: int = 1) -> list[str]:
        """Queues a script with `n_runs` runs; returns the job id of each.

        Args:
            throttle: how many of them may run at once. A scheduler reads it in the script.

        Raises:
            Unanswered: nobody knows yet whether the scheduler has the job.
            Failed: the scheduler accepted nothing; with its own words.
        """
        words = [*self.submit_command, *request.submit_options]
        try:
            if self.reads_standard_input:
                answer = run_scheduler_command(*words, cwd=script.parent, script=script)
            else:
                answer = run_scheduler_command(*words, str(script), cwd=script.parent)
        except Failed as error:
            if re.search(self.unanswered, str(error).partition(" failed: ")[2]):
                raise Unanswered(str(error)) from error
            raise
        number = self.number_in(answer)
        if number is None:
            # where a site limits jobs, sbatch --parsable can succeed without a job
            said = f"it answered: {answer.strip()}" if answer.strip() else "it gave no reason"
            raise Failed(
                f"{' '.join(self.submit_words)} queued nothing; {said}.\n"
                "Usually too many of your jobs are queued: lab queue"
            )
        if n_runs == 1:
            return [number]
        return [self.id_in_array(number, index) for index in range(n_runs)]

    def piece_options(self, name: str, first: int, last: int, throttle: int) -> list[str]:
        """The options that send only some runs of an array; `first` and `last` count from 0."""
        words = self.piece_of_one if first == last and self.piece_of_one else self.piece
        values = {
            "name": name,
            "first": str(self.first_index + first),
            "last": str(self.first_index + last),
            "next": str(self.first_index + first + 1),
            "throttle": str(throttle),
        }
        return fill_in(words, **values)

    def number_in(self, answer: str) -> str | None:
        """The number of a job in what `submit_command` printed; None when it has none."""
        numbers = re.findall(self.answer, answer, re.MULTILINE)
        return numbers[-1] if numbers else None

    def id_in_array(self, number: str, index: int) -> str:
        """The job id of one run of an array; `index` counts from 0."""
        return self.array_id.format(number=number, index=self.first_index + index)

    def numbers_sent_for(self, run_id: str) -> list[str]:
        """The numbers of this user's jobs that carry the id of a run, the newest last."""
        if not self.sent_command:
            raise Failed(
                f"{self.name} cannot be asked for the job of a run. Look yourself: lab queue"
            )
        command = fill_in(self.sent_command, user=getpass.getuser())
        answer = run_scheduler_command(*command, timeout_s=20)
        numbers = dict.fromkeys(
            number_of_job(job_id) for job_id, text in self.read_sent(answer) if run_id in text
        )
        # Ids that are no numbers stay in the order of the answer
        return sorted(numbers, key=lambda number: int(number) if number.isdigit() else 0)

    def read_sent(self, answer: str) -> Iterable[tuple[str, str]]:
        """Of each job in the answer of sent_command its id, and the text that may hold a run's id."""
        for line in answer.splitlines():
            job_id = re.search(r"[^\s,|]+", line)
            if job_id:
                yield job_id[0], line

    def directives(
        self, request: JobRequest, run_dir: Path, n_runs: int, throttle: int
    ) -> list[str]:
        """The options in the job script: of the request, for the log, for an array."""
        further = [self.log] if n_runs == 1 else [self.array_log, *self.array]
        values = {
            "name": request.name,
            "run_dir": run_dir,
            "n": n_runs,
            "last": n_runs - 1,
            "throttle": throttle,
        }
        carrying = self.run_id_option.format(name=request.name, run_id=run_dir.name)
        flag = re.match(r"-+[\w-]*", carrying)
        if flag and not any(option.startswith(flag[0]) for option in request.options):
            further.insert(0, carrying)
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
                states[job.job_id] = JobState("running", self.standing_of(job), elapsed_s)
        return states

    def reason_of(self, job: ListedJob) -> str:
        """Why a job waits, in words, and when it is expected to start."""
        word = job.reason.partition(",")[0]  # what follows are names of nodes
        sentences = (self.reasons[known] for known in self.reasons if fnmatchcase(word, known))
        reason = next(sentences, job.reason)
        return f"{reason} (start: {job.start})" if job.start else reason

    def standing_of(self, job: ListedJob) -> str:
        """Why a job that has started does not compute; "" where it does."""
        sentences = (text for state, text in self.standing.items() if re.match(state, job.state))
        return next(sentences, "")

    def words_of_end(self, job_id: str) -> str:
        """How a job that is over ended; "" when its exit code says as much.

        Raises:
            Failed: the scheduler does not answer, or has forgotten the job.
        """
        number = number_of_job(job_id)
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

    def with_whole_arrays(self, job_ids: list[str], known: set[str]) -> list[str]:
        """The same jobs, where all that is left of an array is among them by the array's number.

        Args:
            known: ids of all jobs that are queued or running.
        """
        left: dict[str, set[str]] = {}
        for job_id in known:
            left.setdefault(number_of_job(job_id), set()).add(job_id)
        named = []
        for job_id in job_ids:
            number = number_of_job(job_id)
            is_whole = number != job_id and left.get(number, {""}) <= set(job_ids)
            whole = (self.whole_array or "{number}").format(number=number)
            named.append(whole if is_whole else job_id)
        return list(dict.fromkeys(named))

    def cancel(self, job_ids: list[str]) -> None:
        """Ends jobs, with one call.

        Raises:
            Failed: the scheduler refuses.
        """
        words: list[str] = []
        for word in self.cancel_command:
            words += job_ids if word == "{id}" else [word]
        run_scheduler_command(*words)

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

    def shell_words(self, request: JobRequest) -> list[str]:
        """The command that opens an interactive shell with the resources of `request`."""
        words = []
        for option in request.options:
            if not option.startswith(self.shell_without):
                words += split_option(option)
        return [*self.shell_command, *request.submit_options, *words, *self.shell_end]

    def chain_options(self, job_id: str, n_runs: int) -> list[str]:
        """The options of a job that waits for the end of the job (or array) `job_id`."""
        number = number_of_job(job_id)
        job = number if n_runs == 1 else self.whole_array.format(number=number)
        return fill_in(self.chain, job=job)

    def after_options(self, must_be_ok: list[str], must_end: list[str]) -> list[str] | None:
        """The options of a job that waits for others; None where the scheduler has no such thing.

        Args:
            must_be_ok: ids of jobs that must end well; where the scheduler cannot tell, they must end.
            must_end: ids of jobs that must end.
        """
        if not self.after:
            return None
        jobs = []
        for job_id in [*must_be_ok, *must_end]:
            number = number_of_job(job_id)
            is_whole = self.waits_for_arrays and number != job_id
            job = self.whole_array.format(number=number) if is_whole else job_id
            is_ok = job_id in must_be_ok and self.after_ok and not is_whole
            jobs.append((self.after_ok if is_ok else self.after_end).format(job=job))
        return fill_in(self.after, jobs=self.after_joint.join(dict.fromkeys(jobs)))


def fill_in(command: Words, **values: str) -> list[str]:
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
