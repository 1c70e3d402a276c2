"""The tree of trials: each is a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..project import Project

COMMANDS = [
    ("trials tree", "the trials, where each came from, its numbers", "tree:tree_command"),
    ("trials new", "start one: lab trials new wide --from baseline", "new:new_command"),
    ("trials diff", "settings of two trials side by side, and their code", "diff:diff_command"),
    ("trials result", "write the numbers table of a README", "result:result_command"),
    ("trials drop", "remove one, with a line in TRIALS.md", "drop:drop_command"),
    ("trials restore", "bring a dropped one back", "drop:restore_command"),
    ("trials rename", "rename one; its runs follow", "new:rename_command"),
]

ROOMS = ["adopt"]


def trial_table(metric: str | None = None, *, project: Project | None = None) -> list[dict]:
    """The trials as a table: a dict for each, which pandas.DataFrame takes.

    Args:
        metric: for all trials; by default the one that chose the best checkpoint of each.

    Returns:
        Name, parent, status, n_runs, metric, best, best_run, mean, sd, n_seeds, gpu_hours,
        init_from, age_s, question, verdict; None where there is nothing to say.
    """
    from ..project import Project
    from .tree import read_trials

    project = project or Project.of_notebook()
    return [trial.as_row() for trial in read_trials(project, metric)]
