"""Compares the results of two runs: bitwise, within tolerance, different, or not comparable."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import NotComparable
from ...machine.text_formats import and_more
from ...project import read_yaml
from ..files.atomic import number
from ..files.metrics_file import ROW_KEYS, read_metrics
from ..read.attempt_files import list_changes, read_attempts
from ..read.rows import read_evaluated, read_row
from ..read.run import Run, stretches_of
from ..read.settings import is_without_result, list_differences
from ..read.status import deciding_attempt, final_weights
from ..reproduce.recorded_inputs import recorded_weights

if TYPE_CHECKING:
    import torch


# Compares the final weights of two runs.


@dataclass(frozen=True)
class WeightsVerdict:
    """Whether two runs ended with the same weights; None when they cannot be compared."""

    agree: bool | None
    text: str


def compare_weights(a: Run, b: Run) -> WeightsVerdict:
    """Compares the `state_dict` of both final checkpoints byte by byte."""
    paths = [final_weights(run.checkpoints) for run in (a, b)]
    if not all(path.exists() for path in paths):
        return WeightsVerdict(None, "weights are not compared, a final checkpoint is missing")
    from ..reproduce.weight_tensors import read_whole_weights  # torch, which only this needs

    left, right = (read_whole_weights(path) for path in paths)
    shapes = [{name: tensor.shape for name, tensor in state.items()} for state in (left, right)]
    if shapes[0] != shapes[1]:
        return WeightsVerdict(False, "the weights differ in names or shapes")
    if all(same_bytes(left[name], right[name]) for name in left):
        return WeightsVerdict(True, "the weights are identical")
    largest = max(largest_difference(left[name], right[name]) for name in left)
    return WeightsVerdict(False, f"the weights differ, by {largest:.2g} at most")


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have the same type, shape and bytes, so that NaN equals itself."""
    import torch

    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    bytes_a, bytes_b = (tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (a, b))
    return torch.equal(bytes_a, bytes_b)


