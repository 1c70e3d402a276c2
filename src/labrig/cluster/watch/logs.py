"""`lab logs`: what a run's job printed."""

from __future__ import annotations

import argparse
import os
import re
import time
from contextlib import suppress
from io import BufferedReader, TextIOWrapper
from pathlib import Path

from ...command_parser import CommandParser
from ...errors import Failed, LabError
from ...failure import shown_path
from ...machine.stop import STACKS, STACKS_SIGNAL
from ...project import Project
from ...providers import provided
from ...record.files.atomic import open_file
from ...record.files.json_lines import parts_of
from ...record.files.process import user
from ...record.files.schema import ProcessFacts
from ...record.read.attempt_files import last_attempt
from ...record.read.find import find_run
from ...record.read.run import Run, run_roots
from ...record.read.status import UNENDED, alive, status_of
from ...record.write.claim import owner_of
from ..schedulers import scheduler_of
from ..schedulers.command import run_scheduler_command
from ..schedulers.scheduler import fill_in
from .job_states import (
    JobStates,
    how_job_ended,
    job_state_of,
    require_job,
)
from .queue import poll_interval_s

READ_EVERY_S = 0.5
ANSWER_S = 10.0  # until a process has written its stacks to a shared disk
ANY_STACKS = STACKS.format(rank="*")


def logs(
    run: str | Path = "@last", rank: int | None = None, *, project: Project | None = None
) -> str:
    """What a run's job has printed so far.

    Args:
        run: an id or its beginning, a tag, a directory, @last.
        rank: only what this rank and the job script printed.

    Raises:
        LabError: no such run, it has no job, or its job has printed nothing yet.
    """
    project = project or Project.of_notebook()
    of_run = find_run(run_roots(project), str(run))
    require_job(of_run)
    path = of_run.dir / "job.log"
    if not path.exists():
        raise no_log(of_run)
    lines = "".join(part.decode(errors="replace") for part in parts_of(path)).splitlines(
        keepends=True
    )
    return "".join(line for line in lines if is_of_rank(line, rank))


def logs_options(args: list[str]) -> argparse.Namespace:
    """What was typed after `lab logs`."""
    parser = CommandParser(prog="lab logs", description="What a run's job printed.")
    parser.add_argument("run", help="an id or its beginning, a tag, @last")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="keep printing until the run's job has ended"
    )
    parser.add_argument(
        "--rank",
        type=int,
        metavar="N",
        help="only what rank N and the job script print",
    )
    parser.add_argument(
        "--stacks",
        action="store_true",
        help="where each process of a training that runs is now, in a file of each",
    )
    return parser.parse_args(args)


def logs_command(project: Project, args: list[str]) -> int:
    """Prints what a run's job printed, wherever it runs."""
    options = logs_options(args)
    elsewhere = provided("logs_elsewhere")
    exit_code = elsewhere(project, options) if elsewhere else None
    if exit_code is not None:
        return exit_code
    run = find_run(run_roots(project), options.run)
    if options.stacks:
        for file in ask_for_stacks(run):
            print(shown_path(file))
        return 0
    job = require_job(run)
    log = LogReader(run.dir / "job.log", options.rank)
    if options.follow:
        follow(run, log, poll_interval_s(project, job["site"]))
    elif not log.path.exists():
        raise no_log(run)
    log.print_new_lines()
    log.print_rest()
    return 0


class LogReader:
    """Prints a growing file, line by line.

    With `rank`, prints only the lines of that rank and of the job script.
    """

    def __init__(self, path: Path, rank: int | None) -> None:
        self.path = path
        self.rank = rank
        self._position = 0
        self._rest = ""  # the beginning of a line whose end is not written yet

    def print_new_lines(self) -> None:
        """Prints the lines that were completed since the last call."""
        if not self.path.exists():
            return
        with TextIOWrapper(BufferedReader(open_file(self.path)), errors="replace") as file:
            file.seek(self._position)
            *lines, self._rest = (self._rest + file.read()).split("\n")
            self._position = file.tell()
        for line in lines:
            if is_of_rank(line, self.rank):
                print(line)
        print(end="", flush=True)

    def print_rest(self) -> None:
        """Prints the last line, when it has no end."""
        print(self._rest, end="")


