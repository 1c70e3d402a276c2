"""`lab trials tree`: the trials, where each came from, and what came out of it."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ..cluster.watch.job_states import job_state_of
from ..command_parser import CommandParser
from ..config.trial_names import trial_names
from ..machine.text_formats import and_more, ellipsis, format_age, format_deviation, printable
from ..machine.text_table import TextColumn, text_table
from ..project import Project
from ..record.read.ranking import question
from ..record.read.rows import read_rows
from ..record.read.run import run_roots
from .files import read_gone, read_readme, trial_directory
from .numbers import TrialNumbers, number_trials

# A trial: what its README says, and the numbers of its runs.


@dataclass(frozen=True)
class Trial:
    """A trial of the tree."""

    name: str
    parent: str | None
    parent_is_gone: bool  # it is not there any more
    question: str
    verdict: str
    numbers: TrialNumbers

    def as_row(self) -> dict:
        """All facts in one flat dict."""
        facts = {"name": self.name, "parent": self.parent}
        return facts | asdict(self.numbers) | {"question": self.question, "verdict": self.verdict}


def read_trials(project: Project, metric: str | None = None) -> list[Trial]:
    """All trials by name, with the numbers of their runs.

    Args:
        metric: for all trials; by default each has its own.
    """
    names = trial_names(project)
    rows = read_rows(run_roots(project), job_state_of())
    numbers = number_trials(project, rows, names, metric)
    return [read_trial(project, name, names, numbers[name]) for name in names]


def read_trial(project: Project, name: str, names: list[str], numbers: TrialNumbers) -> Trial:
    """One trial; `names` are all."""
    readme = read_readme(trial_directory(project, name))
    return Trial(
        name=name,
        parent=readme.parent,
        parent_is_gone=readme.parent is not None and readme.parent not in names,
        question=readme.question,
        verdict=readme.verdict,
        numbers=numbers,
    )


# The tree of trials as text: branches on the left, numbers on the right, verdicts below.

MIN_NAME_WIDTH = 12  # columns, of branches and name
MIN_WIDTH = 80
OPEN = ("", "Open.", "Open")  # verdicts that say nothing yet
TITLES = ("status", "runs", "best", "mean ± sd (seeds)", "GPU-h", "age")


def draw_tree(trials: Sequence[Trial], metric: str) -> str:
    """The tree below its headings.

    Args:
        metric: whose numbers the columns show; a trial with another one says so below its line.
    """
    width = max(MIN_WIDTH, shutil.get_terminal_size((MIN_WIDTH, 24)).columns)
    by_name = {trial.name: trial for trial in trials}
    order = walk_tree(list(by_name), {trial.name: trial.parent for trial in trials})
    cells = [format_numbers(by_name[name].numbers) for name, _ in order]
    columns = [
        TextColumn(title, texts, on_right=title != "status")
        for title, texts in zip(TITLES, zip(*cells, strict=True), strict=True)
    ]
    names = [f"trial, by {printable(metric)}", *(branches + name for name, branches in order)]
    longest = max(map(len, names))
    room = width - sum(2 + column.width for column in columns)
    name_width = max(MIN_NAME_WIDTH, min(longest, room))
    heading, *short_names = [ellipsis(name, name_width) for name in names]
    head, *table = text_table([TextColumn(heading, short_names, name_width), *columns])
    lines = [head]
    for (name, branches), line in zip(order, table, strict=True):
        lines.append(line)
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


def format_remark(trial: Trial, metric: str) -> str:
    """What the columns do not say, on one line; "" when they say all."""
    parts = []
    if trial.parent_is_gone:
        parts.append(f"from {trial.parent}, which is gone")
    if trial.numbers.n_runs and trial.numbers.metric != metric:
        parts.append(f"by {trial.numbers.metric}")
    if trial.numbers.n_runs and trial.numbers.mode is None:
        parts.append(question(trial.numbers.metric))
    if trial.numbers.aside:
        parts.append(trial.numbers.aside)
    if trial.numbers.init_from:
        parts.append(f"weights of {trial.numbers.init_from}")
    if trial.numbers.data_from:
        parts.append(f"data of {trial.numbers.data_from}")
    if trial.verdict not in OPEN:
        parts.append(trial.verdict)
    return printable(" · ".join(parts))


DESCRIPTION = (
    "Draws the trials: the best run, mean ± deviation over the seeds of its settings, GPU-hours, "
    "the age of the newest run, and the verdict of the README. Runs whose code of the trial "
    "differs are not averaged."
)


def tree_command(project: Project, args: list[str]) -> int:
    parser = CommandParser(prog="lab trials tree", description=DESCRIPTION)
    parser.add_argument(
        "--metric",
        help="for all trials: val/acc, val/fid:min (default: checkpoint.monitor of each trial's "
        "newest run)",
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
        print(f"dropped: {len(dropped)} ({and_more(dropped, 3)}); TRIALS.md says why")
