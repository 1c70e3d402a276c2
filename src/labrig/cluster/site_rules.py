"""The rules of a site: turns the job section of a configuration into a Request, or refuses it."""

from __future__ import annotations

import math
import re
from typing import Any

from ..errors import LabError
from ..machine.counted import counted
from ..machine.gpu import gpus
from .chunks import count_chunks
from .job_size import format_hms, parse_megabytes, parse_seconds
from .request import Request
from .schedulers import scheduler_of
from .site import NO_LIMIT, Queue, Resource, Site, account_of
from .site_queue import Demand, choose_place, place_options
from .total_gpus import find_resource, format_resources, with_split_gpus

MIN_TIME_S = 60
# job key -> the least it may be; these are whole numbers
LEAST = {"nodes": 1, "gpus": 0, "tasks_per_node": 1, "cpus_per_task": 1}
# job keys that not every scheduler has an option for
OPTIONAL = ("mem", "qos", "constraint", "exclude", "mail", "after", "reservation")


def build_request(
    site: Site, job: dict[str, Any], name: str, n_jobs: int = 1, is_shell: bool = False
) -> Request:
    """The request for a job section of the configuration, or for each of an array of `n_jobs`.

    Args:
        is_shell: for `lab shell`, which some sites have queues for.

    Raises:
        LabError: the site's rules forbid it; the message names the rule and what would be allowed.
    """
    settings = {key: value for key, value in job.items() if value is not None}
    job = _with_defaults(site, with_split_gpus(site, settings))
    chunks = count_chunks(site, job)
    time_s = parse_seconds(job.get("chunk", job["time"]))
    _check_size(site, job, time_s)
    resource = _resource(site, job["nodes"], job["gpus"])
    demand = Demand(
        time_s=time_s,
        time_is_typed="time" in settings or "chunk" in settings,
        nodes=job["nodes"],
        gpus=job["nodes"] * job["gpus"],
        n_jobs=n_jobs * (chunks.number if chunks.are_chained else 1),
        is_shell=is_shell,
    )
    place = choose_place(site, job.get("queue"), resource, demand)
    time_s = int(place.time_s)
    account_options, submit_options = _account(site, job.get("account"), place.queue)
    templates = [
        *resource.options,
        *site["options"],
        *account_options,
        *place_options(site, place, job.get("reservation")),
        *scheduler_of(site.scheduler).options,
        *_optional(site, job),
    ]
    lead_s = min(site["requeue"]["lead_s"], time_s // 4)
    values = job | {
        "name": name,
        "time": format_hms(time_s),
        "time_min": math.ceil(time_s / 60),
        "lead_s": lead_s,
        "n_tasks": job["nodes"] * job["tasks_per_node"],
        "queue": place.queue.name,
    }
    options = [template.format(**values) for template in templates]
    options += [str(option) for option in job["extra"]]
    return Request(
        name=name,
        nodes=job["nodes"],
        gpus=job["gpus"],
        tasks_per_node=job["tasks_per_node"],
        cpus_per_task=job["cpus_per_task"],
        time_s=time_s,
        lead_s=lead_s,
        options=options,
        submit_options=submit_options,
        memory_MB=parse_megabytes(job["mem"]) if "mem" in job else None,
        queue=place.queue.name,
        chunks=chunks,
    )


def _with_defaults(site: Site, settings: dict[str, Any]) -> dict[str, Any]:
    """The job keys that were set, and the site's defaults for the rest.

    Raises:
        LabError: a key that must be a whole number is none, or is too small.
    """
    defaults = site["job"]
    job = {"nodes": 1, "gpus": defaults["gpus"], "time": defaults["time"], "extra": []} | settings
    if job["gpus"] is None:
        job["gpus"] = int(_has_gpus(site))
    job.setdefault("tasks_per_node", job["gpus"] or 1)
    job.setdefault("cpus_per_task", defaults["cpus_per_task"])
    for key, least in LEAST.items():
        if type(job[key]) is not int or job[key] < least:
            raise LabError(
                f"job.{key}={job[key]}, but it must be a whole number and at least {least}."
            )
    if job["gpus"] and defaults["cpus_per_gpu"] and "cpus_per_task" not in settings:
        n_cores = defaults["cpus_per_gpu"] * job["gpus"]
        job["cpus_per_task"] = max(1, n_cores // job["tasks_per_node"])
    if job["gpus"] and defaults["mem_per_gpu"] and "mem" not in settings:
        job["mem"] = f"{parse_megabytes(defaults['mem_per_gpu']) * job['gpus']}M"
    return job


def _has_gpus(site: Site) -> bool:
    """Whether a node of the site is known to have GPUs."""
    if site.scheduler == "local":
        return len(gpus()) > 0
    return 0 < site.gpus_per_node < NO_LIMIT


def _check_size(site: Site, job: dict[str, Any], time_s: int) -> None:
    n_gpus = job["gpus"]
    if time_s < MIN_TIME_S:
        key = "chunk" if "chunk" in job else "time"
        raise LabError(f"job.{key}={job[key]}, but it must be at least {MIN_TIME_S} s.")
    if n_gpus and not site.gpus_per_node:
        raise LabError(f"job.gpus={n_gpus}, but {site.name} has no GPUs. Leave out job.gpus.")
    if n_gpus > site.gpus_per_node:
        per_node = int(site.gpus_per_node)
        raise LabError(
            f"job.gpus={n_gpus}, but a node of {site.name} has {counted(per_node, 'GPU')}"
            f" (gpu.per_node in {site.path}).\n"
            f"Ask for several nodes: job.gpus={per_node} job.nodes={math.ceil(n_gpus / per_node)}"
        )
    if n_gpus and job["tasks_per_node"] > n_gpus:
        raise LabError(
            f"job.tasks_per_node={job['tasks_per_node']} and job.gpus={n_gpus}:"
            " two tasks cannot share a GPU. Leave out job.tasks_per_node."
        )
    if site.scheduler == "local" and job["nodes"] > 1:
        raise LabError(
            f"job.nodes={job['nodes']}, but {site.name} is one machine without a scheduler."
            " Leave out job.nodes."
        )


def _resource(site: Site, nodes: int, n_gpus: int) -> Resource:
    """The resource type that gives so many GPUs on so many nodes.

    Raises:
        LabError: there is none.
    """
    resource = find_resource(site, nodes, n_gpus)
    if resource:
        return resource
    raise LabError(
        f"job.gpus={n_gpus} job.nodes={nodes}: {site.name} has no such resource type.\n"
        f"GPUs per node there: {format_resources(site)} (resources in {site.path})"
    )


def _account(site: Site, requested: str | None, queue: Queue) -> tuple[list[str], list[str]]:
    """Directives and command-line options that name the account; a site takes one or the other."""
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


def _optional(site: Site, job: dict[str, Any]) -> list[str]:
    """Options for the job keys that were set and that only some schedulers know."""
    known = scheduler_of(site.scheduler).optional
    options = []
    for key in OPTIONAL:
        if key not in job:
            continue
        if key not in known:
            raise LabError(
                f"site {site.name} ({site.scheduler}) has no option for job.{key}."
                " Pass the scheduler's own option: job.extra=[…]"
            )
        options += (key == "reservation" and site["reservation"]) or known[key]
    return options
