"""The points of a sweep: asked for, worked on, told and printed. A point's run says how it went.

=================================================  =========================================
a point that nobody works on, and its run          what becomes of it
=================================================  =========================================
finished, or trained                               told, with the last value of the metric
failed, or the metric is not a number              told as failed
stopped by the pruner                              told as pruned
interrupted, or lost after a checkpoint            the next worker resumes the run
lost before a checkpoint, or there is no run       told as failed, and asked again
=================================================  =========================================

So it does not matter at which instant a worker was killed: whoever asks next looks first.
"""

from __future__ import annotations

import math
import sys
from datetime import datetime
from enum import IntEnum
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, Trial, TrialState

from ..record.files.atomic import number, read_advisory
from ..record.files.process import process_facts
from ..record.files.schema import SummaryRecord
from ..record.read.attempt_files import last_attempt
from ..record.read.status import SILENT_S, alive, silence_s, status_of
from ..record.write.recording import HEARTBEAT_S
from .folder import HASH_CHARACTERS, Sweep, recorded_hash
from .journal import SweepLock, open_storage, open_study, sampler_of

RUN = "run"  # user attributes of a point: its run's directory below the root of all runs
WORKER = "worker"  # the process that works on it; None when it waits to be resumed
TRIES = "tries"  # how many points before it had its values and were lost with their workers
AGAIN = "asked_again"  # on a lost point, whose values another one has
PRUNED = "pruned"  # the step at which the pruner stopped it
ORIGIN = "origin"  # of a point that this sweep did not make: its run, or its sweep
MAX_TRIES = 3
MISSED_S = 1.5 * HEARTBEAT_S  # without a sign of life from a process elsewhere
CHECKPOINTS = ("last.ckpt", "previous.ckpt")
N_POINTS = "n_points"  # user attribute of the study
ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
WORDS = {TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}


class Ended(IntEnum):
    """The exit code of the process of a point. 128 + a signal's number: the signal ended it."""

    DONE = 0  # told, or given to the next worker
    FAILED = 1
    MISTAKE = 2  # also for every other point
    NO_POINT = 10  # none is left
    STOPPED = 130  # a signal asked for it; the point waits to be resumed


