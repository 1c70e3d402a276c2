# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Tells Lightning which rank this process is, instead of letting it guess from the scheduler's variables."""

from __future__ import annotations

from lightning.fabric.plugins.environments import ClusterEnvironment, LightningEnvironment

from ..errors import LabError
from ..machine.ranks import Ranks


def cluster_environment(ranks: Ranks) -> ClusterEnvironment:
    """For `Trainer(plugins=…)`, with `devices=ranks.local_size` and `num_nodes=ranks.n_nodes`.

    A process alone gets Lightning's own environment, which starts further processes for `trainer.devices=2`.
    """
    return LightningEnvironment() if ranks.world_size == 1 else RanksEnvironment(ranks)


class RanksEnvironment(ClusterEnvironment):
    """Processes that a launcher has started; see `lab.machine.ranks`."""

    creates_processes_externally = True

    def __init__(self, ranks: Ranks) -> None:
        if not ranks.even:
            raise LabError(
                f"{ranks.world_size} processes on {ranks.n_nodes} nodes, {ranks.local_size} of them here: the nodes are "
                "uneven.\nTraining needs the same number on every node: srun --ntasks-per-node=N, or mpirun -npernode N"
            )
        self.ranks = ranks

    @property
    def main_address(self) -> str:
        return self.ranks.main_address

    @property
    def main_port(self) -> int:
        return self.ranks.main_port

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
        if size != self.ranks.world_size:
            raise LabError(
                f"the Trainer was told of {size} processes, but {self.ranks.world_size} were started by "
                f"{self.ranks.source}. Leave trainer.devices and trainer.num_nodes to the launcher."
            )

    def set_global_rank(self, rank: int) -> None:
        pass  # known since the start
