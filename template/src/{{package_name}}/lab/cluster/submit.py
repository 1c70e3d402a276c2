# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab submit`: compose, freeze, check what was frozen, make the run, write the job script, send it, return.

overrides ─ points ─ compose ─ snapshot ─ check on the frozen tree ─ run directories ─ job.sh ─ scheduler
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ..config.compose import Composition, compose
from ..config.layers import trials
from ..config.overrides import parse
from ..errors import Failed, LabError, Refused
from ..project import LAB, Project, read_yaml
from ..record.bundle import STORE, freeze, materialise
from ..record.run import Run
from .frozen_check import check_frozen, rule
from .local import scheduler_of
from .points import existing, expand
from .request import Request, complete
from .script import Job, render
from .site import Site, load_site, site_of_host, words_of
from .status import asker

TRIAL_OF_COMMANDS = "command"  # runs/command/…: what `lab submit -- CMD` ran


@dataclass(frozen=True)
class Submitted:
    """One run that a scheduler has taken."""

    run_id: str
    job_id: str
    run_dir: str
    log: str


@dataclass
class Plan:
    """Everything that is known before anything is written."""

    site: Site
    request: Request
    points: list[Composition]
    command: list[str]
    throttle: int
    runs: Path
    trains: bool


def submit(
    *overrides: str,
    project: Project | None = None,
    command: list[str] | None = None,
    why: str | None = None,
    batch: bool = True,
    allow: bool = False,
) -> list[Submitted]:
    """Freezes and sends the run of these settings, or one run per point of a list; returns at once.

    Args:
        overrides: as on the command line, such as "trial=wide", "seed=0,1,2".
        command: any command to run instead of a training.
        why: kept in the record.
        batch: train one batch of the frozen code before sending; False checks keys, targets and files only.
        allow: record also what looks like a secret.

    Raises:
        LabError: the settings, the frozen code or the site say no; nothing was sent.
    """
    project = project or Project.find()
    return submit_plan(
        project, prepare(project, list(overrides), command), why=why, batch=batch and not command, allow=allow
    )


def submit_plan(project: Project, plan: Plan, *, why: str | None, batch: bool, allow: bool = False) -> list[Submitted]:
    """Freezes, checks and sends what `prepare` has prepared."""
    code = freeze(project, plan.runs, plan.points[0].trial, **_freezing(plan.points[0], allow))
    if not code["complete"]:
        raise Refused(f"nothing was sent: the code cannot be frozen: {code['reason']}")
    already = existing(plan.runs, code["tree"], asker(project)) if plan.trains else {}
    plan.points = _holes(plan, already)
    if not plan.points:
        print("every point of this list is queued, running or finished; nothing to send", file=sys.stderr)
        return []
    archive = _archive(project, plan, code, batch)
    runs = [_create(project, plan, point, why, allow) for point in plan.points]
    if any(run.record["code"]["commit"] != code["commit"] for run in runs):
        for run in runs:
            shutil.rmtree(run.dir)
        raise Refused("the code was edited while it was checked, and nothing was sent. Type the same again.")
    return send(project, plan, runs, archive, code)


def prepare(project: Project, overrides: list[str], command: list[str] | None) -> Plan:
    """Composes every point and completes the request; writes nothing."""
    typed = parse(overrides, one_run=False)
    if command is not None and typed.trial is None:
        known = trials(project)
        if not known:
            raise LabError("a job needs the settings of some trial, and there is none. Make one: lab trials new NAME")
        overrides = [f"trial={known[0]}", *overrides]
    if "site" not in typed.groups and (found := _site_here(project)):
        print(f"lab: this is a login node of {found}, so site={found}", file=sys.stderr)
        overrides = [*overrides, f"site={found}"]
    points = [compose(project, point) for point in expand(overrides)]
    config = points[0].config
    site = load_site(project, Path(points[0].origin["site.scheduler"]).stem, OmegaConf.to_container(config.site))
    job = OmegaConf.to_container(config.job)
    throttle = int(job.pop("throttle"))
    if command is not None and job.get("tasks_per_node") is None:
        job["tasks_per_node"] = 1
    name = job.pop("name") or (points[0].trial.replace("/", "+") if command is None else Path(command[0]).name)
    request = complete(site, job, name, len(points))
    python = {
        "venv": [sys.executable],
        "module": ["python3"],
        "container": [*shlex.split(site["container"] or ""), "python3"],
    }
    start = [*python[site["python"]], "-m", f"{project.package}.lab", "rank", *(["--", *command] if command else [])]
    return Plan(site, request, points, start, throttle, Path(config.paths.runs), command is None)


