"""What a run has cost, in one line: the last one that a training prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .attempt_files import read_attempts
from .cost import HOUR_S, KWH_J
from .summary import total_of

GB = 1e9


def cost_line(run_dir: Path) -> str:
    """Hours, GPU-hours, peak memory and kWh of a run, over all its attempts."""
    attempts = read_attempts(run_dir)
    hours = (total_of(attempts, "seconds") or 0) / HOUR_S
    gpu_hours = (total_of(attempts, "gpu_seconds") or 0) / HOUR_S
    energy_j = total_of(attempts, "energy_j")
    ends = [attempt.end for attempt in attempts]
    parts = [
        f"{hours:.3f} h",
        f"{gpu_hours:.3f} GPU-hours",
        f"peak memory {largest(ends, 'peak_memory_bytes') / GB:.2f} GB",
    ]
    if largest(ends, "peak_gpu_bytes"):
        parts.append(f"of a GPU {largest(ends, 'peak_gpu_bytes') / GB:.2f} GB")
    parts.append("kWh not measured" if energy_j is None else f"{energy_j / KWH_J:.3f} kWh")
    of_attempts = f" of {len(attempts)} attempts" if len(attempts) > 1 else ""
    return f"cost{of_attempts}: {', '.join(parts)}"


def largest(ends: Sequence[Mapping[str, Any]], key: str) -> float:
    """The largest value of `key` in the ends of attempts; 0 where none measured it."""
    return max((end.get(key) or 0 for end in ends), default=0)
