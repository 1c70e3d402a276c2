# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Compares the results of two runs: bitwise, within tolerance, different, or not comparable."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..errors import NotComparable
from .atomic import number
from .differences import list_differences
from .index import read_row
from .metrics_file import ROW_KEYS, read_metrics
from .run import Run

if TYPE_CHECKING:
    import torch

TOLERANCE = 1e-3  # relative; what another number of threads or another GPU may change
MAX_REASONS = 5  # in the message about runs that are not comparable
# Sections of the configuration that change no number.
NO_RESULT = {"paths", "site", "job", "logger", "log", "record", "checkpoint", "profile"}
# Settings of the data that say where it lies; its hash is compared instead.
DATA_PLACES = ("path", "search", "stage")
RESULTS = ("train/", "val/", "test/")  # metrics that must agree; speed and memory need not
# What start.json says of the machine that may explain a difference.
OF_START = (
    "accelerator",
    "device",
    "devices",
    "precision",
    "threads",
    "world_size",
    "torch",
    "cuda",
    "determinism",
)


def compare_results(a: Run, b: Run, tolerance: float = TOLERANCE) -> int:
    """Prints the verdict.

    Args:
        tolerance: relative.

    Returns:
        0: the results agree bitwise or within `tolerance`, 1: they differ.

    Raises:
        NotComparable: the runs were not meant to give the same result, or one of them gave none.
    """
    obstacles = find_obstacles(a, b)
    if obstacles:
        reasons = "; ".join(obstacles[:MAX_REASONS])
        raise NotComparable(f"{a.id} and {b.id} are not comparable: {reasons}")
    for explanation in find_explanations(a, b):
        print(f"note: {explanation}")
    weights_agree = same_weights(a, b)
    if weights_agree is None:
        print("note: a final checkpoint is missing, so weights are not compared")
    # As text, where NaN equals itself and -0.0 differs from 0.0.
    metrics_agree = repr(metric_rows(a)) == repr(metric_rows(b))
    if metrics_agree and weights_agree is not False:
        print(
            "bitwise: metrics are identical" + (" and so are the weights" if weights_agree else "")
        )
        return 0
    return compare_final_metrics(final_metrics(a), final_metrics(b), tolerance)


def compare_final_metrics(left: dict[str, float], right: dict[str, float], tolerance: float) -> int:
    """Prints the metric that differs most; 0: all agree within `tolerance`, 1: they differ."""
    distances = {name: distance(left[name], right[name]) for name in left.keys() & right.keys()}
    worst = max(distances, key=distances.get)
    figures = (
        f"{worst} {left[worst]:.6g} and {right[worst]:.6g}, "
        f"relative difference {distances[worst]:.2g}"
    )
    unpaired = left.keys() ^ right.keys()
    if not unpaired and distances[worst] <= tolerance:
        print(f"within tolerance {tolerance:g}: {figures} at most")
        return 0
    print(f"differs: {figures}" + "".join(f"; only one has {name}" for name in unpaired))
    return 1


def find_obstacles(a: Run, b: Run) -> list[str]:
    """Why the results of two runs say nothing about each other."""
    obstacles = []
    for run in (a, b):
        status = read_row(str(run.dir))["status"]
        if status != "finished":
            obstacles.append(f"{run.id} is {status}")
    differences = list_differences(result_settings(a), result_settings(b))
    obstacles += [f"setting {line}" for line in differences]
    hash_a = a.data.get("sha256")
    hash_b = b.data.get("sha256")
    if hash_a != hash_b:
        obstacles.append(f"the data differs: {hash_a} -> {hash_b}")
    if not obstacles and not final_metrics(a).keys() & final_metrics(b).keys():
        obstacles.append("they have no metric in common")
    return obstacles


def result_settings(run: Run) -> dict[str, Any]:
    """The settings that may change a number."""
    settings = {key: value for key, value in run.config.items() if key not in NO_RESULT}
    data = settings.get("data", {})
    return settings | {
        "data": {key: value for key, value in data.items() if key not in DATA_PLACES}
    }


def find_explanations(a: Run, b: Run) -> list[str]:
    """What may explain a difference: other code, machine or threads."""
    explanations = []
    if code_identity(a) != code_identity(b):
        explanations.append("the code differs; see: lab runs diff")
    start_a = a.last_start
    start_b = b.last_start
    return explanations + list_differences(
        {key: start_a.get(key) for key in OF_START}, {key: start_b.get(key) for key in OF_START}
    )


def code_identity(run: Run) -> tuple[str | None, str | None]:
    code = run.record["code"]
    return code.get("package_tree"), code.get("commit")


def metric_rows(run: Run) -> list[dict[str, Any]]:
    """The logged results by step, without times; the last row is the final result."""
    rows = []
    for line in read_metrics(run.dir):
        row = {
            key: value
            for key, value in line.items()
            if key in ("step", "epoch") or key.startswith(RESULTS)
        }
        if row.keys() - ROW_KEYS:
            rows.append(row)
    return [*rows, final_metrics(run)]


def final_metrics(run: Run) -> dict[str, float]:
    """The final results, without speed and memory."""
    metrics = read_row(str(run.dir))["metrics"]
    return {name: number(value) for name, value in metrics.items() if name.startswith(RESULTS)}


def distance(a: float, b: float) -> float:
    """Relative difference, 0 for equal values (also both NaN), infinite when only one is finite."""
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    if math.isfinite(a) and math.isfinite(b):
        return abs(a - b) / max(abs(a), abs(b))
    return math.inf


def same_weights(a: Run, b: Run) -> bool | None:
    """Whether the final weights are the same bytes; None when a run has no final checkpoint."""
    paths = [run.checkpoints / "last.ckpt" for run in (a, b)]
    if not all(path.exists() for path in paths):
        return None
    import torch  # slow, and nothing else here needs it

    left, right = (
        torch.load(path, map_location="cpu", weights_only=True)["state_dict"] for path in paths
    )
    if left.keys() != right.keys():
        return False
    return all(same_bytes(left[name], right[name]) for name in left)


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have the same type, shape and bytes, so that NaN equals itself."""
    import torch

    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    bytes_a, bytes_b = (tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (a, b))
    return torch.equal(bytes_a, bytes_b)
