# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""The plan of a submission: its points, composed and checked, and the request of their jobs."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from ..config.batch import batches_per_step
from ..config.compose import Composition, compose
from ..config.overrides import parse_overrides, sweep_points, typed_value
from ..config.resolve import plain_values
from ..config.trial_names import trial_names
from ..errors import LabError
from ..project import Project
from ..record.each import Inputs
from ..record.initial_weights import with_fixed_weights, without_weights
from ..training.notify import check_notify, mail_address
from .request import Request
from .site import Site, load_site, site_of_host
from .site_rules import build_request

TRIAL_OF_COMMANDS = "command"  # runs/command/…: what `lab submit -- COMMAND` ran


@dataclass(frozen=True)
class Plan:
    """Everything that is known before anything is written.

    Args:
        points: the runs; those of a job array differ in their settings.
        command: what runs on every rank of every point.
        throttle: how many runs of an array may run at once.
        runs: root of all runs.
        scratch: the site's scratch directory, or the project.
        trains: whether the command is a training of these points.
        guard: lines of shell with which the job script begins; they may end the job.
    """

    project: Project
    site: Site
    request: Request
    points: list[Composition]
    command: list[str]
    throttle: int
    runs: Path
    scratch: Path
    trains: bool
    inputs: list[Inputs] | None = None  # of a command over files: those of each point
    guard: str = ""

    def trial_of(self, point: Composition) -> str:
        """The trial under which a run of this point is recorded."""
        return point.trial if self.trains else TRIAL_OF_COMMANDS


def plan_submission(
    project: Project, overrides: list[str], command: list[str] | None = None
) -> Plan:
    """Composes every point and builds the request; writes nothing.

    Args:
        overrides: as on the command line; lists make several points.
        command: any command to run instead of a training.

    Raises:
        LabError: the settings are wrong, or the site's rules forbid the request.
    """
    return plan_of(project, compose_points(project, overrides, command), command)


def compose_points(
    project: Project, overrides: list[str], command: list[str] | None
) -> list[Composition]:
    """Every point of a submission; see `plan_submission`.

    Raises:
        LabError: the settings are wrong.
    """
    typed = parse_overrides(overrides, one_run=False)
    if command is not None and typed_value(typed, "trial") is None:
        overrides = [f"trial={_any_trial(project)}", *overrides]
    points = [compose(project, point) for point in sweep_points(overrides)]
    if typed_value(typed, "site") is None and points[0].config.site.scheduler == "local":
        site = site_of_host(project)
        if site:
            print(f"lab: this is a login node of {site}, so site={site}", file=sys.stderr)
            points = [compose(project, [*point.overrides, f"site={site}"]) for point in points]
    if command is not None:
        return [without_weights(point) for point in points]
    return [with_fixed_weights(point, project) for point in points]


def plan_of(project: Project, points: list[Composition], command: list[str] | None = None) -> Plan:
    """The plan of composed points, whose site and job sections are the same.

    Raises:
        LabError: the site's rules forbid the request.
    """
    config = plain_values(points[0].config)
    site = load_site(project, points[0].choices["site"], config["site"])
    job = config["job"]
    check_notify(points[0].config, project)
    if "mail" in (config["notify"] or {}) and site.scheduler != "local" and not job["mail"]:
        # The scheduler can tell of a job whose node died.
        job["mail"] = mail_address(config["notify"]["mail"]["to"], project.root)
    throttle = job.pop("throttle")
    name = job.pop("name") or _job_name(points[0], command)
    if command is not None and job["tasks_per_node"] is None:
        job["tasks_per_node"] = 1
    request = build_request(site, job, name, len(points))
    if command is None:
        _check_global_batch(points, request.n_tasks)
    return Plan(
        project=project,
        site=site,
        request=request,
        points=points,
        command=_rank_command(project, site, command),
        throttle=throttle,
        runs=Path(config["paths"]["runs"]),
        scratch=Path(config["paths"]["scratch"] or project.root),
        trains=command is None,
    )


def _job_name(point: Composition, command: list[str] | None) -> str:
    if command is None:
        return point.trial.replace("/", "+")
    return Path(command[0]).name


def _check_global_batch(points: list[Composition], n_processes: int) -> None:
    for point in points:
        if point.config.batch["global"] is not None:
            batches_per_step(point.config, n_processes)


def _rank_command(project: Project, site: Site, command: list[str] | None) -> list[str]:
    """What each rank runs: lab rank, which trains or runs `command`."""
    rank = [*python_in_job(site), "-m", f"{project.package}.lab", "rank"]
    if command is None:
        return rank
    return [*rank, "--", *command]


def python_in_job(site: Site) -> list[str]:
    """The command that starts Python in a job of the site."""
    if site["python"] == "module":
        return ["python3"]
    if site["python"] == "container":
        return [*shlex.split(site["container"] or ""), "python3"]
    return [sys.executable]


def plan_nodes(project: Project, overrides: list[str]) -> Plan:
    """The plan of `lab doctor --nodes`: its program on every rank, ten minutes at most."""
    defaults = [
        f"trial={_any_trial(project)}",
        "init_from=null",
        "job.time=00:10:00",
        "job.name=doctor",
    ]
    plan = plan_submission(project, [*defaults, *overrides])
    program = [*python_in_job(plan.site), "-m", f"{project.package}.lab.cluster.node_check"]
    return replace(plan, command=program, trains=False)


def _any_trial(project: Project) -> str:
    """Some trial, for jobs that need the settings of one but train none."""
    names = trial_names(project)
    if not names:
        raise LabError(
            "this project has no trial, and a job needs the settings of one."
            " Make one: lab trials new NAME"
        )
    return names[0]
