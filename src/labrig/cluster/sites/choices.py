"""What the rules of a site choose: the queue of a job, the cores of a GPU, and short jobs in place of a long one.

Where the site can start a job again, the job has the time limit of a chunk and asks for the next
one itself. Elsewhere all chunks are sent at once as a chain: each waits for the end of the one
before, and ends at once when the run is over.
"""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from pathlib import Path

from ... import env
from ...errors import Failed, LabError
from ...machine.text_formats import counted, format_hms
from ...project import say_once
from ..schedulers import scheduler_of
from ..schedulers.job import Chunks
from ..schedulers.site_draft import parse_seconds
from ..sections import NO_LIMIT, JobSettings, Queue, Resource
from .site import Site

CHAIN = "chain"  # in a run's directory: the job ids of its chunks, for the job script
FOLDER = "chunks"  # in the directory of the first run: the scripts of the later chunks


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


@dataclass(frozen=True)
class Cores:
    """Cores of each GPU, and who says so, in words."""

    per_gpu: int
    said_by: str


def cores_of_profile(site: Site) -> Cores | None:
    """What the site's profile says; None where it does not."""
    per_gpu = site["job"]["cpus_per_gpu"]
    return Cores(per_gpu, f"cpus_per_gpu in {site.path}") if per_gpu else None


def cores_of_partition(site: Site, job: JobSettings) -> Cores | None:
    """What the scheduler says of the nodes, where neither the user nor the profile does.

    None for a job without GPUs, and, with a line that says so, where the scheduler does not say either.
    """
    n_gpus = site["job"]["gpus"] if job.gpus is None else job.gpus
    needless = job.cpus_per_task or site["job"]["cpus_per_gpu"] or site["job"]["cpus_per_task"] > 1
    if needless or site.scheduler == "local" or not (n_gpus or job.total_gpus):
        return None
    try:
        gpu_type = None if job.gpu_type is None else str(job.gpu_type)
        known = scheduler_of(site.scheduler).cpus_per_gpu(str(job.queue or ""), gpu_type)
    except Failed:
        known = None
    if known is None:
        say_once(
            f"each process gets one core, as neither {site.path} (job.cpus_per_gpu)\n"
            f"nor {site.scheduler} says how many belong to a GPU. To ask for more:"
            " job.cpus_per_task=8"
        )
        return None
    return Cores(*known)


def words_of_cores(site: Site, job: JobSettings, cores: Cores | None, n_gpus: int) -> str:
    """Why each process has so many cores."""
    if job.cpus_per_task is not None:
        return "job.cpus_per_task"
    if n_gpus and cores:
        return f"{cores.per_gpu} for each GPU, {cores.said_by}"
    return f"job.cpus_per_task in {site.path}, or its default"


def words_of_memory(site: Site, job: JobSettings, n_gpus: int) -> str:
    """Where the memory of a node comes from."""
    if job.mem is not None:
        return f"{job.mem} for each node, job.mem"
    per_gpu = site["job"]["mem_per_gpu"]
    if n_gpus and per_gpu:
        return f"{per_gpu} for each GPU, mem_per_gpu in {site.path}"
    return "not asked for, so the scheduler's default"


def count_chunks(site: Site, job: JobSettings) -> Chunks:
    """The chunks of a job section; one without job.chunk."""
    total_s = parse_seconds(site["job"]["time"] if job.time is None else job.time)
    if job.chunk is None:
        return Chunks(total_s)
    chunk_s = parse_seconds(job.chunk, "job.chunk")
    if not 0 < chunk_s < total_s:
        raise LabError(
            f"job.chunk={job.chunk} is not shorter than job.time={format_hms(total_s)}, which"
            " is the time of all chunks. For example: job.time=20h job.chunk=3h"
        )
    number = math.ceil(total_s / chunk_s)
    method = site["requeue"]["method"]
    if scheduler_of(site.scheduler).chain and method in ("none", "resubmit"):
        return Chunks(total_s, number, are_chained=True)
    if method == "none":
        raise LabError(
            f"job.chunk={job.chunk}, but {site.name} ({site.scheduler}) cannot continue a job"
            " by another one. Leave out job.chunk, and later type: lab resume RUN"
        )
    return Chunks(total_s, number)


def write_chunk_script(script: Path, n: int) -> Path:
    """Writes chunks/<n>.sh, which has the directives of `script` and runs it as chunk `n`."""
    lines = script.read_text(encoding="utf-8").splitlines()
    head = lines[: next(i for i, line in enumerate(lines) if not line.startswith("#"))]
    chunk = script.parent / FOLDER / f"{n}.sh"
    chunk.parent.mkdir(exist_ok=True)
    body = ["", f"export {env.CHUNK}={n}", f"exec bash {shlex.quote(str(script))}", ""]
    chunk.write_text("\n".join([*head, *body]), encoding="utf-8")
    return chunk
