"""`after=RUN`: the runs that a submission comes after, as they are typed and as the scheduler is told."""

from __future__ import annotations

import platform
import sys

from ...errors import LabError, Refused
from ...project import Project
from ...record.files.schema import AfterRuns, Job, RunRecord
from ...record.read.find import find_runs, number_of_array
from ...record.read.run import run_roots
from ..schedulers import scheduler_of
from ..watch.job_states import Awaited, awaited_runs, first_unfinished, job_state_of, series_of
from ..watch.unanswered import job_of, with_waiting

AFTER = "after="
ANY = "any:"  # before the names: those runs may end as they will


def split_after(words: list[str]) -> tuple[list[str], list[str]]:
    """The settings, and what was typed behind `after=`."""
    others = [word for word in words if not word.startswith(AFTER)]
    return others, [word.removeprefix(AFTER) for word in words if word.startswith(AFTER)]


def after_of_words(project: Project, words: list[str]) -> AfterRuns | None:
    """The section `after` of a record, from what was typed behind `after=`; None for nothing."""
    if not words:
        return None
    is_any = all(word.startswith(ANY) for word in words)
    names = ",".join(word.removeprefix(ANY) if is_any else word for word in words).split(",")
    if any(name.startswith(ANY) for name in names):
        raise LabError(
            f"after={' after='.join(words)}: {ANY} stands once, before all runs. "
            "Type: after=any:RUN,RUN"
        )
    runs = {}
    for name in names:
        found = with_waiting(find_runs(run_roots(project), name), name)
        number = number_of_array(job_of(found[0]).get("id", ""))
        if number and number != name and len(found) == 1:
            print(
                f"lab: after={name} waits for {found[0].id} alone, a run of array {number}. "
                f"To wait for all of it: after={number}",
                file=sys.stderr,
            )
        runs |= {run.id: str(run.dir) for run in found}
    after = AfterRuns(when="ended" if is_any else "finished", runs=runs)
    refuse_if_never(after, awaited_runs(after, job_state_of()))
    return after


def refuse_if_never(after: AfterRuns, awaited: list[Awaited]) -> None:
    """Makes sure that a run can start."""
    unfinished = first_unfinished(after, awaited)
    if unfinished:
        run_id = unfinished.run_id
        raise Refused(
            f"{unfinished}, so a run after it would never start. What to do: lab runs show {run_id}\n"
            f"To start however it ended: after=any:{run_id}"
        )


def options_of_after(after: AfterRuns | None, scheduler_name: str) -> list[str] | None:
    """The options with which a job waits for the runs before it; [] when they are over.

    None where the scheduler cannot wait for them: one has no job of this scheduler here yet, or its run
    may go on in another job; or the scheduler knows no such options.

    Raises:
        Refused: it would never start.
    """
    if after is None:
        return []
    awaited = awaited_runs(after, job_state_of())
    refuse_if_never(after, awaited)
    must_be_ok = []
    must_end = []
    for each in awaited:
        if not each.is_open:
            continue
        job = each.record.get("job") or {}
        if not can_be_awaited(each.record, job, scheduler_name):
            return None
        if after["when"] == "ended" or "chain" in job:  # whose end cancels its later chunks
            must_end.append(job.get("chain", [job["id"]])[-1])
        else:
            must_be_ok.append(job["id"])
    if not must_be_ok and not must_end:
        return []
    return scheduler_of(scheduler_name).after_options(must_be_ok, must_end)


def can_be_awaited(record: RunRecord, job: Job, scheduler_name: str) -> bool:
    """Whether the scheduler here holds the job of a run, and its end is the end of the run."""
    is_here = series_of(platform.node()) == series_of(record["host"] or "")
    if scheduler_name == "local":
        is_here = platform.node() == record["host"]
    return "id" in job and job["scheduler"] == scheduler_name and is_here and not job.get("goes_on")
