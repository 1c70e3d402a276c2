"""The W&B logger: one W&B run for each run, offline unless W&B has a key and a network.

W&B keeps an offline run in one directory for each attempt, and its upload of one replaces what was
uploaded before. So an attempt that resumes offline first logs the earlier rows of the record again:
its directory holds the whole run, and is the only one that `lab sync` uploads. One that resumes online
logs the rows of offline attempts that were not uploaded, which are not uploaded any more.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers import WandbLogger
from omegaconf import DictConfig, OmegaConf
from torch import Tensor
from torch.nn import Module

from ...machine.network import is_reachable
from ...record.files.metrics_file import ROW_KEYS, read_metrics
from ...record.read.run import Run
from .wandb_access import has_wandb_key, mark_uploaded, waiting_wandb, wandb_url

# Seconds that W&B may take to begin a run, and to upload the rest at its end.
LIMITS = {"WANDB_INIT_TIMEOUT": "30", "WANDB_FINISH_TIMEOUT": "60"}


class WandbOfRun(WandbLogger):
    """W&B's logger, which goes offline when W&B cannot be used, and never stops a training.

    Args:
        run: its record has the rows of earlier attempts.
        attempt: number of the attempt.
        watched: gradients, parameters or all; None: W&B gets no histograms of the layers.
        every_n_steps: between two histograms.
    """

    def __init__(
        self, run: Run, attempt: int, watched: str | None, every_n_steps: int, **settings: Any
    ) -> None:
        super().__init__(**settings)
        # Lightning passes it, and W&B warns that it has no effect.
        self._wandb_init.pop("anonymous", None)
        self.run = run
        self.attempt = attempt
        self.knows_earlier_rows = attempt == 1
        self.watched = watched
        self.every_n_steps = every_n_steps

    @property
    def experiment(self) -> Any:
        """W&B's run, begun when it is first asked for."""
        import wandb

        try:
            return super().experiment
        except wandb.Error as error:
            if self._offline:
                raise
            # Its service process has the id of the run in use.
            wandb.teardown()
            print(
                f"W&B: {error}\nThe training continues offline; upload later: lab sync", flush=True
            )
            os.environ["WANDB_MODE"] = "offline"
            self._offline = True
            self._wandb_init["mode"] = "offline"
            return super().experiment

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        if not self.knows_earlier_rows:
            self.knows_earlier_rows = True
            waiting = waiting_wandb(self.run.dir)
            if self.experiment is not None and (self._offline or waiting):
                self._log_earlier_rows(step or 0)
            if not self._offline:
                mark_uploaded(waiting)  # their upload would replace this attempt's rows
        super().log_metrics(metrics, step)

    @rank_zero_only
    def log_graph(self, model: Module, input_array: Tensor | None = None) -> None:
        """Has W&B watch the networks inside the task; Lightning calls this before the first step.

        It takes parameters when a module is called, and nobody calls the task itself.
        """
        options: dict[str, Any] = {"log_freq": self.every_n_steps, "log_graph": False}
        if self.watched in ("gradients", "all"):
            self.experiment.watch(model, log="gradients", **options)
        if self.watched in ("parameters", "all"):
            networks = [one for one in model.children() if any(True for _ in one.parameters())]
            self.experiment.watch(networks or model, log="parameters", idx=0, **options)

    def _log_earlier_rows(self, step: int) -> None:
        """Logs the rows of earlier attempts before `step`, which counts from 0."""
        both = read_metrics(self.run.dir) + read_metrics(self.run.dir, "speed.jsonl")
        rows = [row for row in both if row["attempt"] < self.attempt]
        for row in sorted(rows, key=lambda row: row["step"]):
            if row["step"] <= step:
                values = {name: value for name, value in row.items() if name not in ROW_KEYS}
                super().log_metrics(values | {"epoch": row["epoch"]}, row["step"] - 1)


def build_wandb_logger(config: DictConfig, run: Run, attempt: int) -> WandbLogger:
    """The logger of `logger=wandb`. All attempts of a run are one W&B run; W&B saves no code."""
    settings: Any = OmegaConf.to_container(config.logger.wandb)
    mode = wandb_mode(settings.pop("mode"), config.site.internet.jobs)
    os.environ["WANDB_MODE"] = mode
    os.environ["WANDB_DIR"] = str(run.dir)
    os.environ["WANDB_DISABLE_CODE"] = "true"
    os.environ["WANDB_DISABLE_GIT"] = "true"
    os.environ["WANDB_SILENT"] = "true"
    if rank_zero_only.rank == 0:
        print_mode(mode, run)
    for name, value in LIMITS.items():
        os.environ.setdefault(name, value)
    return WandbOfRun(
        run,
        attempt,
        settings.pop("watch"),
        config.log.every_n_steps,
        **settings,
        name=f"{run.trial} {run.id}",
        id=run.id,
        resume="allow",
        save_dir=str(run.dir),
        offline=mode == "offline",
        config=wandb_config(run),
        notes=run.record.get("why") or None,
        group=sweep_of(run),
    )


def sweep_of(run: Run) -> str | None:
    """The sweep of which a run is a point."""
    parent = run.record.get("parent")
    return parent if parent and (run.runs / "sweeps" / parent).is_dir() else None


def print_mode(mode: str, run: Run) -> None:
    line = f"W&B: {mode}, run {run.id}"
    if mode == "offline":
        line += "; upload later: lab sync"
    print(line)


def wandb_config(run: Run) -> dict[str, Any]:
    """What W&B shows as the run's configuration; values of .env stay ${...}, as in config.yaml."""
    code = run.record["code"]
    recorded: Any = OmegaConf.to_container(OmegaConf.load(run.dir / "config.yaml"), resolve=False)
    return {"run_id": run.id, "commit": code.get("commit"), "tree": code.get("tree"), **recorded}


def wandb_mode(mode: str, jobs_have_internet: bool) -> str:
    """`mode`; for `auto` that of $WANDB_MODE, else online with a key and a network, else offline.

    Without a key W&B would ask for one at a prompt; without a network it would wait.
    """
    if mode != "auto":
        return mode
    if os.environ.get("WANDB_MODE"):
        return os.environ["WANDB_MODE"]
    if jobs_have_internet and has_wandb_key() and is_reachable(wandb_url()):
        return "online"
    return "offline"
