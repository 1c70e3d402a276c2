"""`lab support`: all that a help desk asks for about a run, as one text without secrets."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator

from ...command_parser import CommandParser
from ...errors import LabError
from ...machine.secrets import hide_tokens
from ...machine.text_formats import printable
from ...project import Project
from ...record.files.schema import Job
from ...record.list.show import format_run
from ...record.read.find import RUN_HELP, find_run, number_of_job
from ...record.read.rows import read_row
from ...record.read.run import Run, run_roots
from ...record.verify.files import identity_problems
from ...version import __version__
from ..schedulers import scheduler_of
from ..schedulers.command import answer_of
from ..schedulers.scheduler import fill_in
from ..sites.site import load_site
from .job_states import end_of_log, job_state_of, job_words_of, last_job_of

DESCRIPTION = "All that a help desk asks for about a run, as one text without secrets."
N_LOG_LINES = 30


def support_command(project: Project, args: list[str]) -> None:
    parser = CommandParser(prog="lab support", description=DESCRIPTION)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    run = find_run(run_roots(project), parser.parse_args(args).run)
    for title, text in support_parts(project, run):
        lines = hide_tokens(text.strip()).splitlines() or ["nothing"]
        print("\n".join([f"== {title}", *map(printable, lines), ""]))


def support_parts(project: Project, run: Run) -> Iterator[tuple[str, str]]:
    """The parts of the text, each with its title."""
    words = job_words_of()(run.dir, run.record)
    row = read_row(str(run.dir), job_state_of())
    warnings = identity_problems(run, run_roots(project))
    yield f"run {run.id}", format_run(run, row, warnings, words)
    yield "here", f"labrig {__version__}, Python {sys.version.split()[0]}, {platform.platform()}"
    job = run.record.get("job") or {}
    if "id" in job:
        yield from answers_about(run, job)
    if "site" in job:
        try:
            site = load_site(project, job["site"])
        except LabError as error:
            yield f"profile {job['site']}", str(error)
        else:
            yield f"profile {site.path}", site.text
    log = end_of_log(run.dir).decode(errors="replace").splitlines()
    yield f"last lines of {run.dir / 'job.log'}", "\n".join(log[-N_LOG_LINES:])


def answers_about(run: Run, job: Job) -> Iterator[tuple[str, str]]:
    """What the scheduler and its accounting answer about a job, in their own words."""
    job_id = last_job_of(run.dir, job)
    for words, _ in scheduler_of(job["scheduler"]).end_questions:
        command = fill_in(words, id=job_id, number=number_of_job(job_id))
        yield " ".join(command), answer_of(*command)
