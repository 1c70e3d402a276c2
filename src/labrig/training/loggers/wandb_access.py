"""How W&B is reached: its address and its key."""

from __future__ import annotations

import netrc
import os
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

URL = "https://api.wandb.ai"


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
