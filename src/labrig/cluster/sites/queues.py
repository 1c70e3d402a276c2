"""Chooses the queue of a job, from those of its site, or refuses the job."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import LabError
from ...machine.counted import counted
from ...machine.text_formats import format_hms
from ..schedulers import scheduler_of
from ..sections import NO_LIMIT, Queue, Resource
from .site import Site


@dataclass(frozen=True)
class Demand:
    """What a queue must allow.

    Args:
        time_s: of one job.
        time_is_typed: False: it is the site's default, which may become shorter.
        gpus: of all nodes.
        n_jobs: that are queued at once.
        is_shell: for `lab shell`.
    """

    time_s: int
    time_is_typed: bool
    nodes: int
    gpus: int
    n_jobs: int = 1
    is_shell: bool = False


@dataclass(frozen=True)
class JobPlace:
    """Where a job waits.

    Args:
        queue: its queue; one without a name is the site's default.
        time_s: time limit of the job.
    """

    queue: Queue
    time_s: int


def choose_place(site: Site, requested: str, resource: Resource, demand: Demand) -> JobPlace:
    """The requested queue, or for "" the first that has the resource and allows the demand.

    A shell tries the queues for shells first. A job that does not say how long it takes gets the
    limit of a queue that is for shells, or that is chosen by its name.
    """
    candidates = candidate_queues(site, requested, resource, demand.is_shell)
    if requested and not candidates:
        # the profile has no limits for this queue; the scheduler will check its own
        option = "".join(scheduler_of(site.scheduler).optional.get("queue", []))
        return JobPlace(Queue(name=requested, option=option), demand.time_s)
    broken_limits = []
    for queue in candidates:
        time_s = demand.time_s
        if queue.use != "jobs" and not demand.time_is_typed:
            time_s = int(min(time_s, limit_s(queue)))
        limit = broken_limit(queue, demand, time_s)
        if limit is None:
            return JobPlace(queue, time_s)
        broken_limits.append(limit)
    if not broken_limits:
        return JobPlace(Queue(), demand.time_s)
    jobs = f", {demand.n_jobs} jobs," if demand.n_jobs > 1 else ""
    raise LabError(
        f"no queue of {site.name} allows {format_hms(demand.time_s)}"
        f" on {counted(demand.gpus, 'GPU')}{jobs}:"
        f" {'; '.join(broken_limits)} (queues in {site.path}).\n"
        f"Ask for less{chunks_advice(candidates, demand)}."
    )


def chunks_advice(candidates: list[Queue], demand: Demand) -> str:
    """That chunks help, when it is a time limit that is in the way."""
    longest_s = max(queue.max_h * 3600 for queue in candidates)
    if demand.time_s <= longest_s or candidates[0].use != "jobs":
        return ""
    return ", or for jobs that resume each other: job.chunk=3h"


def candidate_queues(site: Site, requested: str, resource: Resource, is_shell: bool) -> list[Queue]:
    """The queues to try, in order."""
    if requested:
        return [queue for queue in site.queues if queue.name == requested]
    uses = ("shells", "jobs") if is_shell else ("jobs",)
    has_it = [
        queue for queue in site.queues if queue.name in resource.queues or not resource.queues
    ]
    return [queue for use in uses for queue in has_it if queue.use == use]


def limit_s(queue: Queue) -> float:
    """The time limit of a queue in whole minutes, as seconds; infinite where it has none."""
    if queue.max_h == NO_LIMIT:
        return NO_LIMIT
    return queue.max_h * 3600 // 60 * 60


def broken_limit(queue: Queue, demand: Demand, time_s: float) -> str | None:
    """The limit of a queue that a job of `time_s` breaks, in words; None when there is none."""
    if time_s > queue.max_h * 3600:
        return f"{queue.name} ends after {format_limit(queue.max_h)}"
    if demand.gpus > queue.max_gpus:
        return f"{queue.name} gives at most {counted(int(queue.max_gpus), 'GPU')}"
    if demand.nodes > queue.max_nodes:
        return f"{queue.name} gives at most {counted(int(queue.max_nodes), 'node')}"
    if demand.n_jobs > queue.max_submit:
        return f"{queue.name} allows at most {counted(int(queue.max_submit), 'job')}"
    return None


def format_limit(hours: float) -> str:
    return f"{hours:g} h" if hours >= 1 else f"{hours * 60:.0f} min"


def place_options(site: Site, place: JobPlace, reservation: str | int | None) -> list[str]:
    """The options that choose the queue, or the reservation where that takes its place."""
    if reservation and (site["reservation"] or scheduler_of(site.scheduler).reservation_is_queue):
        return []
    return [place.queue.option.format(queue=place.queue.name)] if place.queue.option else []
