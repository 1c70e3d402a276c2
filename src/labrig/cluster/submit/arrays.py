"""Divides the runs of a submission into job arrays that the scheduler takes.

`--each`: a command for each of many files.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...errors import Failed, LabError
from ...machine.text_formats import counted
from ...project import Project
from ...record.read.each import PLACE, InputFile, Inputs, progress_of
from ...record.read.run import run_roots
from ..schedulers import scheduler_of
from ..schedulers.job import Limit, Limits, lowest
from ..sections import NO_LIMIT
from ..watch.job_states import job_state_of
from .after import options_of_after, split_after
from .plan import Plan, plan_of, points_of, with_after

MAX_SHOWN = 200  # characters of a list of values in a message


@dataclass(frozen=True)
class JobArray:
    """Runs that are sent together, as one job or one job array.

    Args:
        n_runs: how many.
        throttle: how many of them may run at once.
        n_waiting: how many, the last ones, wait here until there are places.
        max_jobs: how many jobs the user may have; None where nobody says.
        counted: which of them count, as in `Limit`.
    """

    n_runs: int
    throttle: int
    n_waiting: int = 0
    max_jobs: int | None = None
    counted: str = field(default="", compare=False)


def arrays_of(plan: Plan) -> list[JobArray]:
    """The arrays of a submission, each as large as the scheduler takes; together they keep job.throttle.

    Raises:
        LabError: so many jobs may not be queued now, or job.throttle is less than the arrays.
    """
    if not may_wait(plan) and options_of_after(plan.after, plan.site.scheduler) is None:
        raise LabError(
            f"{plan.site.scheduler} cannot wait for all of these runs yet, so this would wait here. "
            "A chain of chunks, and what on=HOST sends, cannot.\n"
            "Submit it when they are over, or leave out job.chunk"
        )
    n_runs = len(plan.points)
    is_local = plan.site.scheduler == "local"  # whose runs wait in line for GPUs
    if n_runs == 1 or is_local:  # of one run the scheduler judges itself, in its own words
        return [JobArray(n_runs, plan.throttle)]
    limits = limits_of(plan)
    arrays = divide(n_runs, limits.array, plan.throttle)
    if limits.jobs is None:
        return arrays
    n_queued = count_queued(plan, limits.jobs)
    if not (may_wait(plan) and scheduler_of(plan.site.scheduler).piece):
        refuse_too_many(plan, limits.jobs, n_queued)
        return arrays
    return with_waiting(arrays, limits.jobs, n_queued)


def may_wait(plan: Plan) -> bool:
    """Whether runs can be sent later: neither chains, nor what was sent from another machine."""
    return not plan.request.is_chain and not plan.guard


def with_waiting(arrays: list[JobArray], limit: Limit, n_queued: int) -> list[JobArray]:
    """The arrays; runs for which there is no place now wait."""
    n_free = max(0, limit.number - n_queued)
    divided = []
    for array in arrays:
        n_now = min(array.n_runs, n_free)
        n_free -= n_now
        divided.append(
            replace(
                array,
                n_waiting=array.n_runs - n_now,
                max_jobs=limit.number,
                counted=limit.counted,
            )
        )
    return divided


def limits_of(plan: Plan) -> Limits:
    """What the site's profile and the scheduler say; the lowest number counts."""
    site = plan.site
    asked = scheduler_of(site.scheduler).limits(plan.request)
    file = site.path
    return Limits(
        array=lowest(asked.array, limit_of(site["max_array"], f"max_array in {file}")),
        jobs=lowest(
            asked.jobs,
            limit_of(site["max_jobs"], f"max_jobs in {file}"),
        ),
    )


def limit_of(number: float, said_by: str) -> Limit | None:
    return None if number == NO_LIMIT else Limit(int(number), said_by)


