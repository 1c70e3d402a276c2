"""Weights in several .safetensors files: an index in JSON says which tensor lies in which.

`model.safetensors.index.json` stands for them all; they lie next to it.
"""

from __future__ import annotations

import json
from pathlib import Path

from ..errors import LabError

INDEX = ".safetensors.index.json"  # how its name ends
MAX_INDEX_BYTES = 100_000_000


def shards_of(index: Path) -> list[Path]:
    """The .safetensors files that an index names, sorted."""
    try:
        if index.stat().st_size > MAX_INDEX_BYTES:
            raise ValueError(f"it has more than {MAX_INDEX_BYTES:,} bytes")
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        if not names or not all(is_plain(name) for name in names):
            raise ValueError("its weight_map must name .safetensors files next to it")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LabError(
            f"init_from: {index} is no index of .safetensors files: {error}. Copy it again"
        ) from error
    return [index.parent / name for name in sorted(names)]


def is_plain(name: object) -> bool:
    """Whether it names a .safetensors file in the same directory."""
    return isinstance(name, str) and Path(name).name == name and name.endswith(".safetensors")
