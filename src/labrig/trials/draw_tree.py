"""The tree of trials as text: branches on the left, numbers on the right, verdicts below."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from ..machine.terminal import printable
from ..record.columns import ellipsis
from ..record.table import format_deviation
from .numbers import TrialNumbers
from .trial import Trial

MIN_NAME_WIDTH = 12  # columns, of branches and name
MIN_WIDTH = 80
OPEN = ("", "Open.", "Open")  # verdicts that say nothing yet
UNITS_S = (("y", 365 * 86400), ("d", 86400), ("h", 3600), ("min", 60))


def draw_tree(trials: Sequence[Trial], metric: str) -> str:
    """The tree below its headings.

    Args:
        metric: whose numbers the columns show; a trial with another one says so below its line.
    """
    width = max(MIN_WIDTH, shutil.get_terminal_size((MIN_WIDTH, 24)).columns)
    by_name = {trial.name: trial for trial in trials}
    order = walk_tree(list(by_name), {trial.name: trial.parent for trial in trials})
    titles = ["status", "runs", "best", "mean ± sd (seeds)", "GPU-h", "age"]
    table = [titles, *(format_numbers(by_name[name].numbers) for name, _ in order)]
    heading = f"trial, by {printable(metric)}"
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    longest = max(len(heading), *(len(branches + name) for name, branches in order))
    room = width - sum(widths) - 2 * len(widths)
    name_width = max(MIN_NAME_WIDTH, min(longest, room))
    lines = [format_line(heading, titles, name_width, widths)]
    for (name, branches), cells in zip(order, table[1:], strict=True):
        lines.append(format_line(branches + name, cells, name_width, widths))
        remark = format_remark(by_name[name], metric)
        if remark:
            indent = " " * (len(branches) + 2)
            lines.append(indent + ellipsis(remark, width - len(indent)))
    return "\n".join(lines)


def walk_tree(names: list[str], parents: dict[str, str | None]) -> list[tuple[str, str]]:
    """Each trial with the branches drawn before it; children follow their parent.

    A trial whose parent does not exist is a root. Of trials that name each other in a circle, the
    first is one.
    """
    drawn: dict[str, str] = {}

    def draw(name: str, branches: str, indent: str) -> None:
        drawn[name] = branches
        children = [child for child in names if parents[child] == name and child not in drawn]
        for child in children:
            if child == children[-1]:
                draw(child, f"{indent}└─ ", f"{indent}   ")
            else:
                draw(child, f"{indent}├─ ", f"{indent}│  ")

    for name in names:
        if parents[name] not in names:
            draw(name, "", "")
    for name in names:
        if name not in drawn:
            draw(name, "", "")
    return list(drawn.items())


def format_line(name: str, cells: list[str], name_width: int, widths: list[int]) -> str:
    """The status on the left of its column, numbers on the right."""
    status, *numbers = cells
    padded = [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
    parts = [ellipsis(name, name_width).ljust(name_width), status.ljust(widths[0]), *padded]
    return "  ".join(parts).rstrip()


def format_numbers(numbers: TrialNumbers) -> list[str]:
    """A cell for each column."""
    return [
        numbers.status or "no runs",
        str(numbers.n_runs) if numbers.n_runs else "",
        "" if numbers.best is None else f"{numbers.best:.4g}",
        format_seeds(numbers),
        f"{numbers.gpu_hours:.1f}" if numbers.n_runs else "",
        "" if numbers.age_s is None else format_age(numbers.age_s),
    ]


def format_seeds(numbers: TrialNumbers) -> str:
    """0.0335 ± 0.0018 (5); nothing for one seed, whose number is the best."""
    if numbers.mean is None or numbers.sd is None:
        return ""
    return f"{format_deviation(numbers.mean, numbers.sd)} ({numbers.n_seeds})"


def format_age(age_s: float) -> str:
    """3d: whole units of the largest that fits."""
    for unit, seconds in UNITS_S:
        if age_s >= seconds:
            return f"{age_s // seconds:.0f}{unit}"
    return "now"


def format_remark(trial: Trial, metric: str) -> str:
    """What the columns do not say, on one line; "" when they say all."""
    parts = []
    if trial.parent_is_gone:
        parts.append(f"from {trial.parent}, which is gone")
    if trial.numbers.n_runs and trial.numbers.metric != metric:
        parts.append(f"by {trial.numbers.metric}")
    if trial.numbers.init_from:
        parts.append(f"weights of {trial.numbers.init_from}")
    if trial.verdict not in OPEN:
        parts.append(trial.verdict)
    return printable(" · ".join(parts))
