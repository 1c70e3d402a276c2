"""A trial: what its README says, and the numbers of its runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ..cluster.job_states import job_state_of
from ..config.trial_names import trial_names
from ..project import Project
from ..record.index import read_rows
from ..record.roots import run_roots
from .code import trial_directory
from .numbers import TrialNumbers, number_trials
from .readme import read_readme


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


def trials(metric: str | None = None, *, project: Project | None = None) -> list[dict]:
    """The trials as a table: a dict for each, which pandas.DataFrame takes.

    Args:
        metric: for all trials; by default the one that chose the best checkpoint of each.

    Returns:
        Name, parent, status, n_runs, metric, best, best_run, mean, sd, n_seeds, gpu_hours,
        init_from, age_s, question, verdict; None where there is nothing to say.
    """
    project = project or Project.of_notebook()
    return [trial.as_row() for trial in read_trials(project, metric)]
