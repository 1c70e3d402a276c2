"""What the job of a run used of what it asked for, and how much of a disk its files take."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypedDict

from ...machine.text_formats import GB, counted, format_clock, format_hms
from ..files.atomic import read_advisory
from ..files.forms import Int, between
from ..files.schema import Job, Seconds
from .attempt_files import AttemptFiles
from .status import ENDED

MARGIN = 1.25  # times what was used is enough
# A job is warned a quarter of its time before its end at the latest: what it took is 3/4 of this.
TIME_MARGIN = MARGIN * 4 / 3
MUCH_LESS = 0.5  # of what was asked for
STEP_S = 300  # of a time limit
ENOUGH_LOOKS = 3  # at a GPU, to say that nothing ran on it
ASKED = ("tasks_per_node", "cpus_per_task", "memory_MB", "gpus", "typed", "time_s", "limit_s")
PREDICTIONS = "predictions"  # of a run: what `lab predict` writes after its end
UNITS = ("B", "kB", "MB", "GB", "TB")


class UsedOnNode(TypedDict, total=False):
    """attempts/<n>/used-<node>.json: what a job had used of one node when it was last looked at."""

    asked: Job  # its keys of ASKED
    seconds: Seconds  # since the job began
    cpu_s: Seconds  # time of its processors
    busiest_cores: Annotated[float, between(0, 1e6)]  # the most between two looks
    memory_bytes: Int  # the most at any time
    n_gpus: Int  # that it saw
    n_gpus_used: Int  # on which something ran at a look
    gpu_percent: float | None  # of their time, the mean of all looks
    n_gpu_looks: Int
    sha256: str


def used_on_nodes(run_dir: Path, n: int) -> list[UsedOnNode]:
    """What attempt `n` used of each node that was looked at; empty outside of a job."""
    files = sorted((run_dir / "attempts" / str(n)).glob("used-*.json"))
    nodes: list[UsedOnNode | None] = [read_advisory(file, UsedOnNode) for file in files]
    return [node for node in nodes if node and "seconds" in node]


def format_used(nodes: list[UsedOnNode]) -> str | None:
    """`0.9 of 2 cores, 0.6 of 2 GB, 0:00:21 of 0:10:00`: of several nodes the most; None of none."""
    if not nodes:
        return None
    asked = nodes[0].get("asked", {})
    seconds = max(node["seconds"] for node in nodes)
    parts = [
        f"{max(map(mean_cores, nodes)):.1f}{of_cores(asked)}",
        f"{peak_bytes(nodes) / GB:.1f}{of_memory(asked)}",
    ]
    percents = [x for node in nodes if (x := node.get("gpu_percent")) is not None]
    if percents:
        parts.append(f"{counted(asked.get('gpus', 0), 'GPU')} at {max(percents):.0f} %")
    limit_s = asked.get("limit_s")
    parts.append(format_clock(seconds) + (f" of {format_clock(limit_s)}" if limit_s else ""))
    if len(nodes) > 1:
        parts.append(f"the most of {len(nodes)} nodes")
    return ", ".join(parts)


def of_cores(asked: Job) -> str:
    n = asked.get("tasks_per_node", 0) * asked.get("cpus_per_task", 0)
    return f" of {counted(n, 'core')}" if n else " cores"


def of_memory(asked: Job) -> str:
    memory_MB = asked.get("memory_MB")
    return f" of {memory_MB / 1000:g} GB" if memory_MB else " GB"


def mean_cores(node: UsedOnNode) -> float:
    return node.get("cpu_s", 0) / max(1, node["seconds"])


def peak_bytes(nodes: list[UsedOnNode]) -> int:
    return max(node.get("memory_bytes", 0) for node in nodes)


def settings_that_would_do(run_dir: Path, attempts: list[AttemptFiles]) -> str | None:
    """`job.mem=6G job.time=00:30:00`: what to ask for where much less was used; None: nothing.

    Nothing is said of a run that has not finished: it would have used more. Each setting is above the
    most that any attempt used, on any node.
    """
    used = [nodes for attempt in attempts if (nodes := used_on_nodes(run_dir, attempt.n))]
    if not used or attempts[-1].end.get("status") != "finished":
        return None
    asked = used[-1][0].get("asked", {})
    nodes = [node for nodes in used for node in nodes]
    settings = [
        enough_cores(asked, nodes),
        enough_memory(asked, nodes),
        enough_gpus(asked, nodes),
        enough_time(asked, nodes) if len(attempts) == 1 else None,
    ]
    return " ".join(filter(None, settings)) or None


def enough_cores(asked: Job, nodes: list[UsedOnNode]) -> str | None:
    if "cpus_per_task" not in asked.get("typed", []):
        return None
    used = max(max(node.get("busiest_cores", 0), mean_cores(node)) for node in nodes)
    per_task = max(1, math.ceil(MARGIN * used / asked.get("tasks_per_node", 1)))
    if per_task > MUCH_LESS * asked.get("cpus_per_task", 0):
        return None
    return f"job.cpus_per_task={per_task}"


def enough_memory(asked: Job, nodes: list[UsedOnNode]) -> str | None:
    memory_MB = asked.get("memory_MB")
    if "mem" not in asked.get("typed", []) or not memory_MB:
        return None
    enough_GB = max(1, math.ceil(MARGIN * peak_bytes(nodes) / GB))
    if 1000 * enough_GB > MUCH_LESS * memory_MB:
        return None
    return f"job.mem={enough_GB}G"


def enough_gpus(asked: Job, nodes: list[UsedOnNode]) -> str | None:
    n_asked = asked.get("gpus", 0)
    for node in nodes:
        if node.get("n_gpus") != n_asked or node.get("n_gpu_looks", 0) < ENOUGH_LOOKS:
            return None
    n_used = max(node.get("n_gpus_used", 0) for node in nodes)
    return f"job.gpus={n_used}" if n_used < n_asked else None


def enough_time(asked: Job, nodes: list[UsedOnNode]) -> str | None:
    limit_s = asked.get("limit_s")
    if not limit_s or limit_s != asked.get("time_s"):  # of chunks, job.time is the time of all
        return None
    seconds = max(node["seconds"] for node in nodes)
    enough_s = STEP_S * math.ceil(TIME_MARGIN * seconds / STEP_S)
    return f"job.time={format_hms(enough_s)}" if enough_s <= MUCH_LESS * limit_s else None


def bytes_below(directory: Path) -> int:
    """Of all files below a directory, links not followed; of what vanishes meanwhile nothing."""
    n_bytes = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                n_bytes += os.lstat(os.path.join(folder, name)).st_size
    return n_bytes


def size_of_run(run_dir: Path) -> int:
    """With the checkpoints, also when they lie elsewhere, behind the link of the run."""
    weights = run_dir / "checkpoints"
    behind_link = bytes_below(weights.resolve()) if weights.is_symlink() else 0
    return bytes_below(run_dir) + behind_link


def size_of_row(row: Mapping[str, Any]) -> int:
    """As `size_of_run`, for a run in a list: what it weighed at its end, and what was predicted since.

    One that goes on, that lacks weights by now, or that an earlier version wrote, is looked at.
    """
    run_dir = Path(row["run_dir"])
    is_whole = (run_dir / "checkpoints").exists() and not (run_dir / "archived.json").exists()
    if row["size_bytes"] is None or row["pruned"] or row["status"] not in ENDED or not is_whole:
        return size_of_run(run_dir)
    return row["size_bytes"] + bytes_below(run_dir / PREDICTIONS)


def format_bytes(n_bytes: int) -> str:
    """A size as text: 83 kB, 4.2 GB."""
    size: float = n_bytes
    for unit in UNITS:
        if size < 999.5 or unit == UNITS[-1]:
            break
        size /= 1000
    return f"{size:.2g} {unit}" if size < 9.95 and unit != "B" else f"{size:.0f} {unit}"