def largest_difference(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest distance of two entries of the same place; NaN counts as 0."""
    if a.numel() == 0:
        return 0.0
    return float((a.double() - b.double()).abs().nan_to_num().max())


TOLERANCE = 1e-3  # relative; what another number of threads or another GPU may change
MAX_REASONS = 5  # in the message about runs that are not comparable
# Sections of the configuration that change no number.
NO_RESULT = {"paths", "site", "job", "logger", "log", "record", "checkpoint", "profile", "budget"}
NO_RESULT |= {"init_from"}  # the hash of the weights is compared instead
# Settings of the data that say where it lies; its hash is compared instead.
DATA_PLACES = ("path", "search", "stage", "pack", "stored")
# Metrics that no repetition has again: ours, and those of Lightning's monitors of speed.
SPEED = re.compile(r"speed/|DeviceStatsMonitor|.*[|/]time$|.*per_sec")
# What start.json says of the machine that may explain a difference.
OF_START = (
    *("accelerator", "device", "devices", "precision", "threads", "instructions", "flags"),
    *("world_size", "torch", "cuda", "determinism"),
)


def compare_results(a: Run, b: Run, tolerance: float = TOLERANCE) -> int:
    """Prints the verdict.

    Args:
        tolerance: relative.

    Returns:
        0: the results agree bitwise or within `tolerance`, 1: they differ.
    """
    for note in change_notes(a, b):
        print(f"note: {note}")
    obstacles = find_obstacles(a, b)
    if obstacles:
        reasons = and_more(obstacles, MAX_REASONS, between="; ")
        raise NotComparable(
            f"{a.id} and {b.id} are not comparable: {reasons}. "
            f"What differs: lab runs diff {a.id} {b.id}"
        )
    left_out = metrics_of_other_steps(a, b)
    for note in [*find_explanations(a, b), *format_left_out(a, b, left_out)]:
        print(f"note: {note}")
    weights = compare_weights(a, b)
    if weights.agree is None:
        print(f"note: {weights.text}")
    # As text, where NaN equals itself and -0.0 differs from 0.0.
    metrics_agree = repr(metric_rows(a, left_out)) == repr(metric_rows(b, left_out))
    if metrics_agree and weights.agree is not False:
        also = " and so are the weights" if weights.agree else ""
        print(f"bitwise: metrics are identical{also}")
        return 0
    return compare_final_metrics(
        final_metrics(a, left_out), final_metrics(b, left_out), tolerance, weights
    )


def compare_final_metrics(
    left: dict[str, float], right: dict[str, float], tolerance: float, weights: WeightsVerdict
) -> int:
    """Prints the metric that differs most; 0: all agree within `tolerance`, 1: they differ."""
    distances = {name: distance(left[name], right[name]) for name in left.keys() & right.keys()}
    worst = max(distances, key=distances.__getitem__)
    figures = (
        f"{worst} {left[worst]:.6g} and {right[worst]:.6g}, "
        f"relative difference {distances[worst]:.2g}"
    )
    unpaired = sorted(left.keys() ^ right.keys())
    if not unpaired and distances[worst] <= tolerance:
        most = f"{figures} at most" if distances[worst] else "the final metrics are identical"
        print(f"within tolerance {tolerance:g}: {most}; {weights.text}")
        return 0
    only_one = "".join(f"; only one has {name}" for name in unpaired)
    print(f"differs: {figures}{only_one}; {weights.text}")
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
    if hash_a and hash_b and hash_a != hash_b:
        obstacles.append(f"the data differs: {hash_a} -> {hash_b}")
    weights_a, weights_b = (recorded_weights(run) or {} for run in (a, b))
    if weights_a.get("sha256") != weights_b.get("sha256"):
        names = [weights.get("source", "random weights") for weights in (weights_a, weights_b)]
        obstacles.append(f"they started from other weights: {names[0]} -> {names[1]}")
    left_out = metrics_of_other_steps(a, b)
    if not obstacles and not final_metrics(a, left_out).keys() & final_metrics(b, left_out).keys():
        obstacles.append("they have no metric in common")
    return obstacles


def result_settings(run: Run) -> dict[str, Any]:
    """The settings that may change a number."""
    settings = {key: value for key, value in last_config(run).items() if key not in NO_RESULT}
    data = settings.get("data") or {}
    callbacks = settings.get("callbacks") or {}
    return settings | {
        "data": {key: value for key, value in data.items() if key not in DATA_PLACES},
        "callbacks": {
            name: callbacks[name]
            for name in callbacks
            if not is_without_result(f"callbacks.{name}")
        },
    }


def last_config(run: Run) -> dict[str, Any]:
    """The configuration of the attempt that made the result, which may have extended the run."""
    return read_yaml(stretches_of(run)[-1].config)


def change_notes(a: Run, b: Run) -> list[str]:
    """What the attempts of each run had different."""
    return [
        f"{run.id}: {change}"
        for run in (a, b)
        for change in list_changes(run.record, read_attempts(run.dir))
    ]


def find_explanations(a: Run, b: Run) -> list[str]:
    """What may explain a difference: other or unknown code and data, machine or threads."""
    explanations = code_explanations(a, b)
    unknown = [run.id for run in (a, b) if "sha256" not in run.data]
    if unknown:
        explanations.append(f"data are not compared: not recorded in {' and '.join(unknown)}")
    explanations += list_differences(*(read_row(str(run.dir))["parsed"] for run in (a, b)))
    starts = ({key: run.last_start.get(key) for key in OF_START} for run in (a, b))
    return explanations + list_differences(*starts)


def code_explanations(a: Run, b: Run) -> list[str]:
    """Whether the code differs, or is unknown."""
    unknown = [run.id for run in (a, b) if not run.record["code"].get("commit")]
    if unknown:
        return [f"code is not compared: not recorded in {' and '.join(unknown)}"]
    if a.record["code"].get("tree") != b.record["code"].get("tree"):
        return ["the code differs; see: lab runs diff"]
    return []


def metrics_of_other_steps(a: Run, b: Run) -> set[str]:
    """The metrics that cannot be compared, because another log.every_n_steps logged other steps.

    They are means over the steps since the last row.
    """
    if steps_per_row(a) == steps_per_row(b):
        return set()
    left = steps_by_metric(a)
    right = steps_by_metric(b)
    return {name for name in left.keys() | right.keys() if left.get(name) != right.get(name)}


def steps_per_row(run: Run) -> int | None:
    return (last_config(run).get("log") or {}).get("every_n_steps")


def steps_by_metric(run: Run) -> dict[str, list[int]]:
    """The steps at which each metric was logged."""
    steps: dict[str, list[int]] = {}
    for row in metric_rows(run, set())[:-1]:
        for name in row.keys() - ROW_KEYS:
            steps.setdefault(name, []).append(row["step"])
    return steps


def format_left_out(a: Run, b: Run, left_out: set[str]) -> list[str]:
    """A line about the metrics that are not compared, if there are any."""
    if not left_out:
        return []
    names = ", ".join(sorted(left_out))
    return [f"not compared: {names} (log.every_n_steps {steps_per_row(a)} and {steps_per_row(b)})"]


def metric_rows(run: Run, left_out: set[str]) -> list[dict[str, Any]]:
    """The logged results by step, without times and speed; the last row is the final result."""
    deciding = deciding_attempt(read_attempts(run.dir))
    rows = []
    for line in read_metrics(run.dir):
        # A finished run keeps its result; the rows of what was tried after it are none.
        if deciding and line["attempt"] > deciding.n:
            continue
        row = {
            key: value
            for key, value in line.items()
            if key in ("step", "epoch") or is_result(key, left_out)
        }
        if row.keys() - ROW_KEYS:
            rows.append(row)
    return [*rows, final_metrics(run, left_out)]


def final_metrics(run: Run, left_out: set[str]) -> dict[str, float]:
    """The final results, without speed and memory, and without what `lab eval` measured later."""
    metrics = read_row(str(run.dir))["metrics"]
    left_out = left_out | read_evaluated(run.dir).keys()
    return {name: number(value) for name, value in metrics.items() if is_result(name, left_out)}


def is_result(name: str, left_out: set[str]) -> bool:
    """Whether a key of a row is a metric that a repetition must have again."""
    return name not in ROW_KEYS and name not in left_out and not SPEED.match(name)


def distance(a: float, b: float) -> float:
    """Relative difference, 0 for equal values (also both NaN), infinite when only one is finite."""
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    if math.isfinite(a) and math.isfinite(b):
        return abs(a - b) / max(abs(a), abs(b))
    return math.inf
