"""`lab trials tree`: the trials, where each came from, and what came out of it."""

from __future__ import annotations

import argparse
import json
from collections import Counter

from ..project import Project
from .draw_tree import draw_tree
from .page import read_gone
from .trial import Trial, read_trials

DESCRIPTION = (
    "Draws the trials: the best run, mean ± deviation over the seeds of its settings, GPU-hours, "
    "the age of the newest run, and the verdict of the README. Runs whose code of the trial "
    "differs are not averaged."
)


def tree_command(project: Project, args: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="lab trials tree", description=DESCRIPTION)
    parser.add_argument(
        "--metric",
        help="for all trials (default: checkpoint.monitor of each trial's newest run)",
    )
    parser.add_argument("--json", action="store_true", help="an array of trials")
    options = parser.parse_args(args)
    trials = read_trials(project, options.metric)
    if options.json:
        print(json.dumps([trial.as_row() for trial in trials]))
    elif trials:
        print(draw_tree(trials, common_metric(trials)))
        print_gone(project)
    else:
        print("no trials yet: lab trials new NAME")
        print_gone(project)
    return 0


def common_metric(trials: list[Trial]) -> str:
    """The metric of most trials that have runs, else of most trials."""
    with_runs = [trial for trial in trials if trial.numbers.n_runs] or trials
    return Counter(trial.numbers.metric for trial in with_runs).most_common(1)[0][0]


def print_gone(project: Project) -> None:
    """One line about the trials that were dropped."""
    dropped = [gone.name for gone in read_gone(project).values() if gone.commit]
    if dropped:
        names = ", ".join(dropped[:3]) + (", …" if len(dropped) > 3 else "")
        print(f"dropped: {len(dropped)} ({names}); TRIALS.md says why")
