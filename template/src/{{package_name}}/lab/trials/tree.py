# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab trials tree`: the trials, where each came from, and its best number."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from ..config.trial_names import trial_names
from ..project import Project
from ..record.index import read_rows
from ..record.outcome import COUNT_FIRST
from ..record.ranking import rank_by_metric
from ..record.roots import run_roots

PARENT = re.compile(r"^\*\*Parent\.\*\* \[([a-z][a-z0-9_]*)\]", re.MULTILINE)
NAME_WIDTH = 28  # columns for the branches and the name


def tree_command(project: Project, args: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="lab trials tree", description="Draws the trials with their best numbers."
    )
    parser.add_argument("--metric", default="val/loss", help="the number shown (default: val/loss)")
    options = parser.parse_args(args)
    lines = format_tree(project, options.metric)
    print("\n".join(lines) if lines else "no trials yet: lab trials new NAME")
    return 0


def format_tree(project: Project, metric: str) -> list[str]:
    """A line for each trial: its number of runs and the best value of `metric`."""
    names = trial_names(project)
    parents = {name: parent_of(project.source / "trials" / name) for name in names}
    runs = read_rows(run_roots(project))
    lines = []
    for name, branches in walk_tree(names, parents):
        numbers = format_numbers(name, runs, metric)
        lines.append(f"{branches + name:<{NAME_WIDTH}}  {numbers}")
    return lines


def walk_tree(names: list[str], parents: dict[str, str | None]) -> list[tuple[str, str]]:
    """Each trial with the branches drawn before it; children follow their parent.

    A trial whose parent does not exist is a root. Trials that name each other in a circle are left out.
    """
    drawn: list[tuple[str, str]] = []

    def draw(name: str, branches: str, indent: str) -> None:
        drawn.append((name, branches))
        children = [child for child in names if parents[child] == name]
        for child in children:
            if child == children[-1]:
                draw(child, f"{indent}└─ ", f"{indent}   ")
            else:
                draw(child, f"{indent}├─ ", f"{indent}│  ")

    for name in names:
        if parents[name] not in names:
            draw(name, "", "")
    return drawn


def format_numbers(trial: str, runs: list[dict], metric: str) -> str:
    """How many runs the trial and its variants have, and the best value of `metric`."""
    trial_runs = [run for run in runs if run["trial"].partition("/")[0] == trial]
    if not trial_runs:
        return "no runs"
    text = "1 run" if len(trial_runs) == 1 else f"{len(trial_runs)} runs"
    finished = [run for run in trial_runs if run["status"] in COUNT_FIRST]
    best_first = rank_by_metric(finished, metric)
    if best_first:
        text += f"  {metric} {best_first[0]['metrics'][metric]:.4g}"
    return text


def parent_of(trial: Path) -> str | None:
    """The parent that the trial's README names."""
    try:
        readme = (trial / "README.md").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = PARENT.search(readme)
    return match[1] if match else None
