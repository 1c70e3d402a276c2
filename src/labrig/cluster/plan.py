"""The plan of a submission: its points, composed and checked, and the request of their jobs."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..config.batch import batches_per_step
from ..config.compose import Composition, compose
from ..config.overrides import parse_overrides, sweep_points, typed_value
from ..config.resolve import plain_values
from ..config.trial_names import trial_names
from ..errors import LabError
from ..project import Project, say_once
from ..record.each import Inputs
from ..record.initial_weights import with_fixed_weights, without_weights
from ..training.notify import check_notify, mail_address
from .image import Image, image_of
from .job_python import outermost
from .request import Request
from .site import Site, load_site, site_of_host
from .site_rules import build_request
from .verified import is_experimental

TRIAL_OF_COMMANDS = "command"  # runs/command/…: what `lab submit -- COMMAND` ran


@dataclass(frozen=True)
class Plan:
    """Everything that is known before anything is written.

    Args:
        points: the runs; those of a job array differ in their settings.
        command: what Python runs on every rank of every point.
        throttle: how many runs of an array may run at once.
        idle_min: minutes after which a job whose GPUs do nothing saves and ends; None: never.
        runs: root of all runs.
        scratch: the site's scratch directory, or the project.
        caches: directory of all caches; None: where each tool puts its own.
        mounts: directories that jobs read or write.
        python: that of the environment.
        image: what jobs take their packages from instead.
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
    caches: Path | None = None
    mounts: tuple[Path, ...] = ()
    python: Path = Path(sys.executable)
    image: Image | None = None
    idle_min: float | None = None
    inputs: list[Inputs] | None = None  # of a command over files: those of each point
    guard: str = ""

    def trial_of(self, point: Composition) -> str:
        """The trial under which a run of this point is recorded."""
        return point.trial if self.trains else TRIAL_OF_COMMANDS


def plan_submission(
    project: Project,
    overrides: list[str],
    command: list[str] | None = None,
    is_shell: bool = False,
) -> Plan:
    """Composes every point and builds the request; writes nothing.

    Args:
        overrides: as on the command line; lists make several points.
        command: any command to run instead of a training.
        is_shell: for `lab shell`.

    Raises:
        LabError: the settings are wrong, or the site's rules forbid the request.
    """
    return plan_of(project, compose_points(project, overrides, command), command, is_shell)


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
    if site := site_of_login_node(project, points[0]):
        points = [compose(project, [*point.overrides, f"site={site}"]) for point in points]
    if command is not None:
        return [without_weights(point) for point in points]
    return [with_fixed_weights(point, project) for point in points]


def site_of_login_node(project: Project, point: Composition) -> str | None:
    """The site of this login node, for a project of another machine where no site was typed."""
    is_typed = typed_value(parse_overrides(point.overrides), "site") is not None
    if is_typed or point.config.site.scheduler != "local":
        return None
    site = site_of_host(project)
    if site:
        print(f"lab: this is a login node of {site}, so site={site}", file=sys.stderr)
    return site


def plan_of(
    project: Project,
    points: list[Composition],
    command: list[str] | None = None,
    is_shell: bool = False,
) -> Plan:
    """The plan of composed points, whose site and job sections are the same.

    Raises:
        LabError: the site's rules forbid the request.
    """
    config = plain_values(points[0].config)
    site = load_site(project, points[0].choices["site"], config["site"])
    if is_experimental(site):
        say_once(
            f"{site.scheduler} is experimental: nobody has run its job script yet.\n"
            f"Read it with --dry-run; to try it: lab site verify site={site.name}"
        )
    job = config["job"]
    check_notify(points[0].config, project)
    if "mail" in (config["notify"] or {}) and site.scheduler != "local" and not job["mail"]:
        # The scheduler can tell of a job whose node died.
        job["mail"] = mail_address(config["notify"]["mail"]["to"], project.root)
    throttle = job.pop("throttle")
    idle_min = job.pop("idle_min")
    _check_idle_minutes(idle_min)
    name = job.pop("name") or _job_name(points[0], command)
    if command is not None and job["tasks_per_node"] is None:
        job["tasks_per_node"] = 1
    request = build_request(site, job, name, len(points), is_shell)
    if command is None:
        _check_global_batch(points, request.n_tasks)
    paths = config["paths"]
    image = image_of(project, site, paths)
    if image and not image.file.is_file():
        typed = [word for word in points[0].overrides if word.startswith(("site", "paths"))]
        raise LabError(
            f"jobs of {site.name} take their packages from {image.file},\n"
            "which is not there for these packages. Make it: "
            + shlex.join(["lab", "image", "build", *typed])
        )
    return Plan(
        project=project,
        site=site,
        request=request,
        points=points,
        command=_rank_command(project, command),
        throttle=throttle,
        idle_min=idle_min,
        runs=Path(paths["runs"]),
        scratch=Path(paths["scratch"] or project.root),
        trains=command is None,
        caches=Path(paths["caches"]) if paths["caches"] else None,
        mounts=_mounts(project, paths),
        image=image,
    )


def _check_idle_minutes(idle_min: float | None) -> None:
    if idle_min is not None and idle_min <= 0:
        raise LabError(
            f"job.idle_min={idle_min:g}, but it must be more than 0 minutes."
            " To let jobs idle: job.idle_min=null"
        )


def _job_name(point: Composition, command: list[str] | None) -> str:
    if command is None:
        return point.trial.replace("/", "+")
    return Path(command[0]).name


def _check_global_batch(points: list[Composition], n_processes: int) -> None:
    for point in points:
        if point.config.batch["global"] is not None:
            batches_per_step(point.config, n_processes)


def _rank_command(project: Project, command: list[str] | None) -> list[str]:
    """What Python runs on each rank: lab rank, which trains or runs `command`."""
    rank = ["-m", "labrig", "rank"]
    if command is None:
        return rank
    return [*rank, "--", *command]


def _mounts(project: Project, paths: dict[str, Any]) -> tuple[Path, ...]:
    """The project and every directory of `paths`; those inside another one are left out."""
    places = [paths["runs"], paths["checkpoints"], paths["scratch"], paths["caches"]]
    named = [Path(place) for place in [*places, *paths["data"]] if place]
    return tuple(outermost([project.root, *named]))


def plan_program(project: Project, overrides: list[str], module: str, name: str, time: str) -> Plan:
    """The plan of a job that runs a module of lab.cluster on every rank, without a training.

    Args:
        name: of the job.
        time: its limit, unless `overrides` have another one.
    """
    defaults = [
        f"trial={_any_trial(project)}",
        "init_from=null",
        f"job.time={time}",
        f"job.name={name}",
    ]
    plan = plan_submission(project, [*defaults, *overrides])
    program = ["-m", f"labrig.cluster.{module}"]
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
