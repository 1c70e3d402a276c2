# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The Trainer: Lightning's, with our checkpoints, metrics, signals and progress, and nothing else; and below it, what
`auto` means on this machine (device, precision, threads), and which ranks there are."""

from __future__ import annotations

import logging
import os
import warnings
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from lightning.fabric.plugins.environments import ClusterEnvironment, LightningEnvironment
from lightning.pytorch.strategies import DDPStrategy
from omegaconf import DictConfig

from ..errors import LabError
from ..hdf5 import H5DataModule
from ..machine.node import cores
from ..machine.ranks import Ranks, discover
from ..record.attempt import write_node
from ..record.run import Run
from .checkpoint import AtomicCheckpointIO, Checkpoints
from .loggers import Progress, build_loggers
from .metrics import BuffersAgree, LogMeans
from .parts import build_callbacks
from .signals import PreemptionCallback

OURS = ("matmul_precision", "threads", "test_after_fit")  # keys of `trainer` that Lightning's Trainer does not take
NOTICES = ("many workers", "logging interval", "isinstance.treespec", "srun", "heckpoint directory")


def build_trainer(
    config: DictConfig, run: Run, attempt: int, data: L.LightningDataModule, task: L.LightningModule
) -> L.Trainer:
    """A Trainer for one attempt of a run.

    Args:
        config: settled configuration (see `settle`): no `auto` left in `trainer`.
        run: its directory takes metrics and checkpoints.
        attempt: number of the attempt, for the rows of metrics.jsonl.
    """
    keep, ranks = config.checkpoint, discover()
    return plain_trainer(
        config,
        data,
        task,
        default_root_dir=run.dir,
        logger=build_loggers(config, run, attempt),
        log_every_n_steps=config.log.every_n_steps,
        callbacks=[
            LogMeans(),
            Progress(config.log.progress),
            *build_callbacks(config),
            NodeFacts(run, attempt),
            PreemptionCallback(run.dir),
            Checkpoints(run.checkpoints, every_min=keep.every_min, monitor=keep.monitor, mode=keep.mode),
        ],
        plugins=[AtomicCheckpointIO(), cluster_environment(ranks)],
        num_nodes=ranks.n_nodes,
    )


def plain_trainer(
    config: DictConfig,
    data: L.LightningDataModule,
    task: L.LightningModule,
    *,
    callbacks: list[L.Callback],
    **more: Any,
) -> L.Trainer:
    """A Trainer with the settings of `trainer` that writes nothing by itself.

    Data that shards itself between ranks is not sharded again; with manual optimization, clipping and accumulation are
    the task's own affair.
    """
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for notice in NOTICES:  # about devices, workers and products, not about the user's research
        warnings.filterwarnings("ignore", message=f".*{notice}")
    settings = {key: value for key, value in config.trainer.items() if key not in OURS}
    if not task.automatic_optimization:
        settings |= {"gradient_clip_val": None, "accumulate_grad_batches": 1}
    several = int(config.trainer.devices) > 1 or more.get("num_nodes", 1) > 1
    return L.Trainer(
        **settings,
        strategy=vars(task).get("lab_strategy", DDPStrategy()) if several else "auto",  # set by speed.fsdp
        use_distributed_sampler=not isinstance(data, H5DataModule),
        callbacks=[*([BuffersAgree()] if several else []), *callbacks],
        num_sanity_val_steps=0,
        enable_progress_bar=any(isinstance(one, L.callbacks.ProgressBar) for one in callbacks),
        enable_model_summary=False,
        **({"logger": L.loggers.logger.DummyLogger()} | more),  # some callbacks want one
    )


GPU_WAS_ASKED = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS")  # set in a job that was given some


# ---- settings: chosen once, recorded, kept by later attempts


def settle(config: DictConfig, earlier: dict[str, Any]) -> dict[str, Any]:
    """Applies seed, threads and float32 precision to this process, and returns what was chosen.

    Args:
        config: the composed configuration; `trainer.accelerator`, `precision` and `devices` are replaced by the choice.
        earlier: what the first attempt of this run chose, or empty; its precision is kept.

    Raises:
        LabError: a GPU was asked for, by the configuration or by the job, and none is seen.
    """
    trainer = config.trainer
    if trainer.accelerator == "auto":
        trainer.accelerator = "gpu" if torch.cuda.is_available() else "cpu"
        if trainer.accelerator == "cpu" and any(os.environ.get(name) for name in GPU_WAS_ASKED):
            raise LabError(no_gpu("this job has GPUs"))
    elif trainer.accelerator in ("gpu", "cuda") and not torch.cuda.is_available():
        raise LabError(no_gpu(f"trainer.accelerator={trainer.accelerator}"))
    ranks = discover()
    if ranks.world_size > 1:  # the launcher has decided
        trainer.devices = ranks.local_size
    elif trainer.devices == "auto":
        trainer.devices = 1
    if trainer.precision == "auto":
        trainer.precision = earlier.get("precision") or auto_precision(trainer.accelerator)
    if trainer.threads == "auto":
        share = max(1, cores() // int(trainer.devices))
        trainer.threads = min(cores(), int(os.environ["OMP_NUM_THREADS"])) if "LAB_JOB" in os.environ else share
    torch.set_num_threads(int(trainer.threads))
    torch.set_float32_matmul_precision(trainer.matmul_precision)
    L.seed_everything(config.seed, workers=True, verbose=False)
    if config.record.deterministic:
        make_deterministic()
    if "mixed" in str(trainer.precision) and trainer.gradient_clip_val and config.get("optimizer", {}).get("fused"):
        config.optimizer.fused = False  # it unscales gradients itself, too late for clipping; refused for bf16 too
        print(f"optimizer.fused is off: it is refused with {trainer.precision} and gradient clipping", flush=True)
    chosen = {name: trainer[name] for name in ("accelerator", "devices", "precision", "threads", "matmul_precision")}
    device = torch.cuda.get_device_name() if trainer.accelerator in ("gpu", "cuda") else "cpu"
    return chosen | {"device": device, "deterministic": config.record.deterministic}


def auto_precision(accelerator: str) -> str:
    """bf16-mixed on Ampere and newer, 16-mixed on older CUDA devices, 32-true elsewhere."""
    if accelerator not in ("gpu", "cuda"):
        return "32-true"
    return "bf16-mixed" if torch.cuda.get_device_capability()[0] >= 8 else "16-mixed"


def make_deterministic() -> None:
    """Only kernels that give the same bits each time; an operation without one raises (torch's notes on reproducibility)."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS starts, which is later
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True


def no_gpu(why: str) -> str:
    driver = Path("/proc/driver/nvidia/version")
    found = driver.read_text().splitlines()[0] if driver.exists() else "no NVIDIA driver is loaded on this machine"
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
    remedy = "Ask the scheduler for a GPU, or compare the driver with the CUDA version of this torch build."
    if not torch.version.cuda:
        remedy = "Install a CUDA build of torch: TORCH=cu126 make setup"
    return (
        f"{why}, but torch sees none.\n  driver: {found}\n  torch:  {torch.__version__} ({build})\n"
        f"{remedy}\nWithout a GPU: trainer=cpu"
    )


# ---- ranks


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
