"""Whether torch is still of the build that `make setup TORCH=...` chose."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

RECORD = "lab-torch.txt"  # in the environment; lab.setup writes the build into it


def replaced_build() -> str | None:
    """What to say and to type when torch is of another build now; None when it is not."""
    record = Path(sys.prefix) / RECORD
    chosen = record.read_text(encoding="utf-8").strip() if record.exists() else ""
    if not chosen:
        return None
    installed = metadata.version("torch")
    if installed.endswith(f"+{chosen}"):
        return None
    return (
        f"torch {installed} is not of the build {chosen} that make setup had chosen: uv add, "
        "uv sync and uv run replace it.\nTo get it back: make setup. To keep this one: "
        "make setup TORCH=default"
    )
