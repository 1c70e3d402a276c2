# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""What PBS Pro says of its queues and nodes, for the draft of a profile. Never run on a real PBS."""

from __future__ import annotations

import json
from typing import Any

from .scheduler_command import output_of
from .site_draft import WITHOUT_GPUS, SiteDraft, queue_entry, unread_notes

QUEUES = ("qstat", "-Q", "-f", "-F", "json")
NODES = ("pbsnodes", "-a", "-F", "json")


def describe_pbs() -> SiteDraft:
    """Asks PBS; what it does not answer in JSON becomes a note."""
    notes: list[str] = []
    queues = queues_of(ask(QUEUES, "Queue", notes))
    nodes = [node.get("resources_available", {}) for node in ask(NODES, "nodes", notes).values()]
    n_gpus = max((int(node.get("ngpus", 0)) for node in nodes), default=0)
    select = "-l select={nodes}:mpiprocs={tasks_per_node}"
    profile: dict[str, Any] = {
        "queues": queues,
        "resources": [WITHOUT_GPUS | {"options": [select]}],
        "requeue": {"method": "none", "lead_s": 120, "max": 0},
    }
    if n_gpus:
        with_gpus = [node for node in nodes if int(node.get("ngpus", 0)) == n_gpus]
        cpus = min(int(node.get("ncpus", 1)) for node in with_gpus)
        profile["gpu"] = {"per_node": n_gpus}
        profile["job"] = {"gpus": 1, "cpus_per_gpu": max(1, cpus // n_gpus)}
        chunk = "-l select={nodes}:ngpus={gpus}:mpiprocs={tasks_per_node}"
        profile["resources"].append({"gpus": "any", "options": [chunk]})
    return SiteDraft(profile, notes)


def ask(command: tuple[str, ...], section: str, notes: list[str]) -> dict[str, Any]:
    """A section of what a command answers in JSON; an answer of another kind is added to `notes`."""
    answer = output_of(*command)
    try:
        return json.loads(answer)[section]
    except (ValueError, KeyError, TypeError):
        notes += unread_notes(" ".join(command), answer)
        return {}


def queues_of(queues: dict[str, Any]) -> list[dict[str, Any]]:
    """The section `queues`: those that are open, and that a job may name."""
    entries = []
    for name, queue in queues.items():
        is_closed = "False" in (queue.get("enabled"), queue.get("started"))
        if is_closed or queue.get("from_route_only") == "True":
            continue
        limits = queue.get("resources_max", {})
        entry = queue_entry(name, "-q {queue}", str(limits.get("walltime", "")))
        if "nodect" in limits:
            entry["max_nodes"] = int(limits["nodect"])
        if "ngpus" in limits:
            entry["max_gpus"] = int(limits["ngpus"])
        entries.append(entry)
    return entries
