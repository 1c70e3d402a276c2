"""Fills in the job script: jobs/SCHEDULER.sh of the project, or job/job.sh with the scheduler's part."""

from __future__ import annotations

import re
import shlex
import string
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import LabError, nearest
from ..job.environment import JobPython, job_environment, job_python, rank_environment
from ..schedulers import scheduler_of
from ..schedulers.scheduler import Scheduler
from ..sites.site import describe_trust
from .plan import Plan

TEMPLATES = Path(__file__).parents[1] / "job"
JOBS = "jobs"  # in a project: its own job scripts
NOT_NEEDED = {"title", "site", "by_hand", "origin"}  # a script works without these


@dataclass(frozen=True)
class ScriptTemplate:
    """A job script with names to fill in, as @@{nodes}.

    Args:
        origin: whose it is, in words: jobs/slurm.sh of the project, or the library's own.
        editing: where it is edited, in words.
    """

    text: str
    origin: str
    editing: str


@dataclass(frozen=True)
class CodeArchive:
    """Frozen code as a tar file.

    Args:
        prefix: path of the project in it, "" or with a slash at its end.
        template: the job script that was frozen with it.
    """

    path: Path
    commit: str
    prefix: str
    template: ScriptTemplate


class JobTemplate(string.Template):
    delimiter = "@@"


def script_path(run_dirs: list[Path], name: str = "job.sh") -> Path:
    """Where the script of these runs is written."""
    return run_dirs[0] / name


def script_template(project: Path, scheduler: str) -> ScriptTemplate:
    """The job script of the project in the directory `project`, else the library's own."""
    file = project / JOBS / f"{scheduler}.sh"
    own = library_template(scheduler)
    if not file.is_file():
        return ScriptTemplate(
            own, f"the library's {scheduler}.sh", f"to edit it, copy it to {JOBS}/"
        )
    text = file.read_text(encoding="utf-8")
    known = names_in(own)
    unknown = names_in(text) - known
    origin = f"{JOBS}/{file.name}"
    if unknown:
        name = min(unknown)
        raise LabError(
            f"{origin} has @@{{{name}}}{nearest(name, known)}, which is no name to fill in.\n"
            f"It may hold: {', '.join(sorted(known))}"
        )
    return ScriptTemplate(text, origin, "edit it there")


def library_template(scheduler: str) -> str:
    """The library's job script for a scheduler, whole."""
    job = (TEMPLATES / "job.sh").read_text(encoding="utf-8")
    part = (TEMPLATES / scheduler_of(scheduler).template).read_text(encoding="utf-8")
    return job.replace("@@{scheduler}", part.rstrip())


def names_in(text: str) -> set[str]:
    """The names that are filled in."""
    return set(JobTemplate(text).get_identifiers())


def render_script(plan: Plan, run_dirs: list[Path], code: CodeArchive) -> str:
    """The text of job.sh: the plan's command in the frozen code, for each run directory."""
    values = script_values(plan, run_dirs, code)
    needed = names_in(library_template(plan.site.scheduler)) - NOT_NEEDED
    lacking = needed - names_in(code.template.text)
    for name in sorted(lacking):
        if values[name] != "":
            raise LabError(
                f"{code.template.origin} lacks @@{{{name}}}, and this job needs it. Bring it back: "
                f"git log -p {code.template.origin}\nWithout that file the library's own is used"
            )
    text = JobTemplate(code.template.text).substitute(values)
    # Parts that this job does not have leave no gap.
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).rstrip() + "\n"


def script_values(plan: Plan, run_dirs: list[Path], code: CodeArchive) -> dict[str, Any]:
    """What is filled into a job script, by name; texts are quoted for the shell."""
    scheduler = scheduler_of(plan.site.scheduler)
    request = plan.request
    script = shlex.quote(str(script_path(run_dirs, plan.script)))
    python = _python(plan)
    environment = [*job_environment(plan.site, plan.scratch, plan.caches), *python.environment]
    chain = _chain_part(plan, scheduler)
    launcher_options = [*python.launcher_options, *plan.site["launcher_options"]]
    if plan.site["launcher"] == "srun" and request.n_tasks > 1:
        launcher_options.insert(0, "--label")
    return {
        "title": _title(run_dirs),
        "site": f"Site {plan.site.name}: {describe_trust(plan.site)}",
        "origin": f"{code.template.origin}; {code.template.editing}",
        "directives": "\n".join(_directives(plan, run_dirs, scheduler)),
        "by_hand": scheduler.send_line(request, script),
        "runs": _run_list(run_dirs),
        "index": scheduler.index,
        "project": shlex.quote(str(plan.project.root)),
        "code": shlex.quote(str(code.path)),
        "prefix": code.prefix,
        "commit": code.commit,
        "python": python.words,
        "command": shlex.join(plan.command),
        "unpack": "".join(f"\n  {line}" for line in python.prepare),
        "script": script,
        "nodes": request.nodes,
        "tasks_per_node": request.tasks_per_node,
        "cpus_per_task": request.cpus_per_task,
        "max_requeues": _max_requeues(plan),
        "job_id": scheduler.job_id,
        "node_local": _node_local(plan.site["node_local"]),
        "environment": "\n".join(f"  {line}" for line in environment) or "  :",
        "of_rank": "".join(f"\n  {line}" for line in rank_environment(plan.site)),
        "rendezvous_suffix": plan.site["rendezvous_suffix"],
        "launcher": plan.site["launcher"],
        "launcher_options": "".join(f" {option}" for option in launcher_options),
        "host_variable": scheduler.host_variable,
        "warn_after_s": request.time_s - request.lead_s,
        "lead_s": request.lead_s,
        "again": _start_again(plan, scheduler, len(run_dirs)),
        "idle_guard": _idle_guard(plan),
        "chain": chain,
        "end_of_chain": "cancel_later_chunks" if chain else "",
        "guard": "\n".join(filter(None, [plan.guard, _after_part(plan)])),
    }


