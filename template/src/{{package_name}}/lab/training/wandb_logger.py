# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The W&B logger: one W&B run for each run, offline unless W&B has a key and a network."""

from __future__ import annotations

import netrc
import os
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers import WandbLogger
from omegaconf import DictConfig, OmegaConf

from ..record.run import Run

HOST = "api.wandb.ai"


def build_wandb_logger(config: DictConfig, run: Run) -> WandbLogger:
    """The logger of `logger=wandb`. All attempts of a run are one W&B run; W&B saves no code."""
    settings = OmegaConf.to_container(config.logger.wandb)
    mode = wandb_mode(settings.pop("mode"), bool(config.site.get("internet", True)))
    os.environ["WANDB_MODE"] = mode
    os.environ["WANDB_DIR"] = str(run.dir)
    os.environ["WANDB_DISABLE_CODE"] = "true"
    os.environ["WANDB_DISABLE_GIT"] = "true"
    os.environ["WANDB_SILENT"] = "true"
    if rank_zero_only.rank == 0:
        print_mode(mode, run)
    return WandbLogger(
        **settings,
        name=f"{run.trial} {run.id}",
        id=run.id,
        resume="allow",
        save_dir=str(run.dir),
        offline=mode == "offline",
        config=wandb_config(run),
    )


def print_mode(mode: str, run: Run) -> None:
    line = f"W&B: {mode}, run {run.id}"
    if mode == "offline":
        line += f"; upload later: wandb sync {run.dir}/wandb/offline-run-*"
    print(line)


def wandb_config(run: Run) -> dict[str, Any]:
    """What W&B shows as the run's configuration; values of .env stay ${...}, as in config.yaml."""
    code = run.record["code"]
    recorded = OmegaConf.to_container(OmegaConf.load(run.dir / "config.yaml"), resolve=False)
    return {"run_id": run.id, "commit": code.get("commit"), "tree": code.get("tree"), **recorded}


def wandb_mode(mode: str, site_has_internet: bool) -> str:
    """`mode`; for `auto` that of $WANDB_MODE, else online with a key and a network, else offline.

    Without a key W&B would ask for one at a prompt; without a network it would wait.
    """
    if mode != "auto":
        return mode
    if os.environ.get("WANDB_MODE"):
        return os.environ["WANDB_MODE"]
    if site_has_internet and has_wandb_key() and is_reachable(HOST):
        return "online"
    return "offline"


def has_wandb_key() -> bool:
    """Whether $WANDB_API_KEY or .netrc hold a key."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    file = os.environ.get("NETRC") or Path.home() / ".netrc"
    with suppress(OSError, netrc.NetrcParseError):
        return netrc.netrc(file).authenticators(HOST) is not None
    return False


def is_reachable(host: str, port: int = 443, timeout_s: float = 3.0) -> bool:
    """Whether a connection opens within `timeout_s`."""
    answers: list[bool] = []

    def connect() -> None:
        with suppress(OSError), socket.create_connection((host, port), timeout=timeout_s):
            answers.append(True)

    # Looking up a name has no time limit of its own.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(timeout_s)
    return bool(answers)