class Points:
    """The points of one sweep, as its journal holds them."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.lock = SweepLock(sweep.journal)
        with self.lock:
            self.storage = open_storage(sweep.journal, self.lock)
            self.study = open_study(self.storage, sweep.id, sweep.definition)

    def trial(self, number: int) -> Trial:
        """A point by its number, to write into. It may be that of another process, which has ended."""
        study_id = self.storage.get_study_id_from_name(self.sweep.id)
        trial_id = self.storage.get_trial_id_from_study_id_trial_number(study_id, number)
        return Trial(self.study, trial_id)

    def trials(self, *states: TrialState) -> list[FrozenTrial]:
        """The points in these states, or all, as the journal holds them now."""
        return self.study.get_trials(deepcopy=False, states=states or None)

    def own(self, *states: TrialState) -> list[FrozenTrial]:
        """The points that this sweep made itself."""
        return [trial for trial in self.trials(*states) if ORIGIN not in trial.user_attrs]

    @property
    def n_points(self) -> int:
        """How many points the sweep shall have."""
        return self.study.user_attrs.get(N_POINTS, 0)

    def n_missing(self) -> int:
        """How many points have still to be asked; those that failed do not count."""
        good = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)
        return max(0, self.n_points - len(self.own(*good)))

    def n_open(self) -> int:
        """How many points have still to be told."""
        return max(0, self.n_points - len(self.own(TrialState.COMPLETE, TrialState.PRUNED)))

    def take(self) -> Trial | None:
        """A point for this process to work on: one to resume, else a new one; None when all are taken."""
        self.study.sampler = sampler_of(self.sweep.definition, self.n_points)
        with self.lock:
            self.settle_all()
            number = self.next_number()
            if number is None:
                return None
            trial = self.trial(number)
            trial.set_user_attr(WORKER, process_facts())
        for setting in self.sweep.definition.settings:
            setting.suggest(trial)
        return trial

    def next_number(self) -> int | None:
        """The number of the next point, which is running then; None when there is none."""
        for trial in self.trials(TrialState.RUNNING):
            if WORKER in trial.user_attrs and trial.user_attrs[WORKER] is None:
                return trial.number
        if self.n_missing() == 0:
            return None
        is_grid = self.sweep.definition.sampler == "grid"
        if is_grid and not self.trials(TrialState.WAITING):
            return None
        return self.study.ask().number

    def state_of(self, trial: FrozenTrial) -> str:
        """The state of a point in a word: it is running where a process works on it, else stopped."""
        if trial.state == TrialState.RUNNING and not self.is_worked_on(trial):
            return "stopped"
        return trial.state.name.lower()

    def settle_all(self) -> None:
        """Decides about each point on which nobody works any more."""
        for trial in self.trials(TrialState.RUNNING):
            if not self.is_worked_on(trial):
                self.settle(trial)

    def is_worked_on(self, trial: FrozenTrial) -> bool:
        """Whether a process works on a point, as far as one can know from here."""
        worker = trial.user_attrs.get(WORKER)
        run_dir = self.run_dir(trial)
        if run_dir is not None and status_of(run_dir) == "running":
            return True  # perhaps resumed by hand
        if worker is None:
            return False
        lives = alive(worker)
        if lives is None and run_dir is None:
            assert trial.datetime_start is not None  # only of a point that waits it is None
            age_s = (datetime.now() - trial.datetime_start).total_seconds()
            return age_s < SILENT_S
        return bool(lives)

    def is_awaited(self) -> bool:
        """Whether a worker on another machine is silent, so that its point may be free soon."""
        return any(self.is_silent(trial) for trial in self.trials(TrialState.RUNNING))

    def is_silent(self, trial: FrozenTrial) -> bool:
        """Whether a point belongs to a process elsewhere that has missed a sign of life."""
        worker = trial.user_attrs.get(WORKER)
        run_dir = self.run_dir(trial)
        if worker is None or run_dir is None or alive(worker) is not None:
            return False
        attempt = last_attempt(run_dir)
        return silence_s(run_dir, attempt.n if attempt else 0) > MISSED_S

    def settle_own(self, number: int) -> bool:
        """Decides about the point that this process has worked on, if it is still its own.

        Returns:
            Whether it was told as failed.
        """
        with self.lock:
            trial = self.trials()[number]
            if not trial.state.is_finished() and trial.user_attrs[WORKER] == process_facts():
                self.settle(trial)
            return self.trials()[number].state == TrialState.FAIL

    def settle(self, trial: FrozenTrial) -> None:
        """Decides about a running point by how its run ended; see the table above."""
        number = trial.number
        run_dir = self.run_dir(trial)
        status = status_of(run_dir) if run_dir else "lost"
        if run_dir and status in ("finished", "trained"):
            self.tell(number, run_dir)
        elif PRUNED in trial.user_attrs:
            self.study.tell(number, state=TrialState.PRUNED)
        elif status in ("failed", "damaged"):
            self.study.tell(number, state=TrialState.FAIL)
        elif run_dir and (status == "interrupted" or has_checkpoint(run_dir)):
            self.set_attributes(trial, **{WORKER: None})
        else:
            self.ask_again(trial)

    def tell(self, number: int, run_dir: Path) -> None:
        """Tells the values of a point; as failed when one of them is missing or NaN, or when its run
        has read other data than the points before it.
        """
        before, now = self.data_sha256(), recorded_hash(run_dir)
        if before and now and before != now:
            print(
                f"lab: {run_dir.name} has read other data than the points before it (sha256 "
                f"{now[:HASH_CHARACTERS]}…, not {before[:HASH_CHARACTERS]}…), so its values do not "
                "compare: the point counts as failed",
                file=sys.stderr,
            )
            self.study.tell(number, state=TrialState.FAIL)
            return
        metrics = self.sweep.definition.metrics
        values = values_of(run_dir, metrics)
        if values is None or any(math.isnan(value) for value in values):
            names = ", ".join(
                (read_advisory(run_dir / "summary.json", SummaryRecord) or {}).get("metrics", {})
            )
            print(
                f"lab: {run_dir.name} has no number as {' and '.join(metrics)}. It has: {names}. "
                "Type one of these as sweep.metric",
                file=sys.stderr,
            )
            self.study.tell(number, state=TrialState.FAIL)
        else:
            self.study.tell(number, values)

    def lacks_metric(self, trial: Trial) -> bool:
        """Whether the run of a point has ended, and has never logged what the sweep searches by."""
        run_dir = self.run_dir(trial)
        if run_dir is None or status_of(run_dir) not in ("finished", "trained"):
            return False
        summary = read_advisory(run_dir / "summary.json", SummaryRecord) or {}
        logged = summary.get("metrics", {})
        return any(metric not in logged for metric in self.sweep.definition.metrics)

    def data_sha256(self) -> str | None:
        """The content hash of the data that the points read; None while it is not known.

        Where the file was not found when the sweep began, the first point that was told says it.
        """
        recorded = self.sweep.record.get("data_sha256")
        if recorded or self.sweep.definition.searches_data:
            return recorded
        runs = [self.run_dir(trial) for trial in self.own(TrialState.COMPLETE)]
        return next((recorded_hash(run_dir) for run_dir in runs if run_dir), None)

    def ask_again(self, trial: FrozenTrial) -> None:
        """Fails a point that is lost, and has another one get its values, unless that was tried often.

        A point that was lost while its values were chosen has none to repeat.
        """
        params = trial.system_attrs.get("fixed_params") or trial.params
        tries = trial.user_attrs.get(TRIES, 0) + 1
        is_whole = len(params) == len(self.sweep.definition.space)
        if is_whole and tries < MAX_TRIES:
            # First the new one: a kill between the two is seen below, and nothing is lost.
            if not self.is_waiting(params):
                self.study.enqueue_trial(params, user_attrs={TRIES: tries})
            self.set_attributes(trial, **{AGAIN: True})
        self.study.tell(trial.number, state=TrialState.FAIL)

    def is_waiting(self, params: dict[str, Any]) -> bool:
        """Whether a point with these values waits for a worker."""
        waiting = self.trials(TrialState.WAITING)
        return any(trial.system_attrs["fixed_params"] == params for trial in waiting)

    def set_attributes(self, trial: FrozenTrial, **attributes: Any) -> None:
        for key, value in attributes.items():
            self.trial(trial.number).set_user_attr(key, value)

    def run_dir(self, trial: FrozenTrial | Trial) -> Path | None:
        """The directory of a point's run; None when it has none, or it was deleted."""
        name = trial.user_attrs.get(RUN)
        run_dir = self.sweep.runs / name if name else None
        return run_dir if run_dir and (run_dir / "run.json").exists() else None


