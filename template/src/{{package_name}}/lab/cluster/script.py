# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The job script: one readable shell file per scheduler, made from job/*.sh; `@@{name}` is what Python fills in."""

from __future__ import annotations

import shlex
import string
from dataclasses import dataclass
from pathlib import Path

from .request import Request
from .site import Site, words_of

TEMPLATES = Path(__file__).parent / "job"
IDLE_GUARD = '"${{COMMAND[0]}}" -m {package}.lab.cluster.idle "$STEP" & # stops a job whose GPUs do nothing\nGUARD=$!\n'
OFFLINE = (
    "HF_HUB_OFFLINE=1",
    "HF_DATASETS_OFFLINE=1",
    "TRANSFORMERS_OFFLINE=1",
    "WANDB_MODE=offline",
    "UV_OFFLINE=1",
    "PIP_NO_INDEX=1",
)
CONFIG_HOMES = (
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "WANDB_CONFIG_DIR",
    "WANDB_CACHE_DIR",
    "MPLCONFIGDIR",
    "TRITON_CACHE_DIR",
)


class JobTemplate(string.Template):
    delimiter = "@@"


@dataclass(frozen=True)
class Job:
    """What a script runs: `command` on every rank, in frozen `code` of `commit`, for `run_dirs` (several: an array)."""

    title: str
    run_dirs: list[Path]
    project: Path
    code: Path
    commit: str
    prefix: str
    command: list[str]
    package: str
    throttle: int = 1
    scratch: Path | None = None

    @property
    def script(self) -> Path:
        return self.run_dirs[0] / "job.sh"


def render(site: Site, request: Request, job: Job) -> str:
    """The text of job.sh."""
    words = words_of(site["scheduler"])
    count = len(job.run_dirs)
    array = {"run_dir": job.run_dirs[0], "n": count, "last": count - 1, "throttle": job.throttle}
    own = [words.get("log" if count == 1 else "array_log"), *(words.get("array", []) if count > 1 else [])]
    options = [*request.options, *(option.format(**array) for option in own if option)]
    launcher_options = "".join(f"{option} " for option in site["launcher_options"])
    values = {
        "title": job.title.replace("\n", " "),
        "directives": "\n".join(words["prefix"] + _quoted(option) for option in options),
        "runs": _listed([str(path) for path in job.run_dirs]),
        "index": words["index"],
        "job_id": words["job_id"],
        "project": shlex.quote(str(job.project)),
        "code": shlex.quote(str(job.code)),
        "prefix": job.prefix,
        "commit": shlex.quote(job.commit),
        "command": shlex.join(job.command),
        "script": shlex.quote(str(job.script)),
        "nodes": request.nodes,
        "tasks": request.tasks_per_node,
        "cpus": request.cpus_per_task,
        "lead_s": request.lead_s,
        "warn_after_s": request.time_s - request.lead_s,
        "max_requeues": int(site["requeue"]["max"]),
        "node_local": _node_local(site["node_local"]),
        "environment": "\n".join(f"  {line}" for line in environment(site, job)),
        "label": "--label " if request.n_tasks > 1 else "",
        "launcher_options": launcher_options,
        "launcher": site["launcher"],
        "submit": words["submit"],
        "job_variable": words.get("job_variable"),
        "host_variable": words.get("host_variable"),
        "idle_guard": IDLE_GUARD.format(package=job.package) if request.gpus else "",
        "again": words.get("again", {}).get(site["requeue"]["method"], ":"),
    }
    for part in ("common.sh", words["template"]):
        text = (TEMPLATES / part).read_text(encoding="utf-8").rstrip()
        values[part.removesuffix(".sh")] = text = JobTemplate(text).substitute(values)
    return text + "\n"


def environment(site: Site, job: Job) -> list[str]:
    """Shell lines: modules, container or nothing, the site's variables, and no network where there is none."""
    lines = []
    modules = site["modules"]
    if modules and modules.get("init"):
        lines += ["# shellcheck source=/dev/null", f"source {shlex.quote(modules['init'])}"]
    elif modules:
        lines += [
            "# shellcheck source=/dev/null",
            "command -v module >/dev/null || source /etc/profile # not a login shell",
        ]
    if modules and modules.get("purge"):
        lines.append("module purge")
    if modules and modules.get("load"):
        lines.append("module load " + shlex.join(modules["load"]))
    if not site["internet"]:
        lines.append(f"export {' '.join(OFFLINE)} # compute nodes have no internet")
    if not site["home_writable"]:
        home = job.scratch or job.project
        lines.append(f"export HOME={shlex.quote(str(home / '.home'))} # the real one cannot be written in jobs")
        lines.append('mkdir -p "$HOME"')
        lines += [f"export {name}=$HOME/.{name.lower()}" for name in CONFIG_HOMES]
    lines += [f"export {name}={shlex.quote(str(value))}" for name, value in site["env"].items()]
    return lines or [":"]


def _quoted(option: str) -> str:
    """A directive is read as a shell would: values with a blank or a special character need quotes."""
    flag, equals, value = option.partition("=")
    if equals and shlex.quote(value) != value and " " not in flag:
        return f"{flag}={shlex.quote(value)}"
    return option


def _listed(words: list[str]) -> str:
    quoted = [shlex.quote(word) for word in words]
    return quoted[0] if len(quoted) == 1 else "\n" + "".join(f"  {word}\n" for word in quoted)


def _node_local(place: str | None) -> str:
    """The node's disk as the shell shall see it: "$TMPDIR" may be unset, then memory."""
    if place is None:
        return "/dev/shm"
    return "${" + place.removeprefix("$") + ":-/dev/shm}" if place.startswith("$") else shlex.quote(place)