def prepare_nodes(project: Project, overrides: list[str]) -> Plan:
    """The plan of `lab doctor --nodes`: its program on every rank, ten minutes at most."""
    limit = [] if any(word.startswith("job.time=") for word in overrides) else ["job.time=00:10:00"]
    if not any(word.startswith("trial=") for word in overrides):
        overrides = [f"trial={(trials(project) or ['baseline'])[0]}", *overrides]
    plan = prepare(project, [*overrides, "job.name=doctor", *limit], None)
    plan.command = [*plan.command[:-2], f"{project.package}.lab.cluster.nodes"]
    plan.trains = False
    return plan


def send(project: Project, plan: Plan, runs: list[Run], archive: Path, code: dict[str, Any]) -> list[Submitted]:
    """Writes the script of these runs, gives it to the scheduler, and notes the answer in their records."""
    job = Job(
        title=f"Run {runs[0].id} of trial {runs[0].trial}" + (f", and {len(runs) - 1} more" if len(runs) > 1 else ""),
        run_dirs=[run.dir for run in runs],
        project=project.root,
        code=archive,
        commit=code["commit"],
        prefix=code["prefix"],
        command=plan.command,
        package=project.package,
        throttle=plan.throttle,
        scratch=Path(path) if (path := plan.points[0].config.paths.scratch) else None,
    )
    job.script.write_text(render(plan.site, plan.request, job), encoding="utf-8")
    job.script.chmod(0o755)
    (runs[0].dir / "site.yaml").write_text(plan.site.text, encoding="utf-8")
    if len(runs) > 1:
        _link_logs(plan.site, runs)
    scheduler = scheduler_of(plan.site["scheduler"])
    try:
        job_ids = scheduler.submit(plan.request, job.script, len(runs))
    except Failed as error:
        for run in runs:
            run.update(job={"site": plan.site.name, "refused": str(error)})
        raise Failed(f"{error}\nNothing runs; the record and the script are kept: {job.script}") from error
    sent = []
    for run, job_id in zip(runs, job_ids, strict=True):
        facts = {"scheduler": plan.site["scheduler"], "site": plan.site.name, "id": job_id, "script": str(job.script)}
        asked = {"nodes": plan.request.nodes, "gpus": plan.request.gpus, "time_s": plan.request.time_s}
        run.update(job=facts | asked)
        sent.append(Submitted(run.id, job_id, str(run.dir), str(run.dir / "job.log")))
    return sent


def _site_here(project: Project) -> str | None:
    """The site of this login node, when the project's settings have chosen no cluster."""
    layers = (read_yaml(project.source / "conf" / "config.yaml"), read_yaml(LAB / "conf" / "lab.yaml"))
    chosen = [
        entry["site"]
        for layer in layers
        for entry in layer.get("defaults", [])
        if isinstance(entry, dict) and "site" in entry
    ]
    return site_of_host(project) if chosen[:1] in ([], ["workstation"]) else None


def _freezing(point: Composition, allow: bool) -> dict[str, Any]:
    return {"dirty": point.config.record.dirty, "max_file_mb": point.config.record.max_file_mb, "allow": allow}


