"""What the nodes of an attempt have: each but the first writes it, and the first one compares."""

from __future__ import annotations

import platform
from collections import Counter
from pathlib import Path
from typing import Any

from ..files.atomic import read_advisory
from ..files.manifest import write_listed
from ..files.process import process_facts
from ..read.attempt_files import further_nodes
from .attempt import note_attempt, torch_facts


def write_node(run_dir: Path, n: int, node: int) -> None:
    """Writes another node's host and devices to attempts/<n>/node-<node>.json."""
    name = f"attempts/{n}/node-{node}.json"
    write_listed(run_dir, name, process_facts() | facts_of_node())


def facts_of_node() -> dict[str, Any]:
    return torch_facts() | {"python": platform.python_version()}


def compare_nodes(run_dir: Path, n: int) -> list[str]:
    """What other nodes have else than this, the first one; a line each, which start.json gets too."""
    here = facts_of_node()
    lines = []
    for there in further_nodes(run_dir / "attempts" / str(n)):
        lines += [
            f"node {there['host']} has {name} {there.get(name)}, {platform.node()} {here[name]}"
            for name in ("python", "torch", "cuda", "cudnn", "driver")
            if there.get(name) != here[name]
        ]
        models_here, models_there = gpu_models(here), gpu_models(there)
        if models_there != models_here:
            lines.append(
                f"node {there['host']} has {models_there or 'no GPU'}, {platform.node()} {models_here or 'none'}"
            )
    if lines:
        start = read_advisory(run_dir / f"attempts/{n}/start.json") or {}
        known = start.get("environment_differences", [])
        note_attempt(run_dir, n, environment_differences=known + lines)
    return lines


def gpu_models(facts: dict[str, Any]) -> str:
    """The models of a node's GPUs, as `4 x NVIDIA H100`."""
    counts = Counter(gpu["model"] for gpu in facts.get("gpus", []))
    return ", ".join(f"{n} x {model}" for model, n in sorted(counts.items()))