def divide(n_runs: int, limit: Limit | None, throttle: int) -> list[JobArray]:
    """Arrays of at most `limit` runs, of nearly the same size, that share the throttle."""
    if limit is None or n_runs <= limit.number:
        return [JobArray(n_runs, throttle)]
    n_arrays = -(-n_runs // limit.number)
    if throttle < n_arrays:
        raise LabError(
            f"{n_runs} runs are {n_arrays} job arrays of at most {limit.number} runs"
            f" ({limit.said_by}), and each runs at least one at a time,\n"
            f"but job.throttle={throttle}. Nothing was submitted."
            f" Allow more: job.throttle={n_arrays}"
        )
    sizes = shares(n_runs, n_arrays)
    return [JobArray(*pair) for pair in zip(sizes, shares(throttle, n_arrays), strict=True)]


def shares(total: int, n: int) -> list[int]:
    """`total` in `n` whole numbers that differ by one at most, the larger ones first."""
    least, n_larger = divmod(total, n)
    return [least + 1] * n_larger + [least] * (n - n_larger)


def count_queued(plan: Plan, limit: Limit) -> int:
    """The user's jobs that are queued or running, and that count for a limit."""
    try:
        return scheduler_of(plan.site.scheduler).n_jobs(limit.counted)
    except Failed as error:
        raise Failed(
            f"{error}\nNobody knows how many jobs you may still queue"
            f" (at most {limit.number}: {limit.said_by}). Nothing was submitted; try again later"
        ) from error


def refuse_too_many(plan: Plan, limit: Limit, n_queued: int) -> None:
    """Refuses runs that cannot wait here, and for which there is no place."""
    chunks = plan.request.chunks
    jobs_of_run = chunks.number if chunks and chunks.are_chained else 1
    n_runs = len(plan.points)
    n_fitting = max(0, (limit.number - n_queued) // jobs_of_run)
    if n_runs <= n_fitting:
        return
    jobs = "" if jobs_of_run == 1 else f" of {jobs_of_run} jobs each"
    raise LabError(
        f"{counted(n_runs, 'run')}{jobs} do not fit: you may have {counted(limit.number, 'job')}"
        f" ({limit.said_by}),\n"
        f"and {n_queued} are queued or running. Nothing was submitted. {what_fits(plan, n_fitting)}"
    )


def what_fits(plan: Plan, n_fitting: int) -> str:
    """What to type for the runs that fit now, and for the others."""
    if not n_fitting:
        return "There is no place now. See: lab queue"
    first = f"There is room for {counted(n_fitting, 'run')} now"
    values = first_values(plan, n_fitting)
    if values and len(values) <= MAX_SHOWN:
        first += f": {values}"
    later = (
        "the whole list again sends those that are missing" if plan.trains else "then the others"
    )
    return f"{first}\nWhen places are free, {later}"


def first_values(plan: Plan, n: int) -> str | None:
    """The first `n` points as one list, such as seed=0,1,2; None where several settings differ."""
    rows = [point.overrides for point in plan.points]
    if len({len(row) for row in rows}) > 1:
        return None
    differing = [words for words in zip(*rows, strict=True) if len(set(words)) > 1]
    if len(differing) != 1:
        return None
    key = differing[0][0].partition("=")[0]
    values = [word.partition("=")[2] for word in differing[0][:n]]
    return f"{key}={','.join(values)}"


@dataclass(frozen=True)
class OverFiles:
    """Which files a command runs for.

    Args:
        patterns: as the shell's, ** for any depth; relative to the current directory.
        per_task: files of one task of the array.
    """

    patterns: list[str]
    per_task: int = 1


def plan_over_files(
    project: Project, overrides: list[str], command: list[str] | None, over_files: OverFiles
) -> Plan | None:
    """The plan of an array over the files that the command has not run for yet.

    Returns:
        None when no file is left.
    """
    overrides, after = split_after(overrides)
    check_words(overrides, command, over_files)
    assert command is not None  # which was just looked at
    points = points_of(project, overrides, command)
    if len(points) > 1:
        raise LabError(
            "--each takes one value of each setting. Call it once for each of the others."
        )
    files = find_files(over_files.patterns)
    waiting = files_to_submit(run_roots(project), command, files)
    batches = [
        waiting[start : start + over_files.per_task]
        for start in range(0, len(waiting), over_files.per_task)
    ]
    if not batches:
        return None
    plan = plan_of(project, points * len(batches), command)
    if plan.request.n_tasks > 1:
        raise LabError(
            "--each runs one process in each task. Leave out job.nodes and job.tasks_per_node; "
            "job.throttle says how many tasks may run at once."
        )
    plan = with_after(plan, after)
    return replace(plan, inputs=[Inputs(command, batch) for batch in batches])


def check_words(overrides: list[str], command: list[str] | None, over_files: OverFiles) -> None:
    """Looks at what was typed."""
    example = "lab submit --each 'raw/*.wav' job.gpus=0 -- python convert.py {}"
    if command is None:
        raise LabError(f"--each needs a command after --. For example: {example}")
    if not any(PLACE in word for word in command):
        raise LabError(
            f"the command has no {PLACE}, where the path of a file goes. For example: {example}"
        )
    if over_files.per_task < 1:
        raise LabError(f"--per-task is {over_files.per_task}, expected at least 1")
    files = [word for word in overrides if "=" not in word]
    if files:
        raise LabError(
            f"{files[0]!r} is not a setting. The shell has replaced the pattern of --each by the "
            f"names of the files. Put it in quotes: {example}"
        )


def find_files(patterns: list[str]) -> list[InputFile]:
    """The files that match, each once, sorted by their absolute paths."""
    paths: set[str] = set()
    for pattern in patterns:
        # A name may hold the signs of a pattern.
        matches = [pattern] if os.path.isfile(pattern) else glob.glob(pattern, recursive=True)
        files = {os.path.abspath(path) for path in matches if os.path.isfile(path)}
        if not files:
            raise LabError(
                f"--each {pattern!r} matches no file in {Path.cwd()}. To look: ls {pattern}"
            )
        paths |= files
    return [InputFile.of(path) for path in sorted(paths)]


def files_to_submit(
    roots: Sequence[Path], command: list[str], files: list[InputFile]
) -> list[InputFile]:
    """The files that the command has not run for, and that no job has yet; says how many have.

    A file that was changed since counts as another one.
    """
    progress = progress_of(roots, command, job_state_of())
    waiting = [file for file in files if file not in progress.done | progress.pending]
    n_done = len(progress.done & set(files))
    n_pending = len(progress.pending & set(files) - progress.done)
    if n_done or n_pending:
        rest = f"submitting the other {len(waiting)}" if waiting else "nothing to submit"
        print(
            f"lab: {n_done} of {counted(len(files), 'file')} done, "
            f"{n_pending} queued or running; {rest}",
            file=sys.stderr,
        )
    return waiting
