"""The numbers of a trial from its runs: the best run, mean and deviation over its seeds, the cost."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, replace

from ..errors import LabError
from ..machine.text_formats import HOUR_S
from ..project import Project
from ..record.compare.experiments import group_experiments
from ..record.compare.repetitions import RepetitionKeys
from ..record.files.schema import Row
from ..record.list.cost import sum_of
from ..record.read.evaluations import Alike, EvaluatedOn, alike, sets_in_order
from ..record.read.filters import is_number, recorded_moment
from ..record.read.order import order_of
from ..record.read.ranking import (
    known_mode,
    monitor_of,
    question,
    rank_by_metric,
    require_metric,
    settings_of,
    split_mode,
)
from ..record.read.rows import recorded_id, without_checks
from ..record.read.status import COUNT_FIRST


@dataclass(frozen=True)
class Metric:
    """What a trial is judged by.

    Args:
        mode: min or max; None: nothing says which values are better.
    """

    name: str
    mode: str | None

    def value_of(self, row: Row) -> float:
        return float(row["metrics"][self.name])

    def require_mode(self) -> None:
        """Makes sure that it is known which values are better."""
        if self.mode is None:
            raise LabError(question(self.name, f"--metric {self.name}:max"))


@dataclass(frozen=True)
class TrialNumbers:
    """The runs of a trial and its variants in a few numbers.

    Args:
        status: running or queued where a run is; else the status of the newest run; "" without.
        mode: min or max, which values of the metric are better; None: nothing says it.
        best: the best last value in the finished runs; None without one, and without a mode.
        mean, sd: over the seeds of the best run's experiment; the sample deviation, None for one
            seed.
        init_from: whose weights the best run started from: a run with its trial, or a file.
        data_from: the run that made the data of the best run, with its trial.
        age_s: seconds since the newest run was created; None without runs.
        aside: in words, what was evaluated on other samples; "" for nothing.
    """

    status: str
    n_runs: int
    metric: str
    mode: str | None
    best: float | None
    best_run: str | None
    mean: float | None
    sd: float | None
    n_seeds: int
    gpu_hours: float
    init_from: str | None
    age_s: float | None
    aside: str = ""
    data_from: str | None = None


def rows_by_trial(rows: list[Row]) -> dict[str, list[Row]]:
    """The rows of each trial and its variants, in the order of `rows`."""
    of_trial: dict[str, list[Row]] = {}
    for row in rows:
        of_trial.setdefault(row["trial"].partition("/")[0], []).append(row)
    return of_trial


def metric_of(rows: list[Row], typed: str | None = None) -> Metric:
    """The metric that was typed, such as `val/loss` or `val/fid:min`; by default the one that chose
    best.ckpt in the newest of `rows`.
    """
    name, mode = split_mode(typed or monitor_of(rows))
    return Metric(name, mode or known_mode(name, settings_of(rows)))


def measured_rows(rows: list[Row], metric: Metric) -> list[Row]:
    """The finished runs that have the metric as a number."""
    return [
        row
        for row in without_checks(rows)
        if row["status"] in COUNT_FIRST and is_number(row["metrics"].get(metric.name))
    ]


def compared_rows(rows: list[Row], metric: Metric, on: EvaluatedOn | None = None) -> Alike:
    """The measured runs, as far as they were evaluated on the same samples.

    Args:
        rows: newest first.
        on: the samples, if a run has these.
    """
    return alike(measured_rows(rows, metric), metric.name, on)


def common_samples(
    of_trial: dict[str, list[Row]], metrics: dict[str, Metric]
) -> dict[str, EvaluatedOn]:
    """By metric, the samples on which trials are compared, so that a column of the tree shows like."""
    measured: dict[str, list[Row]] = {}
    for name, metric in metrics.items():
        measured.setdefault(metric.name, []).extend(measured_rows(of_trial.get(name, []), metric))
    return {
        metric: sets_in_order(sorted(rows, key=order_of, reverse=True), metric)[0]
        for metric, rows in measured.items()
        if rows
    }


def remark_on(compared: Alike, common: EvaluatedOn | None) -> str:
    """What the numbers of a trial leave out, and whether they are of other samples than those of others."""
    parts = []
    if compared.on and compared.on != common:
        parts.append("on other data or samples than other trials")
    if compared.remark:
        parts.append(f"left aside: {compared.remark}")
    return ", ".join(parts)


def number_trials(
    project: Project, rows: list[Row], names: list[str], metric_name: str | None = None
) -> dict[str, TrialNumbers]:
    """The numbers of the trials `names`.

    Args:
        rows: all runs, newest first.
        metric_name: for all trials; by default each has its own, see `metric_of`.
    """
    if metric_name:
        require_metric(rows, split_mode(metric_name)[0])
    of_trial = rows_by_trial(rows)
    metrics = {name: metric_of(of_trial.get(name, []), metric_name) for name in names}
    for name in names:
        if metric_name and name in of_trial:
            metrics[name].require_mode()
    common = common_samples(of_trial, metrics)
    compared = {
        name: compared_rows(of_trial.get(name, []), metrics[name], common.get(metrics[name].name))
        for name in names
    }
    bests = {name: best_of(compared[name].rows, metrics[name]) for name in names}
    repeated = {
        row["run_dir"]
        for name, best in bests.items()
        if best
        for row in rows_like(best, compared[name].rows)
    }
    experiments = group_experiments([row for row in rows if row["run_dir"] in repeated])
    experiment_of = {
        row["run_dir"]: experiment
        for experiment in experiments
        for row in (*experiment.rows, *experiment.older)
    }
    numbers = {}
    for name in names:
        best = bests[name]
        repetitions = experiment_of[best["run_dir"]].rows if best else []
        numbers[name] = replace(
            numbers_of(of_trial.get(name, []), metrics[name], best, repetitions),
            aside=remark_on(compared[name], common.get(metrics[name].name)),
        )
        if best and best["init_from"]:
            numbers[name] = replace(numbers[name], init_from=weights_of(best, rows))
        if best and best["data"] and "run" in best["data"]:
            made_by = with_trial(best["data"]["run"], rows)
            numbers[name] = replace(numbers[name], data_from=made_by)
    return numbers


def best_of(measured: list[Row], metric: Metric) -> Row | None:
    """The best of these runs, of equal ones the newest; None where nothing says which is better."""
    ranked = rank_by_metric(measured, metric.name, metric.mode) if metric.mode else []
    return ranked[0] if ranked else None


def rows_like(best: Row, rows: list[Row]) -> list[Row]:
    """The rows with the settings of the best, seeds aside: of thousands, only they may repeat it."""
    keys = RepetitionKeys()
    wanted = keys.split(best["settings"])[0]
    return [row for row in rows if keys.split(row["settings"])[0] == wanted]


def weights_of(row: Row, rows: list[Row]) -> str:
    """`20261122-101530-1a2b3c (wide)`: the run whose weights a run started from; else their file.

    Args:
        rows: all runs.
    """
    weights = row["init_from"] or {}
    if any(recorded_id(each) == weights.get("run") for each in rows):
        return with_trial(weights["run"], rows)
    return str(weights.get("source"))


def with_trial(run_id: str, rows: list[Row]) -> str:
    """`20261122-101530-1a2b3c (wide)`; the id alone of a run that is not among `rows`."""
    trials = [each["trial"] for each in rows if recorded_id(each) == run_id]
    return f"{run_id} ({trials[0]})" if trials else run_id


def numbers_of(
    rows: list[Row], metric: Metric, best: Row | None, repetitions: list[Row]
) -> TrialNumbers:
    """The numbers of one trial.

    Args:
        rows: its runs, newest first.
        best: its best run.
        repetitions: the runs of the experiment of `best`, one of each seed.
    """
    values = [metric.value_of(row) for row in repetitions]
    return TrialNumbers(
        status=status_of_trial(rows),
        n_runs=len(rows),
        metric=metric.name,
        mode=metric.mode,
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
