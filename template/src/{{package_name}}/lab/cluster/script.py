# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The job script: one readable shell file per scheduler, made from job/*.sh; `@@{name}` is what Python fills in."""

from __future__ import annotations

import shlex
import string
from dataclasses import dataclass
from pathlib import Path

from .request import Request
from .site import Site

TEMPLATES = Path(__file__).parent / "job"
PREFIX = {"slurm": "#SBATCH ", "pbs": "#PBS ", "gridengine": "#$ ", "pjm": "#PJM ", "local": "# "}
JOB_ID = {
    "slurm": "$SLURM_JOB_ID",
    "pbs": "$(echo \"${PBS_JOBID%%.*}\" | tr -d ']' | tr '[' _)",
    "gridengine": "$JOB_ID${LAB_INDEX:+_$LAB_INDEX}",
    "pjm": "$PJM_JOBID${LAB_INDEX:+_$LAB_INDEX}",
    "local": "$$",
}
ARRAY_INDEX = {  # of this task in RUNS; 0 for a job that is no array
    "slurm": "${SLURM_ARRAY_TASK_ID:-0}",
    "pbs": "${PBS_ARRAY_INDEX:-0}",
    "gridengine": "$((${SGE_TASK_ID/undefined/1} - 1))",
    "pjm": "${PJM_BULKNUM:-0}",
    "local": "0",
}
ARRAY = {  # options of an array of n runs, at most k at a time; a scheduler without a throttle starts what fits
    "slurm": "--array=0-{last}%{throttle}",
    "pbs": "-J 0-{last}%{throttle}",
    "gridengine": "-t 1-{n}",
    "pjm": "--bulk --sparam 0-{last}",
}
LOG = {  # the scheduler's output: a single run's log, or a link to it per array task
    "slurm": ("--output={run_dir}/job.log", "--output={run_dir}/array/%a.log"),
    "pbs": ("-o {run_dir}/job.log", "-o {run_dir}/array/^array_index^.log"),
    "gridengine": ("-o {run_dir}/job.log", "-o {run_dir}/array/$TASK_ID.log"),
    "pjm": ("-o {run_dir}/job.log", "-o {run_dir}/array/%b.log"),
}
TEMPLATE = {"slurm": "slurm", "local": "local", "pbs": "mpi", "gridengine": "mpi", "pjm": "mpi"}
SUBMIT = {"slurm": "sbatch", "pbs": "qsub", "gridengine": "qsub", "pjm": "pjsub", "local": "bash"}
JOB_VARIABLE = {"pbs": "PBS_JOBID", "gridengine": "JOB_ID", "pjm": "PJM_JOBID"}
HOST_VARIABLE = {"pbs": "PBS_NODEFILE", "gridengine": "PE_HOSTFILE", "pjm": "PJM_O_NODEINF"}
AGAIN = {
    "exit99": "exit 99 # Grid Engine's code for: start this job again",
    "resubmit:pbs": '{ [ "${#RUNS[@]}" = 1 ] && qsub "$SCRIPT"; } || qsub -J "$LAB_INDEX-$((LAB_INDEX + 1)):2" "$SCRIPT"\n    exit 0',
    "resubmit:pjm": '{ [ "${#RUNS[@]}" = 1 ] && pjsub "$SCRIPT"; } || pjsub --bulk --sparam "$LAB_INDEX-$LAB_INDEX" "$SCRIPT"\n    exit 0',
}
IDLE_GUARD = '"${{COMMAND[0]}}" -m {package}.lab.cluster.idle "$STEP" & # stops a job whose GPUs do nothing\nGUARD=$!\n'
OFFLINE = ("HF_HUB_OFFLINE=1", "HF_DATASETS_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "WANDB_MODE=offline", "UV_OFFLINE=1", "PIP_NO_INDEX=1")
CONFIG_HOMES = ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "MPLCONFIGDIR", "TRITON_CACHE_DIR")


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
    scheduler = site["scheduler"]
    last = len(job.run_dirs) - 1
    options = list(request.options)
    if scheduler in LOG:
        options.append(LOG[scheduler][last > 0].format(run_dir=job.run_dirs[0]))
    if last and scheduler in ARRAY:
        options.append(ARRAY[scheduler].format(n=last + 1, last=last, throttle=job.throttle))
        options += [f"-tc {job.throttle}"] if scheduler == "gridengine" else []
    launcher_options = "".join(f"{option} " for option in site["launcher_options"])
    values = {
        "title": job.title.replace("\n", " "),
        "directives": "\n".join(PREFIX[scheduler] + _quoted(option) for option in options),
        "runs": _listed([str(path) for path in job.run_dirs]),
        "index": ARRAY_INDEX[scheduler],
        "job_id": JOB_ID[scheduler],
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
        "submit": SUBMIT[scheduler],
        "job_variable": JOB_VARIABLE.get(scheduler),
        "host_variable": HOST_VARIABLE.get(scheduler),
        "idle_guard": IDLE_GUARD.format(package=job.package) if request.gpus else "",
        "again": AGAIN.get(site["requeue"]["method"]) or AGAIN.get(f"{site['requeue']['method']}:{scheduler}", ":"),
    }
    for part in ("common", TEMPLATE[scheduler]):
        text = (TEMPLATES / f"{part}.sh").read_text(encoding="utf-8").rstrip()
        values[part] = JobTemplate(text).substitute(values)
    return values[TEMPLATE[scheduler]] + "\n"


def environment(site: Site, job: Job) -> list[str]:
    """Shell lines: modules, container or nothing, the site's variables, and no network where there is none."""
    lines = []
    modules = site["modules"]
    if modules and modules.get("init"):
        lines += ["# shellcheck source=/dev/null", f"source {shlex.quote(modules['init'])}"]
    elif modules:
        lines += ["# shellcheck source=/dev/null", "command -v module >/dev/null || source /etc/profile # not a login shell"]
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
