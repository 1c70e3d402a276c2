# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Optional loggers next to metrics.jsonl: TensorBoard and W&B."""

from __future__ import annotations

import importlib.util
import netrc
import os
import socket
import threading
from contextlib import suppress
from pathlib import Path

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers import TensorBoardLogger, WandbLogger
from lightning.pytorch.loggers.logger import Logger
from omegaconf import DictConfig, OmegaConf

from ..errors import LabError
from ..record.run import Run
from .run_logger import RunFiles


def build_loggers(config: DictConfig, run: Run, attempt: int) -> list[Logger]:
    """metrics.jsonl always; `logger=tensorboard`, `logger=wandb` or `logger=[tensorboard,wandb]` beside it."""
    loggers: list[Logger] = [RunFiles(run.dir, attempt)]
    for name in config.logger:
        if importlib.util.find_spec(name) is None:
            raise LabError(
                f"logger={name} needs the package {name}: pip install '{name}' (or uv add {name})"
            )
    if "tensorboard" in config.logger:
        loggers.append(
            TensorBoardLogger(run.dir, name="tensorboard", version="", **config.logger.tensorboard)
        )
    if "wandb" in config.logger:
        loggers.append(wandb_logger(config, run))
    return loggers


def wandb_logger(config: DictConfig, run: Run) -> WandbLogger:
    """One W&B run per run id, also across attempts; offline unless a key and a network are there; its code saving off."""
    settings, code = OmegaConf.to_container(config.logger.wandb), run.record["code"]
    mode = wandb_mode(settings.pop("mode"), bool(config.site.get("internet", True)))
    os.environ |= {"WANDB_MODE": mode, "WANDB_DIR": str(run.dir)}
    os.environ |= {
        "WANDB_DISABLE_CODE": "true",
        "WANDB_DISABLE_GIT": "true",
        "WANDB_SILENT": "true",
    }
    if rank_zero_only.rank == 0:
        later = (
            f"; upload later: wandb sync {run.dir}/wandb/offline-run-*" if mode == "offline" else ""
        )
        print(f"W&B: {mode}, run {run.id}{later}")
    return WandbLogger(
        **settings,
        name=f"{run.trial} {run.id}",
        id=run.id,
        resume="allow",
        save_dir=str(run.dir),
        offline=mode == "offline",
        config={"run_id": run.id, "commit": code.get("commit"), "tree": code.get("tree")}
        | OmegaConf.to_container(OmegaConf.load(run.dir / "config.yaml"), resolve=False),
    )


def wandb_mode(wanted: str, site_has_internet: bool) -> str:
    """online only with a key and a network: without one W&B would ask at a prompt, without the other it would hang."""
    if wanted != "auto":
        return wanted
    if os.environ.get("WANDB_MODE"):
        return os.environ["WANDB_MODE"]
    return (
        "online" if site_has_internet and wandb_key() and reachable("api.wandb.ai") else "offline"
    )


def wandb_key() -> bool:
    with suppress(OSError, netrc.NetrcParseError):
        if netrc.netrc(os.environ.get("NETRC") or Path.home() / ".netrc").authenticators(
            "api.wandb.ai"
        ):
            return True
    return bool(os.environ.get("WANDB_API_KEY"))


def reachable(host: str, port: int = 443, timeout_s: float = 3.0) -> bool:
    """Whether a connection opens within `timeout_s`; in a thread, because looking a name up has no time limit of its own."""
    answers: list[bool] = []

    def connect() -> None:
        with suppress(OSError), socket.create_connection((host, port), timeout=timeout_s):
            answers.append(True)

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(timeout_s)
    return bool(answers)
