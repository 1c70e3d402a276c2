# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The points of a submission, composed and checked, with what each asks of the scheduler."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from omegaconf import OmegaConf

from ..config.batch import batches_per_step
from ..config.compose import Composition, compose
from ..config.overrides import parse_overrides, typed_value
from ..config.overrides import sweep_points as points_of
from ..config.trial_names import trial_names
from ..errors import LabError
from ..project import Project
from .request import Request, build_request
from .site import Site, load_site, site_of_host

OFFLINE = (
    "HF_HUB_OFFLINE=1",
    "TRANSFORMERS_OFFLINE=1",
    "WANDB_MODE=offline",
    "UV_OFFLINE=1",
    "PIP_NO_INDEX=1",
)


@dataclass
class Plan:
    """Everything that is known before anything is written; `command` runs on every rank of every point."""

    project: Project
    site: Site
    request: Request
    points: list[Composition]
    command: list[str]
    throttle: int
    runs: Path
    scratch: Path
    trains: bool


def plan_submission(
    project: Project, overrides: list[str], command: list[str] | None = None
) -> Plan:
    """Composes every point and completes the request; writes nothing."""
    typed = parse_overrides(overrides, one_run=False)
    if command is not None and typed_value(typed, "trial") is None:
        overrides = [f"trial={_any_trial(project)}", *overrides]
    points = [compose(project, point) for point in points_of(overrides)]
    here = (
        site_of_host(project)
        if typed_value(typed, "site") is None and points[0].config.site.scheduler == "local"
        else None
    )
    if here:
        print(f"lab: this is a login node of {here}, so site={here}", file=sys.stderr)
        points = [compose(project, [*point.overrides, f"site={here}"]) for point in points]
    return plan_of(project, points, command)


def plan_of(project: Project, points: list[Composition], command: list[str] | None = None) -> Plan:
    """The plan of composed points, whose site and job sections are alike."""
    config = OmegaConf.to_container(points[0].config)
    job, paths = config["job"], config["paths"]
    site = load_site(project, points[0].choices["site"], config["site"])
    throttle, name = job.pop("throttle"), job.pop("name")
    if command is not None and job["tasks_per_node"] is None:
        job["tasks_per_node"] = 1
    name = name or (points[0].trial.replace("/", "+") if command is None else Path(command[0]).name)
    start = {
        "venv": [sys.executable],
        "module": ["python3"],
        "container": [*shlex.split(site["container"] or ""), "python3"],
    }
    rank = [
        *start[site["python"]],
        "-m",
        f"{project.package}.lab",
        "rank",
        *(["--", *command] if command else []),
    ]
    request = build_request(site, job, name, len(points))
    for point in points if command is None else ():
        if point.config.batch["global"] is not None:
            batches_per_step(point.config, request.nodes * request.tasks_per_node)
    runs, scratch = Path(paths["runs"]), Path(paths["scratch"] or project.root)
    return Plan(project, site, request, points, rank, throttle, runs, scratch, command is None)


def plan_nodes(project: Project, overrides: list[str]) -> Plan:
    """The plan of `lab doctor --nodes`: its program on every rank, ten minutes at most."""
    usual = [f"trial={_any_trial(project)}", "job.time=00:10:00", "job.name=doctor"]
    plan = plan_submission(project, [*usual, *overrides])
    plan.command, plan.trains = (
        [*plan.command[:-2], f"{project.package}.lab.cluster.node_check"],
        False,
    )
    return plan


def _any_trial(project: Project) -> str:
    if not (known := trial_names(project)):
        raise LabError(
            "a job needs the settings of some trial, and there is none. Make one: lab trials new NAME"
        )
    return known[0]


def _node_local(place: str | None) -> str:
    """The node's disk as the shell shall see it: "$TMPDIR" may be unset, then memory."""
    if place and place.startswith("$"):
        return "${" + place.removeprefix("$") + ":-/dev/shm}"
    return shlex.quote(place or "/dev/shm")
