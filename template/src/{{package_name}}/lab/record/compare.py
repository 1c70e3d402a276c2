# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Compares the results of two runs: bitwise, within tolerance, differs, not comparable."""

import math

from ..errors import NotComparable
from .atomic import number
from .diff import config_of, data_of, start_of
from .environment import changes
from .index import row_of
from .metrics_file import ROW_KEYS, read_metrics
from .run import Run

TOLERANCE = 1e-3  # relative; what another number of threads or another GPU may change
# Sections of the configuration that change no number.
NO_RESULT = {"paths", "site", "job", "logger", "log", "record", "checkpoint", "profile"}
RESULTS = ("train/", "val/", "test/")  # metrics that must agree; speed and memory need not
PLACE = (
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
    """Prints the verdict; 0: the results agree bitwise or within `tolerance` (relative), 1: they differ.

    Raises:
        NotComparable: the runs were not meant to give the same result, or one of them gave none.
    """
    if reasons := obstacles(a, b):
        raise NotComparable(f"{a.id} and {b.id} are not comparable: " + "; ".join(reasons[:5]))
    for reason in circumstances(a, b):
        print(f"note: {reason}")
    weights = same_weights(a, b)
    if weights is None:
        print("note: a final checkpoint is missing, so weights are not compared")
    if repr(metric_rows(a)) == repr(metric_rows(b)) and weights is not False:
        print("bitwise: metrics are identical" + (" and so are the weights" if weights else ""))
        return 0
    left, right = final_metrics(a), final_metrics(b)
    far = {name: distance(left[name], right[name]) for name in left.keys() & right.keys()}
    worst = max(far, key=far.get)
    figures = (
        f"{worst} {left[worst]:.6g} and {right[worst]:.6g}, relative difference {far[worst]:.2g}"
    )
    if left.keys() == right.keys() and far[worst] <= tolerance:
        print(f"within tolerance {tolerance:g}: {figures} at most")
        return 0
    print(
        f"differs: {figures}"
        + "".join(f"; only one has {name}" for name in left.keys() ^ right.keys())
    )
    return 1


def obstacles(a: Run, b: Run) -> list[str]:
    """Why the results of two runs say nothing about each other."""
    states = {run.id: row_of(str(run.dir))["status"] for run in (a, b)}
    found = [f"{run_id} is {state}" for run_id, state in states.items() if state != "finished"]
    found += [f"setting {line}" for line in changes(result_settings(a), result_settings(b))]
    hashes = [data_of(run).get("sha256") for run in (a, b)]
    if hashes[0] != hashes[1]:
        found.append(f"the data differs: {hashes[0]} -> {hashes[1]}")
    if not found and not final_metrics(a).keys() & final_metrics(b).keys():
        found.append("they have no metric in common")
    return found


def result_settings(run: Run) -> dict:
    """The settings that may change a number: not where the data lies, since its hash is compared."""
    kept = {key: value for key, value in config_of(run).items() if key not in NO_RESULT}
    return kept | {
        "data": {
            key: kept["data"][key] for key in kept.get("data", {}) if key not in ("search", "stage")
        }
    }


def circumstances(a: Run, b: Run) -> list[str]:
    """What may explain a difference: other code, machine or threads."""
    trees = [
        (run.record["code"].get("package_tree"), run.record["code"].get("commit")) for run in (a, b)
    ]
    found = [] if trees[0] == trees[1] else ["the code differs; see: lab runs diff"]
    places = ({key: start_of(run).get(key) for key in PLACE} for run in (a, b))
    return found + changes(*places)


def metric_rows(run: Run) -> list[dict]:
    """The logged results by step, without times; the last row is the final result."""
    logged = [
        {k: v for k, v in entry.items() if k in ("step", "epoch") or k.startswith(RESULTS)}
        for entry in read_metrics(run.dir)
    ]
    return [*(entry for entry in logged if entry.keys() - ROW_KEYS), final_metrics(run)]


def final_metrics(run: Run) -> dict[str, float]:
    metrics = {name: number(value) for name, value in row_of(str(run.dir))["metrics"].items()}
    return {name: value for name, value in metrics.items() if name.startswith(RESULTS)}


def distance(a: float, b: float) -> float:
    """Relative difference, 0 for equal values (also both NaN), infinite when only one is finite."""
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    return abs(a - b) / max(abs(a), abs(b)) if math.isfinite(a) and math.isfinite(b) else math.inf


def same_weights(a: Run, b: Run) -> bool | None:
    """Whether the final weights are the same bytes; None when a run has no final checkpoint."""
    paths = [run.checkpoints / "last.ckpt" for run in (a, b)]
    if not all(path.exists() for path in paths):
        return None
    import torch  # slow, and nothing else here needs it

    left, right = (
        torch.load(path, map_location="cpu", weights_only=True)["state_dict"] for path in paths
    )

    def same(one: torch.Tensor, other: torch.Tensor) -> bool:
        bytes_of = (tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (one, other))
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(*bytes_of)

    return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
