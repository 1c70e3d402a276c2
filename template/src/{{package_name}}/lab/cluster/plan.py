# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""From what was typed to what will be sent: points, site, request, command; and the job script of all that.

The script is job/job.sh with the part of its scheduler in it; `@@{name}` is what Python fills in.
"""

from __future__ import annotations

import shlex
import string
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ..config.compose import Composition, accumulation, compose
from ..config.layers import trials
from ..config.overrides import parse
from ..config.overrides import points as points_of
from ..errors import LabError
from ..project import Project
from .request import Request, complete
from .scheduler import words_of
from .site import Site, load_site, site_of_host

OFFLINE = ("HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "WANDB_MODE=offline", "UV_OFFLINE=1", "PIP_NO_INDEX=1")
IDLE_GUARD = '"${{COMMAND[0]}}" -m {package}.lab.speed.nodes $$ & # stops a job whose GPUs do nothing\n  '


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


def prepare(project: Project, overrides: list[str], command: list[str] | None = None) -> Plan:
    """Composes every point and completes the request; writes nothing."""
    typed = parse(overrides, one_run=False)
    if command is not None and typed.trial is None:
        overrides = [f"trial={_any_trial(project)}", *overrides]
    points = [compose(project, point) for point in points_of(overrides)]
    here = site_of_host(project) if "site" not in typed.groups and points[0].config.site.scheduler == "local" else None
    if here:
        print(f"lab: this is a login node of {here}, so site={here}", file=sys.stderr)
        points = [compose(project, [*point.overrides, f"site={here}"]) for point in points]
    return plan_of(project, points, command)


def plan_of(project: Project, points: list[Composition], command: list[str] | None = None) -> Plan:
    """The plan of composed points, whose site and job sections are alike."""
    config = OmegaConf.to_container(points[0].config)
    job, paths = config["job"], config["paths"]
    site = load_site(project, Path(points[0].origin["site.scheduler"]).stem, config["site"])
    throttle, name = job.pop("throttle"), job.pop("name")
    if command is not None and job["tasks_per_node"] is None:
        job["tasks_per_node"] = 1
    name = name or (points[0].trial.replace("/", "+") if command is None else Path(command[0]).name)
    start = {
        "venv": [sys.executable],
        "module": ["python3"],
        "container": [*shlex.split(site["container"] or ""), "python3"],
    }
    rank = [*start[site["python"]], "-m", f"{project.package}.lab", "rank", *(["--", *command] if command else [])]
    request = complete(site, job, name, len(points))
    for point in points if command is None else ():
        if point.config.batch["global"] is not None:
            accumulation(point.config, request.nodes * request.tasks_per_node)
    runs, scratch = Path(paths["runs"]), Path(paths["scratch"] or project.root)
    return Plan(project, site, request, points, rank, throttle, runs, scratch, command is None)


def prepare_nodes(project: Project, overrides: list[str]) -> Plan:
    """The plan of `lab doctor --nodes`: its program on every rank, ten minutes at most."""
    usual = [f"trial={_any_trial(project)}", "job.time=00:10:00", "job.name=doctor"]
    plan = prepare(project, [*usual, *overrides])
    plan.command, plan.trains = [*plan.command[:-2], f"{project.package}.lab.speed.nodes"], False
    return plan


def _any_trial(project: Project) -> str:
    if not (known := trials(project)):
        raise LabError("a job needs the settings of some trial, and there is none. Make one: lab trials new NAME")
    return known[0]


def script_of(run_dirs: list[Path]) -> Path:
    return run_dirs[0] / "job.sh"


def render(plan: Plan, run_dirs: list[Path], archive: Path, code: dict[str, Any]) -> str:
    """The text of job.sh: the plan's command in the code that lies in `archive`, for each run directory."""
    site, request, words, n = plan.site, plan.request, words_of(plan.site["scheduler"]), len(run_dirs)
    array = {"run_dir": run_dirs[0], "n": n, "last": n - 1, "throttle": plan.throttle}
    own = [words.get("log", "")] if n == 1 else [words.get("array_log", ""), *words.get("array", [])]
    options = [*request.options, *(option.format(**array) for option in own if option)]
    label = ["--label"] if site["launcher"] == "srun" and request.tasks_per_node * request.nodes > 1 else []
    script = shlex.quote(str(script_of(run_dirs)))
    listed = [shlex.quote(str(path)) for path in run_dirs]
    by_hand = shlex.join([words["send"][0], *request.submit_options])
    again = dict.fromkeys(("none", "scontrol"), ":") | {
        "exit99": "exit 99 # Grid Engine's code for: start this job again",
        "resubmit": f'{by_hand if n == 1 else words.get("resubmit_array")} "$SCRIPT" >"$RUN_DIR/resubmitted" && exit 0',
    }
    values = words | vars(request)
    values |= {
        "title": f"Run {run_dirs[0].name} of {run_dirs[0].parent.name}" + (f", and {n - 1} more" if n > 1 else ""),
        "directives": "\n".join(words["prefix"] + _quoted(option) for option in options),
        "by_hand": f"{by_hand} {script}",
        "runs": listed[0] if n == 1 else "\n" + "".join(f"  {path}\n" for path in listed),
        "project": shlex.quote(str(plan.project.root)),
        "code": shlex.quote(str(archive)),
        "prefix": code["prefix"],
        "commit": code["commit"],
        "command": shlex.join(plan.command),
        "script": script,
        "warn_after_s": request.time_s - request.lead_s,
        "again": again[site["requeue"]["method"]],
        "max_requeues": site["requeue"]["max"] if site["requeue"]["method"] != "none" else 0,
        "node_local": _node_local(site["node_local"]),
        "environment": "\n".join(f"  {line}" for line in environment(site, plan.scratch)) or "  :",
        "launcher": site["launcher"],
        "launcher_options": "".join(f" {option}" for option in [*label, *site["launcher_options"]]),
        "idle_guard": IDLE_GUARD.format(package=plan.project.package) if request.gpus else "",
    }
    values["scheduler"] = _filled(words["template"], values)
    return _filled("job.sh", values) + "\n"


