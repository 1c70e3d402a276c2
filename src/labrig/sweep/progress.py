"""What a search prints: each point when it ends, and the best ones."""

from __future__ import annotations

from optuna.trial import FrozenTrial, TrialState

from .points import AGAIN, ORIGIN, RUN, Points

ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
WORDS = {TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}


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