def _holes(plan: Plan, already: dict[str, tuple[str, str]]) -> list[Composition]:
    """The points without a run; a single run that exists is sent again, with a warning."""
    hashes = [hashlib.sha256(point.yaml.encode()).hexdigest() for point in plan.points]
    filled = [already[key] for key in hashes if key in already]
    if len(plan.points) == 1 and filled:
        print(
            f"lab: run {filled[0][0]} has the same code and settings, and is {filled[0][1]}; sending another",
            file=sys.stderr,
        )
        return plan.points
    if filled:
        print(
            f"lab: {len(filled)} of {len(plan.points)} points are queued, running or finished; filling the rest",
            file=sys.stderr,
        )
    return [point for point, key in zip(plan.points, hashes, strict=True) if key not in already]


def _archive(project: Project, plan: Plan, code: dict[str, Any], batch: bool) -> Path:
    """The frozen tree as <runs>/.code/<commit>.tar, after its check; nodes unpack it without git."""
    archive = plan.runs / STORE / f"{code['commit']}.tar"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="lab-submit-") as temporary:
        frozen = Path(temporary).resolve() / "code"
        materialise(code, project.root, plan.runs / STORE, frozen)
        _check_files(project, code, frozen, plan.points)
        if batch:
            tried: set[str] = set()
            for point in plan.points:
                if point.trial not in tried:
                    tried.add(point.trial)
                    parameters = check_frozen(project, code, frozen, point.overrides, sys.executable)
                    _check_space(point, parameters)
        if not archive.exists():
            aside = archive.with_suffix(f".{os.getpid()}.tmp")
            try:
                subprocess.run(["tar", "-cf", str(aside), "-C", str(frozen), "."], check=True, capture_output=True)
                os.replace(aside, archive)
            except (subprocess.CalledProcessError, OSError) as error:
                raise Failed(f"the frozen code cannot be written to {archive}: {error}. Is the disk full?") from error
            finally:
                aside.unlink(missing_ok=True)
    return archive


def _check_files(project: Project, code: dict[str, Any], frozen: Path, points: list[Composition]) -> None:
    """Every settings file that the composition read must be in the snapshot; needs no torch."""
    for point in points:
        for name in sorted(set(point.origin.values())):
            inside = (project.root / name).is_file() and not Path(name).is_absolute()
            if inside and not (frozen / code["prefix"] / name).exists():
                raise Refused(f"nothing was sent: the snapshot lacks {name}: {rule(project, code, name)}")


def _check_space(point: Composition, parameters: int | None) -> None:
    """Two checkpoints (weights and two moments of the optimizer, 4 bytes each) must fit on the disk.

    Raises:
        Refused: they do not; with how much is needed and where.
    """
    place = Path(point.config.paths.checkpoints or point.config.paths.runs)
    while not place.exists():
        place = place.parent
    need_MB, free_MB = 2 * 12 * (parameters or 0) / 1e6, shutil.disk_usage(place).free / 1e6
    if free_MB < need_MB:
        raise Refused(
            f"two checkpoints of about {need_MB / 2:,.0f} MB do not fit on the disk of {place} ({free_MB:,.0f} MB free).\n"
            "Make space (lab runs prune), or set paths.checkpoints to a larger disk."
        )


def _create(project: Project, plan: Plan, point: Composition, why: str | None, allow: bool) -> Run:
    config = point.config
    return Run.create(
        project,
        Path(config.paths.runs),
        trial=point.trial if plan.trains else TRIAL_OF_COMMANDS,
        config_yaml=point.yaml,
        overrides=point.overrides,
        argv=sys.argv,
        seed=config.seed,
        why=why,
        checkpoints=Path(config.paths.checkpoints) if config.paths.checkpoints else None,
        job={"site": plan.site.name, "sending": True},
        **_freezing(point, allow),
    )


def _link_logs(site: Site, runs: list[Run]) -> None:
    """array/<index>.log in the first run leads to every run's own job.log, since a scheduler knows one pattern only."""
    folder = runs[0].dir / "array"
    folder.mkdir()
    for index, run in enumerate(runs, start=words_of(site["scheduler"]).get("first_index", 0)):
        with suppress(FileExistsError):
            (folder / f"{index}.log").symlink_to(os.path.relpath(run.dir / "job.log", folder))
