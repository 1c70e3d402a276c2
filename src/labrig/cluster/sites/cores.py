"""How many cores belong to a GPU, and why a job asks for what it asks: the profile says it, or the scheduler."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import Failed
from ...project import say_once
from ..schedulers import scheduler_of
from ..sections import JobSettings
from .site import Site


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
