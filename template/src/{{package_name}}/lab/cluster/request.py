# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What one job asks for: the job.* settings completed from the site, and refused where the site's rules say no."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ..errors import LabError
from .site import Site, account_of, words_of

TIME = re.compile(r"(?:(\d+)-)?(\d+):(\d{1,2})(?::(\d{1,2}))?|(\d+(?:\.\d+)?)([smhd])")
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


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
    memory_MB: int = 0

    @property
    def n_tasks(self) -> int:
        return self.nodes * self.tasks_per_node

    @property
    def gpu_hours(self) -> float:
        """The most this job can use."""
        return self.nodes * self.gpus * self.time_s / 3600


def seconds(text: Any) -> int:
    """Seconds of "10:00:00", "1-12:00:00", "30:00" (hours:minutes), "90m", "10h" or a plain number of seconds."""
    if isinstance(text, int):
        return text
    found = TIME.fullmatch(str(text).strip())
    if not found:
        raise LabError(f"job.time={text} is no time. Write hours:minutes:seconds (10:00:00), 1-12:00:00, 90m or 10h")
    days, hours, minutes, rest, number, unit = found.groups()
    if unit:
        return round(float(number) * UNITS_S[unit])
    return ((int(days or 0) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(rest or 0)


def clock(time_s: float) -> str:
    """Seconds as hours:minutes:seconds."""
    minutes, rest = divmod(int(time_s), 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest:02d}"


def megabytes(text: Any) -> int:
    """MB (10**6 bytes, or what the scheduler takes for them) of "64G", "500M" or a plain number of MB."""
    found = re.fullmatch(r"(\d+)([MGT]?)B?", str(text).strip().upper())
    if not found:
        raise LabError(f"job.mem={text} is no amount of memory per node. Write 64G or 500M")
    return int(found[1]) * {"": 1, "M": 1, "G": 1000, "T": 1_000_000}[found[2]]


def complete(site: Site, job: dict[str, Any], name: str, n_jobs: int = 1) -> Request:
    """The request for a job section of the configuration, or for each of an array of `n_jobs`.

    Raises:
        LabError: the site's rules forbid it; the message names the rule and what would be allowed.
    """
    job = {key: value for key, value in job.items() if value is not None}
    gpus = int(job.get("gpus", site.default_gpus))
    nodes = int(job.get("nodes", 1))
    tasks = int(job.get("tasks_per_node", gpus or 1))
    time_s = seconds(job.get("time", site["job"]["time"]))
    _check_size(site, nodes, gpus, tasks, time_s)
    cpus = int(job.get("cpus_per_task") or _cpus_per_task(site, gpus, tasks))
    lead_s = min(int(site["requeue"]["lead_s"]), time_s // 4)
    values: dict[str, Any] = {"nodes": nodes, "gpus": gpus, "tasks": tasks, "n_tasks": nodes * tasks, "cpus": cpus}

    resource = _resource(site, nodes, gpus)
    options = [option.format(**values) for option in resource["options"]]
    options += site["options"]
    account, at_submit = _account(site, job.get("account"))
    options += account
    options += _queue(site, job.get("queue"), time_s, nodes * gpus, n_jobs, resource)
    values |= {"name": name, "time": clock(time_s), "lead_s": lead_s}
    options += [option.format(**values) for option in words_of(site["scheduler"])["options"]]
    options += _asked(site, job | {"mem": _memory(job, gpus, site)})
    options += [str(option) for option in job.get("extra", [])]
    memory_MB = megabytes(job.get("mem", 0))
    return Request(name, nodes, gpus, tasks, cpus, time_s, lead_s, options, at_submit, memory_MB)


def _check_size(site: Site, nodes: int, gpus: int, tasks: int, time_s: int) -> None:
    for key, value, least in (
        ("nodes", nodes, 1),
        ("gpus", gpus, 0),
        ("tasks_per_node", tasks, 1),
        ("time", time_s, 60),
    ):
        if value < least:
            raise LabError(f"job.{key}={value}, but it is at least {least}{' s' if key == 'time' else ''}.")
    per_node = (site["gpu"] or {}).get("per_node")
    if per_node is not None and gpus > per_node:
        raise LabError(
            f"job.gpus={gpus}, but a node of {site.name} has {per_node} GPUs (gpu.per_node in {site.path}).\n"
            f"Ask for several nodes: job.gpus={per_node} job.nodes={-(-gpus // per_node)}"
        )
    if gpus and tasks > gpus:
        raise LabError(
            f"job.tasks_per_node={tasks} on job.gpus={gpus}: two tasks cannot train on one GPU. Leave it out."
        )
    if site["scheduler"] == "local" and nodes > 1:
        raise LabError(f"job.nodes={nodes}, but {site.name} is one machine without a scheduler. Leave job.nodes out.")


def _cpus_per_task(site: Site, gpus: int, tasks: int) -> int:
    if gpus and site["job"]["cpus_per_gpu"]:
        return max(1, int(site["job"]["cpus_per_gpu"]) * gpus // tasks)
    return int(site["job"]["cpus_per_task"] or 1)


def _resource(site: Site, nodes: int, gpus: int) -> dict[str, Any]:
    """The first entry of `resources` that gives so many GPUs on so many nodes."""
    for resource in site["resources"]:
        fits = resource["gpus"] == gpus or (resource["gpus"] == "any" and gpus > 0)
        if fits and nodes <= (resource.get("max_nodes") or nodes):
            return resource
    if not site["resources"]:
        return {"options": []}
    sizes = ", ".join(
        f"{entry['gpus']}" + (f" (at most {entry['max_nodes']} nodes)" if entry.get("max_nodes") else "")
        for entry in site["resources"]
    )
    raise LabError(
        f"job.gpus={gpus} job.nodes={nodes}: {site.name} has no such resource type.\n"
        f"GPUs per node there: {sizes} (resources in {site.path})"
    )


def _account(site: Site, asked: str | None) -> tuple[list[str], list[str]]:
    """Directives and command-line options that name the account; some sites take it only on the command line."""
    account = asked or account_of(site)
    rule = site["account"]
    if rule is None or not rule.get("option"):
        words = words_of(site["scheduler"])["asked"].get("account", [])
        return [option.format(account=account) for option in words if account], []
    if account is None:
        if rule.get("required"):
            raise LabError(
                f"{site.name} needs an account: {rule.get('ask') or 'ask your group for its name'}.\n"
                f"Type job.account=NAME, or write it once: {site.name}: NAME  in ~/.config/lab/accounts.yaml"
            )
        return [], []
    suffix = rule["option"].rpartition("{account}")[2]
    if suffix and account.endswith(suffix):
        account = account.removesuffix(suffix)
    if not re.fullmatch(r"[\w.+-]+", account):
        raise LabError(
            f"job.account={account} is no account name; {site.name} asks: {rule.get('ask') or 'letters, digits, _ . -'}"
        )
    option = rule["option"].format(account=account)
    return ([], option.split()) if site["scheduler"] == "gridengine" else ([option], [])


def _queue(site: Site, asked: str | None, time_s: int, n_gpus: int, n_jobs: int, resource: dict[str, Any]) -> list[str]:
    """The queue that was asked for, the resource type's own, or the first whose limits allow the job."""
    asked = asked or resource.get("queue")
    known = {queue["name"]: queue for queue in site["queues"]}
    if asked and asked not in known:  # the site's rules for it are not in the profile; the scheduler will judge
        return [option.format(queue=asked) for option in words_of(site["scheduler"])["asked"].get("queue", [])]
    candidates = [known[asked]] if asked else list(known.values())
    return _within(site, candidates, time_s, n_gpus, n_jobs)


def _within(site: Site, candidates: list[dict[str, Any]], time_s: int, n_gpus: int, n_jobs: int) -> list[str]:
    broken = []
    for queue in candidates:
        if time_s > (queue.get("max_h") or float("inf")) * 3600:
            broken.append(f"{queue['name']} ends after {queue['max_h']} h")
        elif n_gpus > (queue.get("max_gpus") or float("inf")):
            broken.append(f"{queue['name']} gives at most {queue['max_gpus']} GPUs")
        elif n_jobs > (queue.get("max_submit") or float("inf")):
            broken.append(f"{queue['name']} takes at most {queue['max_submit']} jobs")
        else:
            option = queue.get("option")
            return [option.format(queue=queue["name"])] if option else []
    if broken:
        raise LabError(
            f"no queue of {site.name} takes {clock(time_s)} on {n_gpus} GPUs{f', {n_jobs} times' if n_jobs > 1 else ''}: "
            f"{'; '.join(broken)} (queues in {site.path}).\n"
            "Ask for less; a run continues by itself after its time limit where the site can requeue."
        )
    return []


def _asked(site: Site, job: dict[str, Any]) -> list[str]:
    """Options for the job.* keys that were set, in the scheduler's words.

    Raises:
        LabError: it has none for one of them.
    """
    words = words_of(site["scheduler"])["asked"]
    options = []
    for key in ("mem", "qos", "constraint", "exclude", "mail", "after"):
        if job.get(key) is not None:
            if key not in words:
                raise LabError(
                    f"job.{key} has no counterpart in {site['scheduler']} ({site.name}). Use job.extra with its own words."
                )
            options += [option.format(**job) for option in words[key]]
    return options


def _memory(job: dict[str, Any], gpus: int, site: Site) -> str | None:
    """Memory per node: what was asked for, or the site's share per GPU."""
    per_gpu = site["job"]["mem_per_gpu"]
    if "mem" in job or not per_gpu or not gpus:
        return job.get("mem")
    amount, unit = re.fullmatch(r"(\d+)(\w*)", per_gpu).groups()
    return f"{int(amount) * gpus}{unit}"
