"""How W&B is reached: its address and its key."""

from __future__ import annotations

import netrc
import os
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

URL = "https://api.wandb.ai"


def waiting_wandb(run_dir: Path) -> list[Path]:
    """The directories of a run's offline W&B runs that were not uploaded, oldest first."""
    folders = {file.parent for file in run_dir.glob("wandb/offline-run-*/*.wandb")}
    waiting = [folder for folder in folders if not any(folder.glob("*.wandb.synced"))]
    return sorted(waiting, key=lambda folder: folder.name)


def mark_uploaded(folders: list[Path]) -> None:
    """Marks directories as W&B does when it has uploaded one."""
    for folder in folders:
        for file in folder.glob("*.wandb"):
            file.with_name(f"{file.name}.synced").touch()


def wandb_url() -> str:
    """The address of W&B, or of a server of one's own."""
    return os.environ.get("WANDB_BASE_URL") or URL


def has_wandb_key() -> bool:
    """Whether $WANDB_API_KEY or .netrc hold a key."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    file = os.environ.get("NETRC") or Path.home() / ".netrc"
    with suppress(OSError, netrc.NetrcParseError):
        host = urlsplit(wandb_url()).hostname or ""
        return netrc.netrc(file).authenticators(host) is not None
    return False
