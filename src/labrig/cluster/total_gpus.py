"""`job.total_gpus`: splits the GPUs of a job into nodes, as a site has them."""

from __future__ import annotations

import math
from typing import Any

from ..errors import LabError
from ..machine.counted import counted
from .site import NO_LIMIT, Resource, Site


def with_split_gpus(site: Site, settings: dict[str, Any]) -> dict[str, Any]:
    """The job keys that were set, with nodes and gpus in place of total_gpus.

    Takes the fewest nodes that share the GPUs evenly and that the site has.

    Raises:
        LabError: it is no number, is asked for twice, or the site has no such nodes.
    """
    if "total_gpus" not in settings:
        return settings
    total = settings["total_gpus"]
    if type(total) is not int or total < 1:
        raise LabError(f"job.total_gpus={total}, but it must be a whole number and at least 1.")
    if "gpus" in settings or settings.get("nodes", 1) != 1:
        raise LabError(
            f"job.total_gpus={total} and job.nodes or job.gpus: say it one way only."
            " job.gpus is the number on each node."
        )
    nodes = fewest_nodes(site, total)
    rest = {key: value for key, value in settings.items() if key != "total_gpus"}
    return rest | {"nodes": nodes, "gpus": total // nodes}


def fewest_nodes(site: Site, total: int) -> int:
    """The fewest nodes of a site that have `total` GPUs, the same number each.

    Raises:
        LabError: it has none, or the profile does not say how many a node has.
    """
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
        if total % nodes == 0 and find_resource(site, nodes, total // nodes):
            return nodes
    raise LabError(
        f"job.total_gpus={total}: {site.name} has no nodes that share them evenly."
        f" GPUs per node there: {format_resources(site)}"
    )


def find_resource(site: Site, nodes: int, n_gpus: int) -> Resource | None:
    """The first entry of `resources` that gives so many GPUs on so many nodes.

    A site without entries takes any number; None where it has no such resource type.
    """
    if not site.resources:
        return Resource()
    for resource in site.resources:
        has_gpus = resource.gpus == n_gpus or (resource.gpus == "any" and n_gpus > 0)
        if has_gpus and nodes <= resource.max_nodes:
            return resource
    return None


def format_resources(site: Site) -> str:
    """GPUs per node of each resource type, and on how many nodes at most."""
    sizes = []
    for resource in site.resources:
        size = str(resource.gpus)
        if resource.max_nodes != NO_LIMIT:
            size += f" on at most {counted(int(resource.max_nodes), 'node')}"
        sizes.append(size)
    return ", ".join(sizes)
