"""The plan of a submission: its points, composed and checked, and the request of their jobs."""

from __future__ import annotations

import math
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...config.compose import Composition
from ...config.compose_points import compose_points
from ...config.overrides import parse_overrides, sweep_points, typed_value
from ...config.resolve import plain_values
from ...config.setting import read_section
from ...config.trainer_arguments import batches_per_step, require_whole_groups
from ...config.trial_names import trial_names
from ...errors import LabError
from ...project import Project, say_once
from ...providers import provided
from ...record.files.schema import AfterRuns
from ...record.read.attempt_files import read_attempts
from ...record.read.each import Inputs
from ...record.read.rows import subdirectories
from ...record.write.inputs import with_data_of_run, with_fixed_weights, without_weights
from ...training.watch.messages import check_notify
from ..job.environment import outermost
from ..schedulers.job import JobRequest
from ..sections import JobSettings
from ..sites.choices import cores_of_partition
from ..sites.rules import build_request
from ..sites.site import Site, is_experimental, load_site, site_of_host
from .after import after_of_words, split_after

if TYPE_CHECKING:
    from ..image.packed import Image


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
        script: the name of the job script, in the directory of the first run.
        after: the runs that all points come after.
        attempt: the number of the attempt that the job of a run begins, whose earlier ones are over.
    """

    project: Project
    site: Site
    request: JobRequest
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
    script: str = "job.sh"
    after: AfterRuns | None = None
    attempt: int | None = None
    changed: tuple[str, ...] = ()  # settings of a job that continues a run, which are not recorded

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
    """
    overrides, after = split_after(overrides)
    points = points_of(project, overrides, command, may_come=bool(after))
    return with_after(plan_of(project, points, command, is_shell), after)


def with_after(plan: Plan, words: list[str]) -> Plan:
    """The plan of runs that come after those which `after=` names."""
    after = after_of_words(plan.project, words)
    if after is None:
        return plan
    if plan.points[0].config.job.after is not None:
        raise LabError(
            "after=RUN and job.after=JOB: say it one way only. "
            "job.after is for the id of a job that is no run of this project"
        )
    return replace(plan, after=after)


def points_of(
    project: Project, overrides: list[str], command: list[str] | None, may_come: bool = False
) -> list[Composition]:
    """Every point of a submission; see `plan_submission`.

    Args:
        may_come: a file that another run makes need not be there yet.
    """
    typed = parse_overrides(overrides, one_run=False)
    if command is not None and typed_value(typed, "trial") is None:
        overrides = [f"trial={_any_trial(project)}", *overrides]
    points = compose_points(project, sweep_points(overrides))
    if site := site_of_login_node(project, points[0]):
        points = compose_points(project, [[*point.overrides, f"site={site}"] for point in points])
    if command is not None:
        return [without_weights(point) for point in points]
    points = [with_data_of_run(point, project, may_come=may_come) for point in points]
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
    """The plan of composed points, whose site and job sections are the same."""
    config = plain_values(points[0].config)
    site = load_site(project, points[0].choices["site"], config["site"])
    if is_experimental(site):
        say_once(
            f"{site.scheduler} is experimental: nobody has run its job script yet.\n"
            f"Read it with --dry-run; to try it: lab site verify site={site.name}"
        )
    job = read_section(JobSettings, config["job"], "job.")
    check_notify(points[0].config, project)
    if command is not None and job.tasks_per_node is None:
        job = replace(job, tasks_per_node=1)
    _check_idle_minutes(job.idle_min)
    name = str(job.name or _job_name(points[0], command))
    save_s = 0.0
    if command is None:
        save_s = measured_save_s(Path(config["paths"]["runs"]), points[0].trial)
        site = site_with_lead(site, points[0].overrides, save_s)
    cores = cores_of_partition(site, job)
    request = build_request(site, job, name, len(points), is_shell, cores)
    warn_of_short_lead(request.lead_s, save_s)
    if command is None:
        _check_global_batch(points, request.n_tasks)
    paths = config["paths"]
    image = image_of_jobs(project, site, paths)
    if image and not image.file.is_file():
        raise LabError(
            f"jobs of {site.name} take their packages from {image.file},\n"
            "which is not there for these packages. Make it: " + image_command(points[0].overrides)
        )
    return Plan(
        project=project,
        site=site,
        request=request,
        points=points,
        command=_rank_command(project, command),
        throttle=job.throttle,
        idle_min=job.idle_min,
        runs=Path(paths["runs"]),
        scratch=Path(paths["scratch"] or project.root),
        trains=command is None,
        caches=Path(paths["caches"]) if paths["caches"] else None,
        mounts=_mounts(project, paths),
        image=image,
    )


def image_of_jobs(project: Project, site: Site, paths: dict[str, Any]) -> Image | None:
    """The image that jobs of a site use; None where they use the environment itself."""
    image_of = provided("image_of")
    if image_of is None and site["python"] in ("container", "packed"):
        raise LabError(
            f"jobs of {site.name} take their packages from an image, which needs labrig.cluster.image. "
            "Install all of labrig"
        )
    return image_of(project, site, paths) if image_of else None


def image_command(overrides: list[str], *more: str) -> str:
    """The command that makes the image of a job with these settings, and `more`."""
    typed = [word for word in overrides if word.startswith(("site", "paths"))]
    return shlex.join(["lab", "image", "build", *typed, *more])


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
        require_whole_groups(point.settings, n_processes)
        if point.settings["batch"]["global"] is not None:
            batches_per_step(point.settings, n_processes)


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


# How long before its time limit a job is warned: long enough for the saves that were measured.

LEAD_PER_SAVE = 3  # the ranks agree and finish a batch before they save
N_NEWEST = 5  # runs of a trial that are looked at


def measured_save_s(runs: Path, trial: str) -> float:
    """The longest save of the newest runs of a trial; 0 where none was measured."""
    folder = runs / trial.replace("/", "+")
    newest = sorted(subdirectories(str(folder)))[-N_NEWEST:]
    starts: list[dict[str, Any]] = [
        dict(attempt.start) for name in newest for attempt in read_attempts(folder / name)
    ]
    return max((start.get("save_s", 0.0) for start in starts), default=0.0)


def site_with_lead(site: Site, overrides: list[str], save_s: float) -> Site:
    """The site with a `requeue.lead_s` that is long enough for a save; one that was typed stays."""
    lead_s = site["requeue"]["lead_s"]
    needed_s = math.ceil(LEAD_PER_SAVE * save_s)
    typed = [override.key_or_group for override in parse_overrides(overrides)]
    if lead_s >= needed_s or "site.requeue.lead_s" in typed:
        return site
    print(
        f"lab: saving took {save_s:.0f} s, so the job is warned {needed_s} s before its time limit "
        f"instead of {lead_s} s (site.requeue.lead_s)",
        file=sys.stderr,
    )
    requeue = site["requeue"] | {"lead_s": needed_s}
    return Site(site.name, site.path, site.text, site.values | {"requeue": requeue})


def warn_of_short_lead(lead_s: int, save_s: float) -> None:
    """Says that a save may take longer than a job has between the warning and its limit."""
    if save_s > lead_s / 2:
        print(
            f"lab: saving took {save_s:.0f} s, more than half of the {lead_s} s for which the job is "
            "warned before its time limit. Set a longer job.time, or site.requeue.lead_s "
            "(it is a quarter of job.time at most)",
            file=sys.stderr,
        )
