# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Training with several processes: environment, buffers, facts of each node."""

from __future__ import annotations

import lightning.pytorch as L
import torch
from lightning.fabric.plugins.environments import ClusterEnvironment, LightningEnvironment

from ..errors import LabError
from ..machine.ranks import Ranks
from ..record.attempt import write_node
from ..record.run import Run


def cluster_environment(ranks: Ranks) -> ClusterEnvironment:
    """For `Trainer(plugins=…)`, with `devices=ranks.local_size` and `num_nodes=ranks.n_nodes`.

    A process alone gets Lightning's own environment, which starts further processes for `trainer.devices=2`.
    """
    return LightningEnvironment() if ranks.world_size == 1 else RanksEnvironment(ranks)


class RanksEnvironment(ClusterEnvironment):
    """Processes that a launcher has started; see `lab.machine.ranks`."""

    creates_processes_externally, main_address, main_port = True, "", 0

    def __init__(self, ranks: Ranks) -> None:
        if not ranks.even:
            raise LabError(
                f"{ranks.world_size} processes on {ranks.n_nodes} nodes, {ranks.local_size} of them here: the nodes are "
                "uneven.\nTraining needs the same number on every node: srun --ntasks-per-node=N, or mpirun -npernode N"
            )
        self.ranks, self.main_address, self.main_port = ranks, ranks.main_address, ranks.main_port

    @staticmethod
    def detect() -> bool:
        return False  # never chosen by guessing

    def world_size(self) -> int:
        return self.ranks.world_size

    def global_rank(self) -> int:
        return self.ranks.rank

    def local_rank(self) -> int:
        return self.ranks.local_rank

    def node_rank(self) -> int:
        return self.ranks.node_rank

    def set_world_size(self, size: int) -> None:
        pass  # as it is since the start: `settle` takes the devices from the launcher

    set_global_rank = set_world_size


class NodeFacts(L.Callback):
    """The first process of every further node notes its host and GPUs in the attempt, once the ranks are connected: by
    then the first rank has begun it."""

    def __init__(self, run: Run, attempt: int) -> None:
        self.run_dir, self.attempt = run.dir, attempt

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage == "fit" and trainer.node_rank > 0 and trainer.local_rank == 0:
            # asks a network file system anew, which may still remember that there was no such directory
            (self.run_dir / "attempts" / str(self.attempt)).mkdir(exist_ok=True)
            write_node(self.run_dir, self.attempt, trainer.node_rank)


class BuffersAgree(L.Callback):
    """Lets ranks evaluate different numbers of batches.

    DDP broadcasts buffers (BatchNorm's means) at every forward, in evaluation too, so a rank with one batch more
    would wait for ever. They are made equal once before, and the broadcast is switched off meanwhile.
    """

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        for buffer in pl_module.buffers():
            torch.distributed.broadcast(buffer, 0)
        trainer.model.require_forward_param_sync = False

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        trainer.model.require_forward_param_sync = True
