# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""What Grid Engine says of its queues and resources, for the draft of a profile."""

from __future__ import annotations

import re
from typing import Any

from .scheduler_command import output_of, run_scheduler_command
from .site_draft import WITHOUT_GPUS, SiteDraft, queue_entry

GPU_RESOURCE = re.compile(r"^(\S*gpu\S*)\s", re.M | re.I)  # of qconf -sc: its first column


def describe_gridengine() -> SiteDraft:
    """Asks Grid Engine.

    Raises:
        Failed: it does not answer.
    """
    names = run_scheduler_command("qconf", "-sql").split()
    profile: dict[str, Any] = {
        "queues": [queue_of(name) for name in names],
        "resources": [WITHOUT_GPUS],
        "requeue": {"method": "exit99", "lead_s": 120, "max": 50},
    }
    gpu_resources = GPU_RESOURCE.findall(output_of("qconf", "-sc"))
    notes = [f"resource {name}: qconf -sc" for name in gpu_resources]
    if gpu_resources:
        profile["resources"].append({"gpus": "any", "options": [f"-l {gpu_resources[0]}={{gpus}}"]})
    environments = output_of("qconf", "-spl").split()
    notes += [f"parallel environment {name}" for name in environments]
    notes.append(
        "Several nodes, or several cores, need a parallel environment or a resource type of the"
        ' site: add it to resources, as options: ["-pe NAME {n_tasks}"]'
    )
    return SiteDraft(profile, notes)


def queue_of(name: str) -> dict[str, Any]:
    """An entry of `queues`, from the definition of the queue."""
    definition = run_scheduler_command("qconf", "-sq", name)
    hard_limit = re.search(r"^h_rt\s+(\S+)", definition, re.M)
    return queue_entry(name, "-q {queue}", hard_limit[1] if hard_limit else "")