def environment(site: Site, scratch: Path) -> list[str]:
    """Shell lines: modules, the site's variables, and no network or home where there is none."""
    modules, lines = site["modules"], []
    if modules["init"] or modules["load"] or modules["purge"]:
        init = f"source {shlex.quote(modules['init'] or '/etc/profile')}"
        lines += ["# shellcheck source=/dev/null", f"command -v module >/dev/null || {init} # not a login shell"]
    lines += ["module purge"] if modules["purge"] else []
    lines += ["module load " + shlex.join(modules["load"])] if modules["load"] else []
    if not site["internet"]:
        lines.append(f"export {' '.join(OFFLINE)} # compute nodes have no internet")
    if not site["home_writable"]:
        home = shlex.quote(str(scratch / ".home"))
        lines += [f"export HOME={home} # the real one cannot be written in jobs", 'mkdir -p "$HOME"']
    return [*lines, *(f"export {name}={shlex.quote(str(value))}" for name, value in site["env"].items())]


class JobTemplate(string.Template):
    delimiter = "@@"


def _filled(part: str, values: dict[str, Any]) -> str:
    text = (Path(__file__).parent / "job" / part).read_text(encoding="utf-8")
    return JobTemplate(text.rstrip()).substitute(values)


def _quoted(option: str) -> str:
    """A directive is read as a shell would: values with a blank or a special character need quotes."""
    flag, equals, value = option.partition("=")
    return f"{flag}={shlex.quote(value)}" if equals and " " not in flag else option


def _node_local(place: str | None) -> str:
    """The node's disk as the shell shall see it: "$TMPDIR" may be unset, then memory."""
    if place and place.startswith("$"):
        return "${" + place.removeprefix("$") + ":-/dev/shm}"
    return shlex.quote(place or "/dev/shm")
