"""Each task of a job that runs several workers works alone, with a GPU of its own."""

from __future__ import annotations

import os
import re

from ..machine.ranks import discover

# What launchers tell their tasks about each other
OF_A_LAUNCHER = re.compile(
    r"SLURM_|PBS_|PE_|PJM_|PMI|PMIX|OMPI_|PALS_|TORCHELASTIC_|MPI_"
    r"|(RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK|GROUP_WORLD_SIZE)$"
    r"|(MASTER_ADDR|MASTER_PORT)$"
)


def leave_the_others() -> None:
    """Has this process look like one that was started alone, if it is one task of several."""
    ranks = discover()
    if ranks.world_size == 1:
        return
    for name in list(os.environ):
        if OF_A_LAUNCHER.match(name):
            del os.environ[name]
    visible = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
    if len(visible) >= ranks.local_size:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible[ranks.local_rank]
