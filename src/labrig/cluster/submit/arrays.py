"""Divides the runs of a submission into job arrays that the scheduler takes, before anything is recorded."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...errors import Failed, LabError
from ...machine.counted import counted
from ..schedulers import scheduler_of
from ..schedulers.request import Limit, Limits, lowest
from ..sections import NO_LIMIT
from .after import options_of_after
from .plan import Plan

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