def has_checkpoint(run_dir: Path) -> bool:
    """Whether a run can continue from a checkpoint."""
    return any((run_dir / "checkpoints" / name).exists() for name in CHECKPOINTS)


def values_of(run_dir: Path, metrics: list[str]) -> list[float] | None:
    """The last values of metrics in an ended run; None when it lacks one."""
    summary = read_advisory(run_dir / "summary.json", SummaryRecord) or {}
    values = [number(summary.get("metrics", {}).get(metric)) for metric in metrics]
    if not all(isinstance(value, int | float) for value in values):
        return None
    return [float(value) for value in values]


def overrides_of(sweep: Sweep, trial: optuna.trial.BaseTrial) -> list[str]:
    """The overrides of a point: those of the sweep, and its own values."""
    settings = sweep.definition.settings
    of_point = [setting.override(trial.params[setting.name]) for setting in settings]
    return [*sweep.overrides, *of_point]


class SweepProgress:
    """Prints the points that end from now on."""

    def __init__(self, points: Points) -> None:
        self.points = points
        self.printed = {trial.number for trial in points.trials(*ENDED)}

    def print_news(self) -> None:
        for trial in self.points.trials(*ENDED):
            if trial.number not in self.printed:
                self.printed.add(trial.number)
                print(self.line(trial), flush=True)

    def line(self, trial: FrozenTrial) -> str:
        """How far the search is, and how one point ended."""
        n_points = self.points.n_points
        how_far = f"[{n_points - self.points.n_open()}/{n_points}]"
        return f"{how_far:>9} {format_point(self.points, trial)}"


def format_point(points: Points, trial: FrozenTrial) -> str:
    """A point in a line: its values, its settings, its run."""
    result = WORDS.get(trial.state) or format_values(points, trial)
    if AGAIN in trial.user_attrs:
        result = "lost, asked again"
    params = " ".join(format_param(name, value) for name, value in trial.params.items())
    run_id = trial.user_attrs.get(RUN, "").rpartition("/")[2]
    return f"{result}  {params}  {run_id}".rstrip()


def format_values(points: Points, trial: FrozenTrial) -> str:
    names = points.sweep.definition.metrics
    pairs = zip(names, trial.values or [], strict=False)
    return " ".join(f"{name} {value:.5g}" for name, value in pairs)


def format_param(name: str, value: object) -> str:
    return f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"


def best_trials(points: Points) -> list[FrozenTrial]:
    """The points that were trained to their end, best first; of two metrics those on the Pareto front."""
    complete = points.trials(TrialState.COMPLETE)
    directions = points.sweep.definition.directions
    if len(directions) > 1:
        return points.study.best_trials if complete else []
    return sorted(complete, key=lambda trial: trial.values[0], reverse=directions[0] == "maximize")


def format_best(points: Points, n: int) -> list[str]:
    """The `n` best points, a line each."""
    best = best_trials(points)[:n]
    if not best:
        return ["no point was trained to its end yet"]
    lines = []
    for trial in best:
        origin = trial.user_attrs.get(ORIGIN)
        of_whom = f"  (from {origin})" if origin else ""
        lines.append(f"{format_point(points, trial)}{of_whom}")
    return lines
