# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What a job asks for: nodes, processes, GPUs, cores, memory, time, queue, account."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ..errors import LabError
from ..machine.gpu import gpus
from .dialect import load_dialect
from .job_size import format_hms, parse_megabytes, parse_seconds
from .site import NO_LIMIT, Site, account_of

LEAST = {
    "nodes": 1,
    "gpus": 0,
    "tasks_per_node": 1,
    "cpus_per_task": 1,
}  # job keys that are whole numbers
ASKED = (
    "mem",
    "qos",
    "constraint",
    "exclude",
    "mail",
    "after",
)  # job keys that some schedulers have no words for


@dataclass(frozen=True)
class Request:
    """A job as the scheduler will see it; `options` are its directives in the scheduler's own words."""

    name: str
    nodes: int
    gpus: int
    tasks_per_node: int
    cpus_per_task: int
    time_s: int
    lead_s: int
    options: list[str] = field(default_factory=list)
    submit_options: list[str] = field(default_factory=list)
    memory_MB: int | None = None


def build_request(site: Site, job: dict[str, Any], name: str, n_jobs: int = 1) -> Request:
    """The request for a job section of the configuration, or for each of an array of `n_jobs`.

    Raises:
        LabError: the site's rules forbid it; the message names the rule and what would be allowed.
    """
    job = _with_defaults(site, {key: value for key, value in job.items() if value is not None})
    time_s = parse_seconds(job["time"])
    _check_size(site, job, time_s)
    resource = _resource(site, job["nodes"], job["gpus"])
    account, at_submit = _account(site, job.get("account"))
    lead_s = min(site["requeue"]["lead_s"], time_s // 4)
    values = job | {"name": name, "time": format_hms(time_s), "lead_s": lead_s}
    values["n_tasks"] = job["nodes"] * job["tasks_per_node"]

    words = load_dialect(site["scheduler"])
    options = [*resource["options"], *site["options"], *account]
    options += _queue(
        site, job.get("queue") or resource["queue"], time_s, job["nodes"] * job["gpus"], n_jobs
    )
    options += words["options"]
    for key in ASKED:
        if key in job and key not in words["asked"]:
            said = f"job.{key} has no counterpart in {site['scheduler']} ({site.name})."
            raise LabError(f"{said} Use job.extra with its own words.")
        options += words["asked"][key] if key in job else []
    options = [option.format(**values) for option in options] + [
        str(option) for option in job["extra"]
    ]
    memory_MB = parse_megabytes(job["mem"]) if "mem" in job else None
    return Request(
        name, *(job[key] for key in LEAST), time_s, lead_s, options, at_submit, memory_MB
    )


def _with_defaults(site: Site, given: dict[str, Any]) -> dict[str, Any]:
    """The job keys that were set, and the site's for the rest; whole numbers are checked."""
    usual = site["job"]
    known = len(gpus()) if site["scheduler"] == "local" else site["gpu"]["per_node"] < NO_LIMIT
    n_gpus = min(1, int(known)) if usual["gpus"] is None else usual["gpus"]
    job = {"nodes": 1, "gpus": n_gpus, "time": usual["time"], "extra": []} | given
    job.setdefault("tasks_per_node", job["gpus"] or 1)
    job.setdefault("cpus_per_task", usual["cpus_per_task"])
    for key, least in LEAST.items():
        if type(job[key]) is not int or job[key] < least:
            raise LabError(f"job.{key}={job[key]}, but it is a whole number, at least {least}.")
    if job["gpus"] and usual["cpus_per_gpu"] and "cpus_per_task" not in given:
        job["cpus_per_task"] = max(1, usual["cpus_per_gpu"] * job["gpus"] // job["tasks_per_node"])
    if job["gpus"] and usual["mem_per_gpu"] and "mem" not in given:
        job["mem"] = f"{parse_megabytes(usual['mem_per_gpu']) * job['gpus']}M"
    return job


def _check_size(site: Site, job: dict[str, Any], time_s: int) -> None:
    n_gpus, tasks, per_node = job["gpus"], job["tasks_per_node"], site["gpu"]["per_node"]
    if time_s < 60:
        raise LabError(f"job.time={job['time']}, but it is at least 60 s.")
    if n_gpus > per_node:
        raise LabError(
            f"job.gpus={n_gpus}, but a node of {site.name} has {per_node} GPUs (gpu.per_node in {site.path}).\n"
            f"Ask for several nodes: job.gpus={per_node} job.nodes={-(-n_gpus // per_node)}"
        )
    if n_gpus and tasks > n_gpus:
        raise LabError(
            f"job.tasks_per_node={tasks} on job.gpus={n_gpus}: two tasks cannot share a GPU. Leave it out."
        )
    if site["scheduler"] == "local" and job["nodes"] > 1:
        raise LabError(
            f"job.nodes={job['nodes']}, but {site.name} is one machine without a scheduler. Leave it out."
        )


def _resource(site: Site, nodes: int, n_gpus: int) -> dict[str, Any]:
    """The first entry of `resources` that gives so many GPUs on so many nodes."""
    if not site["resources"]:
        return {"options": [], "queue": ""}
    for resource in site["resources"]:
        if (
            resource["gpus"] in (n_gpus, "any" if n_gpus else n_gpus)
            and nodes <= resource["max_nodes"]
        ):
            return resource
    sizes = [
        f"{entry['gpus']} on at most {entry['max_nodes']} nodes" for entry in site["resources"]
    ]
    raise LabError(
        f"job.gpus={n_gpus} job.nodes={nodes}: {site.name} has no such resource type.\n"
        f"GPUs per node there: {', '.join(sizes).replace(' on at most inf nodes', '')} (resources in {site.path})"
    )


def _account(site: Site, asked: str | None) -> tuple[list[str], list[str]]:
    """Directives and command-line options that name the account; some sites take it only on the command line."""
    rule, account = site["account"], asked or account_of(site)
    option = rule["option"] or "".join(load_dialect(site["scheduler"])["asked"].get("account", []))
    if account is None and rule["required"]:
        raise LabError(
            f"{site.name} needs an account: {rule['ask']}.\n"
            f"Type job.account=NAME, or write it once: {site.name}: NAME  in ~/.config/lab/accounts.yaml"
        )
    if account is None or not option:
        return [], []
    name = account.removesuffix(option.rpartition("{account}")[2])
    if not re.fullmatch(r"[\w.+-]+", name):
        raise LabError(f"job.account={account} is no account name; {site.name} asks: {rule['ask']}")
    option = option.format(account=name)
    return ([], option.split()) if rule["at_submit"] else ([option], [])


def _queue(site: Site, asked: str, time_s: int, n_gpus: int, n_jobs: int) -> list[str]:
    """The option for the queue that was asked for, or for the first of the site's whose limits allow the job."""
    candidates = [queue for queue in site["queues"] if asked in ("", queue["name"])]
    if asked and not candidates:  # its rules are not in the profile; the scheduler will judge
        return [
            option.format(queue=asked)
            for option in load_dialect(site["scheduler"])["asked"].get("queue", [])
        ]
    broken = []
    for queue in candidates:
        if time_s > queue["max_h"] * 3600:
            broken.append(f"{queue['name']} ends after {queue['max_h']} h")
        elif n_gpus > queue["max_gpus"]:
            broken.append(f"{queue['name']} gives at most {queue['max_gpus']} GPUs")
        elif n_jobs > queue["max_submit"]:
            broken.append(f"{queue['name']} takes at most {queue['max_submit']} jobs")
        else:
            return [queue["option"].format(queue=queue["name"])] if queue["option"] else []
    if not broken:
        return []
    times = f", {n_jobs} times" if n_jobs > 1 else ""
    raise LabError(
        f"no queue of {site.name} takes {format_hms(time_s)} on {n_gpus} GPUs{times}: {'; '.join(broken)} (queues in {site.path}).\n"
        "Ask for less; a run continues by itself after its time limit where the site can requeue."
    )