def _python(plan: Plan) -> JobPython:
    places = [shlex.quote(str(place)) for place in plan.mounts]
    mounts = [*places, f'"{_node_local(plan.site["node_local"])}"']
    facts = plan.image.facts() if plan.image else None
    return job_python(plan.site, plan.python, plan.image, facts, mounts)


def _title(run_dirs: list[Path]) -> str:
    first = run_dirs[0]
    title = f"Run {first.name} of {first.parent.name}"
    if len(run_dirs) == 1:
        return title
    return f"{title}, and {len(run_dirs) - 1} more"


def _directives(plan: Plan, run_dirs: list[Path], scheduler: Scheduler) -> list[str]:
    """The lines that the scheduler reads."""
    options = scheduler.directives(plan.request, run_dirs[0], len(run_dirs), plan.throttle)
    return [scheduler.prefix + _quote_value(option) for option in options]


def _quote_value(option: str) -> str:
    """Schedulers read a directive as a shell would, so a value with a blank needs quotes."""
    flag, equals, value = option.partition("=")
    if not equals or " " in flag:
        return option
    return f"{flag}={shlex.quote(value)}"


def _run_list(run_dirs: list[Path]) -> str:
    """The elements of a shell array: one on its line, several on lines of their own."""
    paths = [shlex.quote(str(path)) for path in run_dirs]
    if len(paths) == 1:
        return paths[0]
    return "\n" + "".join(f"  {path}\n" for path in paths)


def _max_requeues(plan: Plan) -> int:
    requeue = plan.site["requeue"]
    if requeue["method"] == "none" or plan.request.is_chain:
        return 0
    chunks = plan.request.chunks
    return max(requeue["max"], chunks.number - 1 if chunks else 0)


def _chain_part(plan: Plan, scheduler: Scheduler) -> str:
    """What a chunk of a chain does besides; "" for other jobs."""
    chunks = plan.request.chunks
    if chunks is None or not plan.request.is_chain:
        return ""
    cancel = " ".join('"$id"' if word == "{id}" else word for word in scheduler.cancel_command)
    text = (TEMPLATES / "chain.sh").read_text(encoding="utf-8")
    return JobTemplate(text.rstrip()).substitute(chunks=chunks.number, cancel=cancel)


def _after_part(plan: Plan) -> str:
    """What a job does first that comes after runs which must finish; "" for other jobs."""
    if plan.after is None or plan.after["when"] != "finished":
        return ""
    text = (TEMPLATES / "after.sh").read_text(encoding="utf-8")
    before = " ".join(map(shlex.quote, plan.after["runs"].values()))
    return JobTemplate(text.rstrip()).substitute(before=before)


def _start_again(plan: Plan, scheduler: Scheduler, n_runs: int) -> str:
    """The shell command with which a job that saved asks to be started again."""
    method = plan.site["requeue"]["method"]
    if method == "exit99":
        return "exit 99 # the scheduler's code for: start this job again"
    if method == "resubmit":
        resend = scheduler.send_line(plan.request, '"$SCRIPT"')
        if n_runs > 1:
            resend = f'{scheduler.resubmit_array} "$SCRIPT"'
        return f'{resend} >"$RUN_DIR/resubmitted" && exit 0'
    return ":"  # Slurm's own part does it, or the site cannot


def _idle_guard(plan: Plan) -> str:
    """The start of the process that stops a job whose GPUs do nothing."""
    if not plan.request.gpus or plan.idle_min is None:
        return ""
    module = "labrig.cluster.job.gpu_guard"
    start = f'"${{PYTHON[@]}}" -m {module} $$ {plan.idle_min:g} &'
    return f"{start} # stops a job whose GPUs do nothing"


def _node_local(place: str | None) -> str:
    """The node's disk, for the shell: a variable of the job such as $TMPDIR, else memory."""
    if place and place.startswith("$"):
        return "${" + place.removeprefix("$") + ":-/dev/shm}"
    return shlex.quote(place or "/dev/shm")
