# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""What PJM says of its resource groups, for the draft of a profile. Never run on a real PJM."""

from __future__ import annotations

import re
from typing import Any

from .scheduler_command import output_of
from .site_draft import WITHOUT_GPUS, SiteDraft, unread_notes

# A line of pjstat --rsc: a name, with its state or with groups below it, which no job may name
GROUP = re.compile(r"^([a-z][\w-]*)(?:\s+\[\s*ENABLE.*)?\s*$", re.M)


def describe_pjm() -> SiteDraft:
    """Asks PJM; what it answers otherwise than expected becomes a note."""
    answer = output_of("pjstat", "--rsc")
    names = list(dict.fromkeys(GROUP.findall(answer)))
    profile: dict[str, Any] = {
        "queues": [{"name": name, "option": "-L rscgrp={queue}"} for name in names],
        "resources": [
            WITHOUT_GPUS | {"options": ["-L node={nodes}", "--mpi proc={n_tasks}"]},
            {"gpus": "any", "max_nodes": 1, "options": ["-L gpu={gpus}"]},
        ],
        "launcher": "mpiexec",
        "launcher_options": ['-machinefile "$PJM_O_NODEINF"'],
        "requeue": {"method": "resubmit", "lead_s": 120, "max": 50},
    }
    notes = [] if names else unread_notes("pjstat --rsc", answer)
    notes += [f"limit {line}" for line in output_of("pjstat", "--limit").splitlines()]
    notes.append("PJM does not say how long a job may be: add max_h to each of queues")
    return SiteDraft(profile, notes)
