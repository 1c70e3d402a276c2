"""`lab runs compare`: the interval of a metric over one test set, and whether two runs differ on it.

It computes from what `lab predict` writes, and looks whether the record has the same number.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np

from ...command_parser import CommandParser
from ...errors import Failed, LabError, NotComparable, require_package
from ...hdf5.file.checksum import fingerprint
from ...hdf5.file.joined import read_layouts
from ...hdf5.file.layout import Layout, read_layout
from ...hdf5.read.order import groups_of
from ...machine.text_formats import counted
from ...project import Project
from ...record.compare.results import distance
from ...record.compare.seed_statistics import CONFIDENCE, format_p
from ...record.files.atomic import number
from ...record.files.json_lines import read_lines
from ...record.files.schema import Prediction
from ...record.read.attempt_files import read_attempts
from ...record.read.evaluations import TEST, checkpoint_hashes
from ...record.read.find import RUN_HELP, find_run
from ...record.read.rows import read_row
from ...record.read.run import Run, run_roots
from ...record.reproduce.recorded_inputs import find_recorded_data
from ...record.verify.command import PREDICTIONS
from .evaluate import TOLERANCE
from .predict import parse_arguments as prediction_options
from .predict import predict_member
from .predictions import ROW, START

N_DRAWS = 2000  # of a bootstrap
DRAWN_AT_ONCE = 1 << 20  # numbers, 8 MB
FEW_GROUPS = 20  # an interval of fewer is too narrow
ACCURACY = ("acc", "accuracy")
ERRORS = {"mae": np.abs, "mse": np.square}
CLASS = "class"  # the field of a prediction


@dataclass(frozen=True)
class Measured:
    """What a run got for each sample of a split, in their order.

    Attributes:
        row_N: of each sample in the data file.
        value_N: of the metric, float64.
        group_N: which samples are drawn together, numbers from 0.
        has_groups: whether these are groups of the data; otherwise each sample is one.
    """

    row_N: np.ndarray
    value_N: np.ndarray
    group_N: np.ndarray
    has_groups: bool


def compare_command(project: Project, args: list[str]) -> None:
    """`lab runs compare`."""
    options = parse_arguments(args)
    require_package("scipy", "lab runs compare")
    split, _, quantity = options.metric.rpartition("/")
    metric = f"{split or TEST}/{quantity}"
    runs = [find_run(run_roots(project), word) for word in options.runs]
    measured = [measure(project, run, metric, options.label) for run in runs]
    for run, of_run in zip(runs, measured, strict=True):
        note_other_number(run, metric, float(of_run.value_N.mean()))
    require_same_samples(runs, measured)
    print("\n".join(format_comparison(runs, measured, metric)))


def parse_arguments(args: list[str]) -> argparse.Namespace:
    parser = CommandParser(
        prog="lab runs compare",
        description=f"The {CONFIDENCE * 100:.0f} % interval of a metric over the samples of one test "
        "set, by bootstrap, and for two runs that of their difference; where each sample is right or "
        "wrong also McNemar's test. Samples of one group are drawn together. Runs without predictions "
        "predict first.",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help=f"one or two; {RUN_HELP}")
    parser.add_argument(
        "--metric",
        required=True,
        metavar="NAME",
        help="acc, mae, mse, or a field of predict_step with a number for each sample; val/acc: of "
        "that split",
    )
    parser.add_argument("--label", default="y", metavar="FIELD", help="of the data file (y)")
    options = parser.parse_args(args)
    if len(options.runs) > 2:
        parser.error("name one run or two")
    return options


def measure(project: Project, run: Run, metric: str, label: str) -> Measured:
    """The metric for each sample, from the newest predictions of the weights and data of the record."""
    split, _, quantity = metric.rpartition("/")
    predicted = read_predictions(run, split)
    if predicted is None:
        predict_member(project, run, prediction_options([str(run.dir), f"split={split}"]))
        predicted = read_predictions(run, split)
    if predicted is None:
        raise Failed(
            f"the predictions of {run.id} are not of the weights and data of its record. "
            f"Look: lab runs show {run.id}"
        )
    files = find_recorded_data(project, run) if "size_bytes" in run.data else []
    data = read_layouts(files) if files else None
    row_N = predicted.map(predicted.field(ROW))
    group_N = groups_of(data, row_N) if data else None
    if group_N is None and START in predicted.fields:
        group_N = row_N  # windows of one sequence are not independent
    return Measured(
        row_N,
        values_of(predicted, data, row_N, quantity, label),
        np.arange(len(row_N)) if group_N is None else group_N,
        group_N is not None,
    )


def read_predictions(run: Run, split: str) -> Layout | None:
    """What the weights of the run's numbers predict for a split of its data; None without a file that
    is as it was written.
    """
    of_numbers, _ = checkpoint_hashes(read_attempts(run.dir))
    wanted = (split, of_numbers, run.data.get("sha256"))
    for row in reversed(read_lines(run.dir / PREDICTIONS, Prediction)):
        data = row.get("data", {}).get("sha256")
        is_wanted = (row.get("split"), row.get("checkpoint_sha256"), data) == wanted
        path = run.dir / row.get("path", "")
        if not (is_wanted and path.is_file()):
            continue
        layout = read_layout(path)
        if fingerprint(layout)["sha256"] == row.get("content_sha256"):
            if not row.get("code", {}).get("same"):
                print(
                    f"lab: {path.name} was predicted by other code than the run's", file=sys.stderr
                )
            return layout
    return None


def values_of(
    predicted: Layout, data: Layout | None, row_N: np.ndarray, quantity: str, label: str
) -> np.ndarray:
    """The metric of each sample, (N,) float64; the mean over what a sample has several of.

    Args:
        data: the file of the labels.
        label: a field of it.
    """
    if quantity in predicted.fields:
        value = predicted.map(predicted.field(quantity))
    elif quantity in ACCURACY:
        value = predicted_classes(predicted) == labels(data, row_N, label)
    elif quantity in ERRORS:
        guess = predicted.map(predicted.field(only_field(predicted, 1, quantity))).astype(float)
        truth = labels(data, row_N, label)
        value = ERRORS[quantity](guess.reshape(truth.shape) - truth)
    else:
        raise LabError(
            f"what {quantity} of one sample is, is not known: {', '.join((*ACCURACY, *ERRORS))} are. "
            f"Have predict_step return a number for each sample as {quantity!r}, then: lab predict "
            "RUN --today. A metric that is no mean over samples, such as f1, cannot be compared so"
        )
    return value.reshape(len(row_N), -1).mean(1, dtype=np.float64)


def predicted_classes(predicted: Layout) -> np.ndarray:
    if CLASS in predicted.fields:
        return predicted.map(predicted.field(CLASS))
    return predicted.map(predicted.field(only_field(predicted, 2, "acc"))).argmax(1)


def only_field(predicted: Layout, n_axes: int, quantity: str) -> str:
    """The one field of predictions with so many axes."""
    shapes = {
        name: array.shape for name, array in predicted.fields.items() if name not in (ROW, START)
    }
    fitting = [
        name
        for name, shape in shapes.items()
        if len(shape) == n_axes or (n_axes == 1 and shape[1:] == (1,))
    ]
    if len(fitting) != 1:
        raise LabError(
            f"which field {quantity} is computed from is not clear: {predicted.path.name} has "
            f"{', '.join(f'{name} {shape}' for name, shape in shapes.items())}. Have predict_step "
            f"return a number for each sample as {quantity!r}"
        )
    return fitting[0]


def labels(data: Layout | None, row_N: np.ndarray, label: str) -> np.ndarray:
    """The label of each sample."""
    if data is None or label not in data.fields:
        there = f"Fields: {', '.join(data.fields)}" if data else "The data are no data file"
        raise LabError(f"the data have no field {label!r}, which --label names. {there}")
    return data.map(data.field(label))[row_N]


def note_other_number(run: Run, metric: str, mean: float) -> None:
    """Says where the record has another number of this name."""
    recorded = number(read_row(str(run.dir))["metrics"].get(metric))
    if isinstance(recorded, int | float) and distance(recorded, mean) > TOLERANCE:
        print(
            f"lab: {metric} is {mean:.6g} over the samples, and {recorded:.6g} in the record of "
            f"{run.id}: it was recorded as something else",
            file=sys.stderr,
        )


def require_same_samples(runs: list[Run], measured: list[Measured]) -> None:
    """Makes sure that both runs predicted the same samples."""
    hashes = {run.data.get("sha256") for run in runs}
    if len(hashes) > 1 or not all(
        np.array_equal(measured[0].row_N, other.row_N) for other in measured
    ):
        ids = " and ".join(run.id for run in runs)
        raise NotComparable(f"{ids} were tested on other samples. What differs: lab runs diff")


def format_comparison(runs: list[Run], measured: list[Measured], metric: str) -> list[str]:
    """The lines of the command."""
    first = measured[0]
    n_groups = int(first.group_N.max()) + 1
    over = counted(len(first.row_N), "sample")
    if first.has_groups:
        over += f" in {counted(n_groups, 'group')}"
    lines = [f"{metric} over {over}, with its {CONFIDENCE:.0%} interval (bootstrap)"]
    lines += [
        f"{run.id}  {run.trial}  {format_interval(of_run.value_N, of_run.group_N)}"
        for run, of_run in zip(runs, measured, strict=True)
    ]
    if len(measured) == 2:
        second = measured[1]
        difference_N = second.value_N - first.value_N
        lines.append(f"second - first  {format_interval(difference_N, first.group_N)}")
        is_binary = all(np.isin(each.value_N, (0, 1)).all() for each in measured)
        if is_binary and not first.has_groups:
            lines.append(format_mcnemar(difference_N))
    if first.has_groups and n_groups < FEW_GROUPS:
        lines.append(f"few groups: with fewer than {FEW_GROUPS} such intervals are too narrow")
    return lines


def format_interval(value_N: np.ndarray, group_N: np.ndarray) -> str:
    low, high = bootstrap_interval(value_N, group_N)
    return f"{value_N.mean():.4g} ({low:.4g} to {high:.4g})"


def bootstrap_interval(value_N: np.ndarray, group_N: np.ndarray) -> tuple[float, float]:
    """The percentile interval of the mean over samples, drawn by group; the same at each call."""
    from scipy.stats import bootstrap  # takes a second

    n_G = np.bincount(group_N)
    if len(n_G) < 2:
        raise LabError("one sample or group alone has no interval. Test on more of them")
    drawn = bootstrap(
        (np.bincount(group_N, value_N), n_G),
        lambda sum_G, n_G, axis: sum_G.sum(axis) / n_G.sum(axis),
        n_resamples=N_DRAWS,
        batch=max(1, DRAWN_AT_ONCE // len(n_G)),
        vectorized=True,
        paired=True,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=0,
    )
    return float(drawn.confidence_interval.low), float(drawn.confidence_interval.high)


def format_mcnemar(difference_N: np.ndarray) -> str:
    """McNemar's exact test, of the samples that only one of two runs has right."""
    from scipy.stats import binomtest

    only_first, only_second = int((difference_N < 0).sum()), int((difference_N > 0).sum())
    n_unequal = only_first + only_second
    p = float(binomtest(only_second, n_unequal).pvalue) if n_unequal else 1.0
    return (
        f"right in the first alone {only_first}, in the second alone {only_second}: "
        f"McNemar's exact test, {format_p(p)}"
    )
