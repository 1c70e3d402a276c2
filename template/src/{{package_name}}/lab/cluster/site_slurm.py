# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""What Slurm says of its partitions, GPUs and accounts, for the draft of a profile."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

from .scheduler_command import output_of, run_scheduler_command
from .site_draft import WITHOUT_GPUS, SiteDraft, queue_entry

GPU_TYPE = re.compile(r"gpu:(?:([a-z]\w*):)?(\d+)")  # of sinfo's GRES: gpu:v100:4(S:0-1)
SETTINGS = re.compile(
    r"^(?:SLURM_VERSION|PreemptMode|SelectType|TaskPlugin|AccountingStorageEnforce) .*$", re.M
)


@dataclass(frozen=True)
class Partition:
    """A line of sinfo. `time_limit`: in Slurm's words, such as 1-00:00:00, 30:00 or infinite."""

    name: str
    is_default: bool
    time_limit: str
    gpus: list[tuple[str, int]]  # type and number on one node
    cpus: int  # of one node, at least


def describe_slurm() -> SiteDraft:
    """Asks Slurm.

    Raises:
        Failed: it does not answer.
    """
    partitions = read_partitions()
    profile: dict[str, Any] = {"queues": queues_of(partitions)}
    profile |= gpus_of(partitions)
    profile["resources"] = [
        WITHOUT_GPUS,
        {"gpus": "any", "options": ["--gres=gpu:{gpus}"]},
    ]
    profile["requeue"] = {"method": "scontrol", "lead_s": 120, "max": 50}
    settings = SETTINGS.findall(run_scheduler_command("scontrol", "show", "config"))
    return SiteDraft(profile, [*settings, *account_notes()])


def read_partitions() -> list[Partition]:
    """The partitions that are up, the default one first; one entry for each kind of node."""
    partitions = []
    answer = run_scheduler_command("sinfo", "--noheader", "--format=%P|%a|%l|%G|%c")
    for line in answer.splitlines():
        name, state, time_limit, gres, cpus = line.split("|")
        if state != "up":
            continue
        partitions.append(
            Partition(
                name=name.rstrip("*"),
                is_default="*" in name,
                time_limit=time_limit,
                gpus=[(kind or "gpu", int(n)) for kind, n in GPU_TYPE.findall(gres)],
                cpus=int(cpus.rstrip("+")),
            )
        )
    return sorted(partitions, key=lambda partition: not partition.is_default)


def queues_of(partitions: list[Partition]) -> list[dict[str, Any]]:
    """The section `queues` of a profile."""
    queues: dict[str, dict[str, Any]] = {}
    for partition in partitions:
        entry = queue_entry(partition.name, "--partition={queue}", partition.time_limit)
        queue = queues.setdefault(partition.name, entry)
        if not partition.gpus:
            queue["max_gpus"] = 0
    return list(queues.values())


def gpus_of(partitions: list[Partition]) -> dict[str, Any]:
    """The sections `gpu` and `job` of a profile; nothing where no node has a GPU."""
    names = set()
    per_node = []
    cpus_per_gpu = []
    for partition in partitions:
        for kind, n_gpus in partition.gpus:
            names.add(kind)
            per_node.append(n_gpus)
            cpus_per_gpu.append(partition.cpus // n_gpus)
    if not names:
        return {}
    return {
        "gpu": {"name": "/".join(sorted(names)), "per_node": max(per_node)},
        "job": {"gpus": 1, "cpus_per_gpu": min(cpus_per_gpu)},
    }


def account_notes() -> list[str]:
    """The user's accounts with their QoS; or why Slurm does not say."""
    user = f"user={os.environ.get('USER', '')}"
    answer = output_of("sacctmgr", "-nP", "show", "assoc", user, "format=account,qos")
    return [f"account|QoS {line}" for line in answer.splitlines()]