def follow(run: Run, log: LogReader, poll_s: float) -> None:
    """Prints new lines until the run's job has ended; asks the scheduler every `poll_s` seconds."""
    goes_on = job_goes_on(run)
    if not goes_on and not log.path.exists():
        raise no_log(run)
    asked_s = time.monotonic()
    while goes_on:
        log.print_new_lines()
        time.sleep(READ_EVERY_S)
        if time.monotonic() - asked_s > poll_s:
            goes_on = job_goes_on(run)
            asked_s = time.monotonic()


def job_goes_on(run: Run) -> bool:
    """Whether a run waits or runs, or has ended and its job script still prints its last lines."""
    state_of = job_state_of()  # asks the scheduler once
    return status_of(run.dir, state_of) in UNENDED or state_of(run.record) in UNENDED


def ask_for_stacks(run: Run) -> list[Path]:
    """The files to which the processes of a run have written their stacks, with a signal to each."""
    attempt = last_attempt(run.dir)
    folder = run.dir / "attempts" / str(attempt.n if attempt else 0)
    owner: ProcessFacts = owner_of(folder) if attempt and not attempt.end else {}
    lives = alive(owner)
    job_state = None if lives else JobStates().of(run.record)
    if attempt is None or not (lives or (job_state and job_state.state == "running")):
        raise LabError(f"{run.id} does not run now. See: lab runs show {run.id}")
    sizes = {file: file.stat().st_size for file in folder.glob(ANY_STACKS)}
    if lives:
        signal_here(owner["pid"])
    else:
        job = require_job(run)
        command = scheduler_of(job["scheduler"]).stacks_command
        name = STACKS_SIGNAL.name.removeprefix("SIG")
        if not command:
            raise LabError(
                f"{job['scheduler']} sends no signal to all processes of a job. Type on its nodes "
                f"({owner['host']}): pkill -{name} -u {user()} python"
            )
        job_id = (job_state and job_state.job_id) or job["id"]
        run_scheduler_command(*fill_in(command, signal=name, id=job_id))
    n_ranks = attempt.start.get("world_size") or 1
    end_s = time.monotonic() + ANSWER_S
    while True:
        files = sorted(folder.glob(ANY_STACKS))
        answered = [file for file in files if file.stat().st_size > sizes.get(file, 0)]
        if len(answered) >= n_ranks or (answered and time.monotonic() > end_s):
            return answered
        if time.monotonic() > end_s:
            raise Failed(
                f"no process of {run.id} answered in {ANSWER_S:.0f} s. Only trainings of a project "
                "write their stacks, and those that began before this version do not"
            )
        time.sleep(READ_EVERY_S)


def signal_here(pid: int) -> None:
    """Sends STACKS_SIGNAL to the first process of a run and all that its launcher started.

    Whatever else is among them ignores it.
    """
    with suppress(OSError):
        parent = int(
            Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1]
        )
        pid = pid if parent == 1 else parent
    family = [pid]
    for each in family:
        for file in Path(f"/proc/{each}/task").glob("*/children"):
            with suppress(OSError):  # it has just ended
                family += map(int, file.read_text(encoding="ascii").split())
        with suppress(OSError):
            os.kill(each, STACKS_SIGNAL)


def no_log(run: Run) -> LabError:
    status = status_of(run.dir, job_state_of())
    if status in UNENDED:
        return LabError(f"{run.id} has no log yet; it is {status}. To see why it waits: lab queue")
    ended = how_job_ended(run.dir, run.record) or status
    return LabError(
        f"{run.id} has no log, and its job is over: {ended}. See: lab runs show {run.id}"
    )


def is_of_rank(line: str, rank: int | None) -> bool:
    """Whether rank `rank` or the job script printed a line: srun labels lines of ranks "3: …"."""
    label = re.match(r"\s*(\d+): ", line)
    return rank is None or label is None or int(label[1]) == rank
