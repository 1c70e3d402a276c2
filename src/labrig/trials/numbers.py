"""The numbers of a trial from its runs: the best run, mean and deviation over its seeds, the cost."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, replace

from ..project import Project
from ..record.cost import HOUR_S, sum_of
from ..record.filters import is_number
from ..record.index import recorded_id
from ..record.moments import recorded_moment
from ..record.outcome import COUNT_FIRST
from ..record.ranking import lower_is_better
from ..record.repetitions import RepetitionKeys
from ..record.schema import Row
from ..record.trial_code import code_id, code_of_trees

DEFAULT_METRIC = "val/loss"


@dataclass(frozen=True)
class Metric:
    """What a trial is judged by."""

    name: str
    lower_is_better: bool

    def value_of(self, row: Row) -> float:
        return float(row["metrics"][self.name])


@dataclass(frozen=True)
class TrialNumbers:
    """The runs of a trial and its variants in a few numbers.

    Args:
        status: running or queued where a run is; else the status of the newest run; "" without.
        best: the best last value in the finished runs; None without one.
        mean, sd: over the seeds of the best run's settings, with the same code of the trial; the
            sample deviation, None for one seed.
        init_from: whose weights the best run started from: a run with its trial, or a file.
        age_s: seconds since the newest run was created; None without runs.
    """

    status: str
    n_runs: int
    metric: str
    best: float | None
    best_run: str | None
    mean: float | None
    sd: float | None
    n_seeds: int
    gpu_hours: float
    init_from: str | None
    age_s: float | None


def rows_by_trial(rows: list[Row]) -> dict[str, list[Row]]:
    """The rows of each trial and its variants, in the order of `rows`."""
    of_trial: dict[str, list[Row]] = {}
    for row in rows:
        of_trial.setdefault(row["trial"].partition("/")[0], []).append(row)
    return of_trial


def metric_of(rows: list[Row], name: str | None = None) -> Metric:
    """The metric `name`; by default the one that chose best.ckpt in the newest of `rows`."""
    chosen = next((row["settings"].get("checkpoint") for row in rows if row["settings"]), None)
    chosen = chosen if isinstance(chosen, dict) else {}
    monitor = chosen.get("monitor")
    name = name or monitor or DEFAULT_METRIC
    if name == monitor and chosen.get("mode") in ("min", "max"):
        return Metric(name, chosen["mode"] == "min")
    return Metric(name, lower_is_better(name))


def measured_rows(rows: list[Row], metric: Metric) -> list[Row]:
    """The finished runs that have the metric as a number, best first; of equal ones the newer."""
    measured = [
        row
        for row in rows
        if row["status"] in COUNT_FIRST and is_number(row["metrics"].get(metric.name))
    ]
    return sorted(measured, key=metric.value_of, reverse=not metric.lower_is_better)


def newest_of_each_seed(rows: list[Row]) -> list[Row]:
    """Of runs that differ in their seed only, the newest of each seed. `rows` come newest first."""
    newest: dict[object, Row] = {}
    for row in rows:
        newest.setdefault(row["seed"], row)
    return list(newest.values())


def number_trials(
    project: Project, rows: list[Row], names: list[str], metric_name: str | None = None
) -> dict[str, TrialNumbers]:
    """The numbers of the trials `names`.

    Args:
        rows: all runs, newest first.
        metric_name: for all trials; by default each has its own, see `metric_of`.
    """
    of_trial = rows_by_trial(rows)
    metrics = {name: metric_of(of_trial.get(name, []), metric_name) for name in names}
    keys = RepetitionKeys()
    repetitions = {
        name: repetitions_of_best(of_trial.get(name, []), metrics[name], keys) for name in names
    }
    trees = [
        row["trial_tree"]
        for group in repetitions.values()
        if len({row["trial_tree"] for row in group}) > 1
        for row in group
        if row["trial_tree"]
    ]
    code = code_of_trees(project.root, trees)
    numbers = {
        name: numbers_of(of_trial.get(name, []), metrics[name], repetitions[name], code)
        for name in names
    }
    for name, group in repetitions.items():
        if group and group[0]["init_from"]:
            numbers[name] = replace(numbers[name], init_from=weights_of(group[0], rows))
    return numbers


def weights_of(row: Row, rows: list[Row]) -> str:
    """`20261122-101530-1a2b3c (wide)`: the run whose weights a run started from; else their file.

    Args:
        rows: all runs.
    """
    weights = row["init_from"] or {}
    trials = [each["trial"] for each in rows if recorded_id(each) == weights.get("run")]
    if trials:
        return f"{weights['run']} ({trials[0]})"
    return str(weights.get("source"))


def repetitions_of_best(rows: list[Row], metric: Metric, keys: RepetitionKeys) -> list[Row]:
    """The best run, then all measured runs that differ from it in their seed only, newest first.

    A record without settings repeats none.
    """
    measured = measured_rows(rows, metric)
    if not measured:
        return []
    best = measured[0]
    if not best["settings"]:
        return [best]
    key = keys.key_of(best["settings"])
    directories = {row["run_dir"] for row in measured[1:]}
    repeated = [
        row for row in rows if row["run_dir"] in directories and keys.key_of(row["settings"]) == key
    ]
    return [best, *repeated]


def numbers_of(
    rows: list[Row], metric: Metric, repetitions: list[Row], code: dict[str, str]
) -> TrialNumbers:
    """The numbers of one trial.

    Args:
        rows: its runs, newest first.
        repetitions: see `repetitions_of_best`.
        code: see `code_of_trees`; trees that are not in it count as different code.
    """
    best = repetitions[0] if repetitions else None
    code_of_best = code_id(best, code) if best else None
    same_code = {row["run_dir"] for row in repetitions if code_id(row, code) == code_of_best}
    in_order = [row for row in rows if row["run_dir"] in same_code]
    values = [metric.value_of(row) for row in newest_of_each_seed(in_order)]
    return TrialNumbers(
        status=status_of_trial(rows),
        n_runs=len(rows),
        metric=metric.name,
        best=metric.value_of(best) if best else None,
        best_run=best["run_id"] if best else None,
        mean=statistics.fmean(values) if values else None,
        sd=statistics.stdev(values) if len(values) > 1 else None,
        n_seeds=len(values),
        gpu_hours=sum_of(rows, "gpu_seconds") / HOUR_S,
        init_from=None,
        age_s=max(0.0, time.time() - recorded_moment(rows[0]["created"])) if rows else None,
    )


def status_of_trial(rows: list[Row]) -> str:
    statuses = [row["status"] for row in rows]
    for status in ("running", "queued"):
        if status in statuses:
            return status
    return statuses[0] if statuses else ""
