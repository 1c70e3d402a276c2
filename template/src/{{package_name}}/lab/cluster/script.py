# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Renders the job script."""

from __future__ import annotations

import shlex
import string
from pathlib import Path
from typing import Any

from .dialect import load_dialect
from .plan import OFFLINE, Plan, _node_local
from .site import Site

IDLE_GUARD = '"${{COMMAND[0]}}" -m {package}.lab.cluster.gpu_guard $$ & # stops a job whose GPUs do nothing\n  '


def template_of(run_dirs: list[Path]) -> Path:
    return run_dirs[0] / "job.sh"


def render_script(plan: Plan, run_dirs: list[Path], archive: Path, code: dict[str, Any]) -> str:
    """The text of job.sh: the plan's command in the code that lies in `archive`, for each run directory."""
    site, request, words, n = (
        plan.site,
        plan.request,
        load_dialect(plan.site["scheduler"]),
        len(run_dirs),
    )
    array = {"run_dir": run_dirs[0], "n": n, "last": n - 1, "throttle": plan.throttle}
    own = (
        [words.get("log", "")] if n == 1 else [words.get("array_log", ""), *words.get("array", [])]
    )
    options = [*request.options, *(option.format(**array) for option in own if option)]
    label = (
        ["--label"]
        if site["launcher"] == "srun" and request.tasks_per_node * request.nodes > 1
        else []
    )
    script = shlex.quote(str(template_of(run_dirs)))
    listed = [shlex.quote(str(path)) for path in run_dirs]
    by_hand = shlex.join([words["send"][0], *request.submit_options])
    again = dict.fromkeys(("none", "scontrol"), ":") | {
        "exit99": "exit 99 # Grid Engine's code for: start this job again",
        "resubmit": f'{by_hand if n == 1 else words.get("resubmit_array")} "$SCRIPT" >"$RUN_DIR/resubmitted" && exit 0',
    }
    values = words | vars(request)
    values |= {
        "title": f"Run {run_dirs[0].name} of {run_dirs[0].parent.name}"
        + (f", and {n - 1} more" if n > 1 else ""),
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
        "environment": "\n".join(f"  {line}" for line in job_environment(site, plan.scratch))
        or "  :",
        "launcher": site["launcher"],
        "launcher_options": "".join(f" {option}" for option in [*label, *site["launcher_options"]]),
        "idle_guard": IDLE_GUARD.format(package=plan.project.package) if request.gpus else "",
    }
    values["scheduler"] = _filled(words["template"], values)
    return _filled("job.sh", values) + "\n"


def job_environment(site: Site, scratch: Path) -> list[str]:
    """Shell lines: modules, the site's variables, and no network or home where there is none."""
    modules, lines = site["modules"], []
    if modules["init"] or modules["load"] or modules["purge"]:
        init = f"source {shlex.quote(modules['init'] or '/etc/profile')}"
        lines += [
            "# shellcheck source=/dev/null",
            f"command -v module >/dev/null || {init} # not a login shell",
        ]
    lines += ["module purge"] if modules["purge"] else []
    lines += ["module load " + shlex.join(modules["load"])] if modules["load"] else []
    if not site["internet"]:
        lines.append(f"export {' '.join(OFFLINE)} # compute nodes have no internet")
    if not site["home_writable"]:
        home = shlex.quote(str(scratch / ".home"))
        lines += [
            f"export HOME={home} # the real one cannot be written in jobs",
            'mkdir -p "$HOME"',
        ]
    return [
        *lines,
        *(f"export {name}={shlex.quote(str(value))}" for name, value in site["env"].items()),
    ]


class JobTemplate(string.Template):
    delimiter = "@@"


def _filled(part: str, values: dict[str, Any]) -> str:
    text = (Path(__file__).parent / "job" / part).read_text(encoding="utf-8")
    return JobTemplate(text.rstrip()).substitute(values)


def _quoted(option: str) -> str:
    """A directive is read as a shell would: values with a blank or a special character need quotes."""
    flag, equals, value = option.partition("=")
    return f"{flag}={shlex.quote(value)}" if equals and " " not in flag else option
