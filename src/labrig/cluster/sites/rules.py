"""The rules of a site: turns the job section of a configuration into a Request, or refuses it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...errors import LabError
from ...machine.gpu import gpus
from ...machine.text_formats import counted, format_hms
from ..schedulers import scheduler_of
from ..schedulers.job import JobRequest
from ..schedulers.site_draft import parse_megabytes, parse_seconds
from ..sections import NO_LIMIT, JobSettings, Queue, Resource
from .choices import (
    Cores,
    Demand,
    JobPlace,
    choose_place,
    cores_of_profile,
    count_chunks,
    place_options,
    words_of_cores,
    words_of_memory,
)
from .site import Site, account_of

MIN_TIME_S = 60
# job keys that not every scheduler has an option for
OPTIONAL = ("mem", "qos", "constraint", "exclude", "mail", "after", "reservation")


@dataclass(frozen=True)
class JobSize:
    """What a job asks of its nodes: as it was set, else as the site has it.

    Args:
        gpus: per node.
        tasks_per_node: processes per node.
        cpus_per_task: cores of each process.
        time_s: time limit of one job.
        mem: per node, such as 64G; None: the scheduler's default.
    """

    nodes: int
    gpus: int
    tasks_per_node: int
    cpus_per_task: int
    time_s: int
    mem: str | int | None


def build_request(
    site: Site,
    job: JobSettings,
    name: str,
    n_jobs: int = 1,
    is_shell: bool = False,
    cores: Cores | None = None,
) -> JobRequest:
    """The request for a job section of the configuration, or for each of an array of `n_jobs`.

    Args:
        is_shell: for `lab shell`, which some sites have queues for.
        cores: of each GPU, where the profile does not say; see `cores_of_partition`.
    """
    split = with_split_gpus(site, job)
    chunks = count_chunks(site, split)
    if chunks.are_chained and n_jobs > 1 and not scheduler_of(site.scheduler).whole_array:
        raise LabError(
            f"job.chunk with {n_jobs} runs: {site.name} ({site.scheduler}) has no chain of job arrays."
            " Submit each run alone, such as seed=0"
        )
    cores = cores_of_profile(site) or cores
    size = size_of_job(site, split, cores)
    _check_size(site, split, size)
    resource = with_gpu_type(site, split, size.gpus, _resource(site, size, split.gpu_type))
    demand = Demand(
        time_s=size.time_s,
        time_is_typed=job.time is not None or job.chunk is not None,
        nodes=size.nodes,
        gpus=size.nodes * size.gpus,
        n_jobs=n_jobs * (chunks.number if chunks.are_chained else 1),
        is_shell=is_shell,
    )
    place = choose_place(site, str(job.queue or ""), resource, demand)
    lead_s = min(site["requeue"]["lead_s"], place.time_s // 4)
    account_options, submit_options = _account(site, str(job.account or ""), place.queue)
    asked = replace(split, mem=size.mem)
    options = [
        *resource.options,
        *site["options"],
        *account_options,
        *place_options(site, place, job.reservation),
        *scheduler_of(site.scheduler).options,
        *_optional(site, asked),
    ]
    values = option_values(asked, size, place, name, lead_s)
    return JobRequest(
        name=name,
        nodes=size.nodes,
        gpus=size.gpus,
        tasks_per_node=size.tasks_per_node,
        cpus_per_task=size.cpus_per_task,
        time_s=place.time_s,
        lead_s=lead_s,
        options=[*fill_options(options, values, site), *map(str, job.extra or [])],
        submit_options=submit_options,
        memory_MB=None if size.mem is None else parse_megabytes(size.mem),
        queue=place.queue.name,
        chunks=chunks,
        why=(
            f"cores: {size.cpus_per_task} for each process; "
            + words_of_cores(site, split, cores, size.gpus),
            f"memory: {words_of_memory(site, split, size.gpus)}",
        ),
        typed=tuple(key for key in ("cpus_per_task", "mem") if getattr(job, key) is not None),
    )


def size_of_job(site: Site, job: JobSettings, cores: Cores | None = None) -> JobSize:
    """What was set, and the site's defaults for the rest."""
    defaults = site["job"]
    n_gpus = defaults["gpus"] if job.gpus is None else job.gpus
    if n_gpus is None:
        n_gpus = int(_has_gpus(site))
    tasks_per_node = job.tasks_per_node or n_gpus or 1
    cpus_per_task = job.cpus_per_task
    if cpus_per_task is None and n_gpus and cores:
        cpus_per_task = max(1, cores.per_gpu * n_gpus // tasks_per_node)
    mem = job.mem
    if mem is None and n_gpus and defaults["mem_per_gpu"]:
        mem = f"{parse_megabytes(defaults['mem_per_gpu']) * n_gpus}M"
    return JobSize(
        nodes=job.nodes,
        gpus=n_gpus,
        tasks_per_node=tasks_per_node,
        cpus_per_task=cpus_per_task or defaults["cpus_per_task"],
        time_s=parse_seconds(_time_of_one(site, job)),
        mem=mem,
    )


def _time_of_one(site: Site, job: JobSettings) -> str | int:
    """The time limit of one job, as it was written."""
    limits = (job.chunk, job.time, site["job"]["time"])
    return next(limit for limit in limits if limit is not None)


def option_values(
    job: JobSettings, size: JobSize, place: JobPlace, name: str, lead_s: int
) -> dict[str, Any]:
    """What the {names} in options of a job stand for: FILLED_IN, and the job keys that were set."""
    of_job = {key: value for key, value in vars(job).items() if value is not None}
    return of_job | {
        "name": name,
        "nodes": size.nodes,
        "gpus": size.gpus,
        "tasks_per_node": size.tasks_per_node,
        "cpus_per_task": size.cpus_per_task,
        "n_tasks": size.nodes * size.tasks_per_node,
        "n_cores": size.nodes * size.tasks_per_node * size.cpus_per_task,
        "cores_per_node": size.tasks_per_node * size.cpus_per_task,
        "time": format_hms(place.time_s),
        "time_min": math.ceil(place.time_s / 60),
        "lead_s": lead_s,
        "queue": place.queue.name,
    }


def _has_gpus(site: Site) -> bool:
    """Whether a node of the site is known to have GPUs."""
    if site.scheduler == "local":
        return len(gpus()) > 0
    return 0 < site.gpus_per_node < NO_LIMIT


def fill_options(options: Sequence[str], values: dict[str, Any], site: Site) -> list[str]:
    """Options with what their {names} stand for."""
    filled = []
    for option in options:
        try:
            filled.append(option.format(**values))
        except KeyError as error:
            raise LabError(
                f"an option of {site.name}, {option!r}, needs job.{error.args[0]}, which is not set. "
                f"Set it, or correct {site.path}"
            ) from error
        except (ValueError, AttributeError, IndexError, TypeError) as error:
            raise LabError(
                f"an option of {site.name}, {option!r}, cannot be filled in: {error}.\n"
                f"Write names in braces only, such as {{gpus}}, in {site.path}"
            ) from error
    return filled


def _check_size(site: Site, job: JobSettings, size: JobSize) -> None:
    n_gpus = size.gpus
    if size.time_s < MIN_TIME_S:
        key = "time" if job.chunk is None else "chunk"
        time = _time_of_one(site, job)
        raise LabError(f"job.{key}={time}, but it must be at least {MIN_TIME_S} s.")
    if n_gpus and not site.gpus_per_node:
        raise LabError(f"job.gpus={n_gpus}, but {site.name} has no GPUs. Leave out job.gpus.")
    if n_gpus > site.gpus_per_node:
        per_node = int(site.gpus_per_node)
        raise LabError(
            f"job.gpus={n_gpus}, but a node of {site.name} has {counted(per_node, 'GPU')}"
            f" (gpu.per_node in {site.path}).\n"
            f"Ask for several nodes: job.gpus={per_node} job.nodes={math.ceil(n_gpus / per_node)}"
        )
    if n_gpus and size.tasks_per_node > n_gpus:
        raise LabError(
            f"job.tasks_per_node={size.tasks_per_node} and job.gpus={n_gpus}:"
            " two tasks cannot share a GPU. Leave out job.tasks_per_node."
        )
    if site.scheduler == "local" and size.nodes > 1:
        raise LabError(
            f"job.nodes={size.nodes}, but {site.name} is one machine without a scheduler."
            " Leave out job.nodes."
        )


def _resource(site: Site, size: JobSize, gpu_type: str | int | None) -> Resource:
    """The resource type that gives so many GPUs, of this type, on so many nodes."""
    resource = find_resource(site, size.nodes, size.gpus, gpu_type)
    if resource:
        return resource
    raise LabError(
        f"job.gpus={size.gpus} job.nodes={size.nodes}: {site.name} has no such resource type.\n"
        f"GPUs per node there: {format_resources(site)} (resources in {site.path})"
    )


def _account(site: Site, requested: str, queue: Queue) -> tuple[list[str], list[str]]:
    """Directives and command-line options that name the account; a site takes one or the other.

    Args:
        requested: "" for the one in the user's accounts.yaml.
    """
    rule = site["account"]
    if not queue.account:
        return [], []
    account = requested or account_of(site)
    if account is None:
        if rule["required"]:
            raise LabError(
                f"{site.name} needs an account: {rule['ask']}.\n"
                f"Add job.account=NAME, or write it once, as  {site.name}: NAME,"
                " in ~/.config/lab/accounts.yaml"
            )
        return [], []
    option = rule["option"] or "".join(scheduler_of(site.scheduler).optional.get("account", []))
    if not option:
        return [], []
    # an account that was typed with its suffix, such as abc@h100, must not get it twice
    suffix = option.rpartition("{account}")[2]
    name = account.removesuffix(suffix)
    if not re.fullmatch(r"[\w.+-]+", name):
        raise LabError(
            f"job.account={account} is not an account name; {site.name} expects: {rule['ask']}"
        )
    option = option.format(account=name)
    if rule["at_submit"]:
        return [], option.split()
    return [option], []


def _optional(site: Site, job: JobSettings) -> list[str]:
    """Options for the job keys that were set and that only some schedulers know."""
    known = scheduler_of(site.scheduler).optional
    options: list[str] = []
    for key in OPTIONAL:
        if getattr(job, key) is None:
            continue
        if key not in known:
            raise LabError(
                f"site {site.name} ({site.scheduler}) has no option for job.{key}."
                " Pass the scheduler's own option: job.extra=[…]"
            )
        options += (key == "reservation" and site["reservation"]) or known[key]
    return options


# `job.total_gpus`: splits the GPUs of a job into nodes, as a site has them.


def with_split_gpus(site: Site, job: JobSettings) -> JobSettings:
    """A job section with nodes and gpus in place of total_gpus.

    Takes the fewest nodes that share the GPUs evenly and that the site has.
    """
    total = job.total_gpus
    if total is None:
        return job
    if job.gpus is not None or job.nodes != 1:
        raise LabError(
            f"job.total_gpus={total} and job.nodes or job.gpus: say it one way only."
            " job.gpus is the number on each node."
        )
    nodes = fewest_nodes(site, total, job.gpu_type)
    return replace(job, nodes=nodes, gpus=total // nodes, total_gpus=None)


def fewest_nodes(site: Site, total: int, gpu_type: str | int | None = None) -> int:
    """The fewest nodes of a site that have `total` GPUs, the same number each."""
    if site.scheduler == "local":
        return 1
    if site.gpus_per_node == NO_LIMIT:
        raise LabError(
            f"job.total_gpus={total}, but {site.name} does not say how many GPUs a node has"
            f" (gpu.per_node in {site.path}).\n"
            "Say it yourself with job.nodes and job.gpus, or ask the cluster: lab site init"
        )
    least = math.ceil(total / site.gpus_per_node) if site.gpus_per_node else total + 1
    for nodes in range(least, total + 1):
        if total % nodes == 0 and find_resource(site, nodes, total // nodes, gpu_type):
            return nodes
    raise LabError(
        f"job.total_gpus={total}: {site.name} has no nodes that share them evenly."
        f" GPUs per node there: {format_resources(site)}"
    )


def find_resource(
    site: Site, nodes: int, n_gpus: int, gpu_type: str | int | None = None
) -> Resource | None:
    """The first entry of `resources` that gives so many GPUs on so many nodes.

    One of the wanted type goes first; those of another type do not count. A site without entries takes
    any number; None where it has no such resource type.
    """
    if not site.resources:
        return Resource()
    of_type = [each for each in site.resources if same_type(each.gpu_type, gpu_type)]
    for resource in [*of_type, *(each for each in site.resources if not each.gpu_type)]:
        has_gpus = resource.gpus == n_gpus or (resource.gpus == "any" and n_gpus > 0)
        if has_gpus and nodes <= resource.max_nodes:
            return resource
    return None


def format_resources(site: Site) -> str:
    """GPUs per node of each resource type, and on how many nodes at most."""
    sizes = []
    for resource in site.resources:
        size = str(resource.gpus)
        if resource.gpu_type:
            size += f" (job.gpu_type={resource.gpu_type})"
        if resource.max_nodes != NO_LIMIT:
            size += f" on at most {counted(int(resource.max_nodes), 'node')}"
        sizes.append(size)
    return ", ".join(sizes)


# `job.gpu_type`: asks for one kind of GPU, in the words of the scheduler or of the site.


def with_gpu_type(site: Site, job: JobSettings, n_gpus: int, resource: Resource) -> Resource:
    """A resource type whose options ask for GPUs of job.gpu_type.

    It stays as it is for one that has this type, or where all GPUs of the site are of it.
    """
    wanted = job.gpu_type
    if wanted is None:
        return resource
    if not n_gpus:
        raise LabError(f"job.gpu_type={wanted} and no GPUs: job.gpus=0. Leave out job.gpu_type.")
    if not re.fullmatch(r"[\w.+-]+", str(wanted)):
        raise LabError(
            f"job.gpu_type={wanted} is no type of GPU. Write one name, such as a100; how many: job.gpus"
        )
    is_told = any("{gpu_type}" in option for option in [*resource.options, *site["options"]])
    is_only_one = same_type(wanted, site["gpu"]["name"])
    if resource.gpu_type or is_told or is_only_one:
        return resource
    scheduler = scheduler_of(site.scheduler)
    options = scheduler.options_with_gpu_type(resource.options)
    if options is not None:
        return replace(resource, options=options)
    raise LabError(
        f"job.gpu_type={wanted}: {site.name} ({site.scheduler}) has no option for a type of GPU;"
        f" known there: {', '.join(known_types(site)) or 'none'}.\n"
        f"Leave out job.gpu_type. {advice(scheduler.gpu_type_example.format(gpu_type=wanted))}"
    )


def advice(example: str) -> str:
    """What to type in its place; "" for a machine without a scheduler."""
    if not example:
        return "Here, CUDA_VISIBLE_DEVICES chooses GPUs."
    return f"If your centre has one, in its own words: 'job.extra=[\"{example}\"]'"


def known_types(site: Site) -> list[str]:
    """The types of GPU that a profile knows by name."""
    names = [site["gpu"]["name"], *(resource.gpu_type for resource in site.resources)]
    return [str(name) for name in dict.fromkeys(names) if name]


def same_type(a: str | int | None, b: str | int | None) -> bool:
    """Whether two names of a type of GPU mean the same."""
    return bool(a and b) and str(a).lower() == str(b).lower()
