"""Training with several processes: strategy, environment, buffers, facts of each node."""

from __future__ import annotations

import platform
import sys
from typing import Any

import lightning.pytorch as L
import torch
from lightning.fabric.plugins.environments import ClusterEnvironment, LightningEnvironment
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy, Strategy
from omegaconf import DictConfig
from torch.nn.parallel import DistributedDataParallel

from ...config.trainer_arguments import require_whole_groups, saves_parts
from ...errors import LabError
from ...machine.network import choose_interface
from ...machine.ranks import Ranks
from ...record.read.run import Run
from ...record.write.attempt import compare_nodes, write_node
from .build import build
from .settings import n_processes_of


def cluster_environment(ranks: Ranks) -> ClusterEnvironment:
    """For `Trainer(plugins=…)`, with `devices=ranks.local_size` and `num_nodes=ranks.n_nodes`.

    A process alone gets Lightning's own environment, which starts further processes for
    `trainer.devices=2`.
    """
    if ranks.world_size == 1:
        return LightningEnvironment()
    return RanksEnvironment(ranks)


def own_strategy(config: DictConfig) -> Strategy | str | None:
    """What `trainer.strategy` says: a name, or the object of its section; None: nothing."""
    strategy = config.trainer.get("strategy") or "auto"
    if strategy == "auto":
        return None
    return strategy if isinstance(strategy, str) else build(config.trainer, "strategy")


def strategy_for(config: DictConfig) -> Strategy | str:
    """For `Trainer(strategy=…)`: the user's, else FSDP2 with `speed.fsdp` or `speed.tensor_parallel`,
    else DDP; "auto" for a process alone.

    Args:
        config: a configuration without `auto`; its task went through `accelerate`, which shards it
            for FSDP2.
    """
    own = own_strategy(config)
    if own is not None:
        return own
    n_processes = n_processes_of(config)
    require_whole_groups(config, n_processes)
    tensor_parallel = config.speed.get("tensor_parallel", 1)
    if n_processes == 1:
        return "auto"
    if config.speed.fsdp or tensor_parallel > 1:
        return ModelParallelStrategy(
            data_parallel_size=n_processes // tensor_parallel,
            tensor_parallel_size=tensor_parallel,
            save_distributed_checkpoint=is_in_parts(config),
        )
    return DDPStrategy()


def is_in_parts(config: DictConfig) -> bool:
    """Whether each process writes its part of a checkpoint, into a directory.

    Otherwise the first one writes a file.
    """
    strategy = config.trainer.get("strategy") or "auto"
    if strategy == "auto":
        return n_processes_of(config) > 1 and config.checkpoint.get("sharded", False)
    return not isinstance(strategy, str) and saves_parts(strategy)


class RanksEnvironment(ClusterEnvironment):
    """Processes that a launcher has started; see `lab.machine.ranks`."""

    creates_processes_externally: bool = True
    main_address: str = ""
    main_port: int = 0

    def __init__(self, ranks: Ranks) -> None:
        if not ranks.even:
            raise LabError(
                f"{ranks.world_size} processes on {ranks.n_nodes} nodes, "
                f"{ranks.local_size} of them here: the nodes are uneven.\n"
                "Training needs the same number on every node: "
                "srun --ntasks-per-node=N, or mpirun -npernode N"
            )
        # NCCL chooses by itself; hosts that meet at 127.0.0.1 are one.
        is_one_host = ranks.n_nodes == 1 or ranks.main_address.startswith(("127.", "localhost"))
        if not is_one_host and not torch.cuda.is_available() and (interface := choose_interface()):
            print(f"lab: {platform.node()} uses the network {interface}", file=sys.stderr)
        self.ranks = ranks
        self.main_address = ranks.main_address
        self.main_port = ranks.main_port

    @staticmethod
    def detect() -> bool:
        """Lightning never chooses this environment by itself."""
        return False

    def world_size(self) -> int:
        return self.ranks.world_size

    def global_rank(self) -> int:
        return self.ranks.rank

    def local_rank(self) -> int:
        return self.ranks.local_rank

    def node_rank(self) -> int:
        return self.ranks.node_rank

    def set_world_size(self, size: int) -> None:
        """Changes nothing: the launcher has decided, and `trainer.devices` was taken from it."""

    def set_global_rank(self, rank: int) -> None:
        """Changes nothing: the launcher has decided."""


class NodeFacts(L.Callback):
    """The first process of every further node writes its host, versions and GPUs into the attempt.

    It does so once the ranks are connected: then the first rank has begun the attempt. That one compares.
    """

    def __init__(self, run: Run, attempt: int) -> None:
        self.run_dir = run.dir
        self.attempt = attempt

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage != "fit" or trainer.node_rank == 0 or trainer.local_rank != 0:
            return
        # A network file system may still remember that there was no such directory; this asks it again.
        (self.run_dir / "attempts" / str(self.attempt)).mkdir(exist_ok=True)
        write_node(self.run_dir, self.attempt, trainer.node_rank)

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """All nodes have written: Lightning waits for every rank after `setup`."""
        if trainer.is_global_zero and trainer.num_nodes > 1:
            for line in compare_nodes(self.run_dir, self.attempt):
                print(f"lab: {line}", file=sys.stderr)


class BuffersAgree(L.Callback):
    """Lets ranks validate different numbers of batches.

    DDP broadcasts buffers (BatchNorm's means) at every forward, in evaluation too, so a rank with
    one batch more would wait for ever. Here they are made equal once before, and DDP does not
    broadcast them until the end.
    """

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        for buffer in pl_module.buffers():
            torch.distributed.broadcast(buffer, 0)
        set_broadcast(trainer, False)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        set_broadcast(trainer, True)

    def on_exception(self, trainer: L.Trainer, *_: Any) -> None:
        set_broadcast(trainer, True)


def set_broadcast(trainer: L.Trainer, is_on: bool) -> None:
    """Whether DDP broadcasts the buffers before each forward."""
    if isinstance(trainer.model, DistributedDataParallel):
        trainer.model.broadcast_buffers = is_on
