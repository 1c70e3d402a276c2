"""`lab sweep`: begins a search, or continues it, with workers here or in a job array."""

from __future__ import annotations

import argparse

from ..config.overrides import SettingsParser
from ..errors import require_package
from ..project import Project

HELP = (
    "Searches for the settings that improve sweep.metric. Settings with several values are searched:"
    " optimizer.lr=1e-3,3e-4 or 'model.width=range(16,65,16)' or"
    " 'optimizer.lr=tag(log,interval(1e-5,1e-1))'. The section sweep of the configuration says the"
    " rest. The same command again continues the search."
)


def sweep_command(project: Project, args: list[str]) -> int:
    """`lab sweep`."""
    options = parse_arguments(args)
    require_package("optuna", "lab sweep")
    from .begin import begin_sweep

    return begin_sweep(project, options)


def worker_command(project: Project, args: list[str]) -> int:
    """`lab sweep worker`."""
    require_package("optuna", "lab sweep")
    from .worker import run_worker

    return run_worker(project, args)


def parse_arguments(args: list[str]) -> argparse.Namespace:
    parser = SettingsParser("lab sweep", HELP)
    parser.add_argument("--why", metavar="TEXT", help="what this search is for; kept in its record")
    parser.add_argument(
        "--from",
        dest="earlier",
        metavar="SWEEP",
        action="append",
        default=[],
        help="begin with the points of another sweep; 'runs': those of earlier runs of the trial",
    )
    parser.add_argument("--allow", action="store_true", help="record also what looks like a secret")
    parser.add_argument(
        "--yes", action="store_true", help="send jobs though they may use more than the budget"
    )
    return parser.read(args)
