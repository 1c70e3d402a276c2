# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""Renders the job script from job/job.sh and the scheduler's part of it."""

from __future__ import annotations

import shlex
import string
from dataclasses import asdict, dataclass
from pathlib import Path

from .dialect import Dialect, load_dialect
from .job_environment import job_environment
from .job_python import JobPython, job_python
from .plan import Plan
from .verified import describe_trust

TEMPLATES = Path(__file__).parent / "job"


@dataclass(frozen=True)
class CodeArchive:
    """Frozen code as a tar file.

    Args:
        prefix: path of the project in it, "" or with a slash at its end.
    """

    path: Path
    commit: str
    prefix: str


@dataclass(frozen=True)
class JobScript:
    """Every @@{…} of job/job.sh; texts are quoted for the shell."""

    title: str
    directives: str
    by_hand: str
    runs: str
    index: str
    project: str
    code: str
    prefix: str
    commit: str
    python: str
    command: str
    unpack: str
    script: str
    nodes: int
    tasks_per_node: int
    cpus_per_task: int
    max_requeues: int
    job_id: str
    node_local: str
    environment: str
    scheduler: str
    guard: str
    site: str
    chain: str
    end_of_chain: str


@dataclass(frozen=True)
class ChainPart:
    """Every @@{…} of job/chain.sh."""

    chunks: int
    cancel: str


@dataclass(frozen=True)
class SchedulerPart:
    """Every @@{…} of job/slurm.sh, mpi.sh and local.sh."""

    launcher: str
    launcher_options: str
    host_variable: str
    warn_after_s: int
    lead_s: int
    again: str
    idle_guard: str


class JobTemplate(string.Template):
    delimiter = "@@"


def script_path(run_dirs: list[Path]) -> Path:
    """Where the script of these runs is written."""
    return run_dirs[0] / "job.sh"


def render_script(plan: Plan, run_dirs: list[Path], code: CodeArchive) -> str:
    """The text of job.sh: the plan's command in the frozen code, for each run directory."""
    dialect = load_dialect(plan.site.scheduler)
    request = plan.request
    script = shlex.quote(str(script_path(run_dirs)))
    send = shlex.join([dialect.send[0], *request.submit_options])
    resend = send if len(run_dirs) == 1 else dialect.resubmit_array
    python = _python(plan)
    environment = [*job_environment(plan.site, plan.scratch, plan.caches), *python.environment]
    chain = _chain_part(plan, dialect)
    values = JobScript(
        title=_title(run_dirs),
        directives="\n".join(_directives(plan, run_dirs, dialect)),
        by_hand=f"{send} {script}",
        runs=_run_list(run_dirs),
        index=dialect.index,
        project=shlex.quote(str(plan.project.root)),
        code=shlex.quote(str(code.path)),
        prefix=code.prefix,
        commit=code.commit,
        python=python.words,
        command=shlex.join(plan.command),
        unpack="".join(f"\n  {line}" for line in python.prepare),
        script=script,
        nodes=request.nodes,
        tasks_per_node=request.tasks_per_node,
        cpus_per_task=request.cpus_per_task,
        max_requeues=_max_requeues(plan),
        job_id=dialect.job_id,
        node_local=_node_local(plan.site["node_local"]),
        environment="\n".join(f"  {line}" for line in environment) or "  :",
        scheduler=_fill_in(dialect.template, _scheduler_part(plan, dialect, resend, python)),
        site=f"Site {plan.site.name}: {describe_trust(plan.site)}",
        chain=chain,
        end_of_chain="cancel_later_chunks\n" if chain else "",
        guard=plan.guard,
    )
    return _fill_in("job.sh", values) + "\n"


def _python(plan: Plan) -> JobPython:
    places = [shlex.quote(str(place)) for place in plan.mounts]
    mounts = [*places, f'"{_node_local(plan.site["node_local"])}"']
    facts = plan.image.facts() if plan.image else None
    return job_python(plan.site, plan.python, plan.image, facts, mounts)


def _scheduler_part(plan: Plan, dialect: Dialect, resend: str, python: JobPython) -> SchedulerPart:
    """`resend`: the command that sends this script again."""
    request = plan.request
    launcher_options = [*python.launcher_options, *plan.site["launcher_options"]]
    if plan.site["launcher"] == "srun" and request.n_tasks > 1:
        launcher_options.insert(0, "--label")
    return SchedulerPart(
        launcher=plan.site["launcher"],
        launcher_options="".join(f" {option}" for option in launcher_options),
        host_variable=dialect.host_variable,
        warn_after_s=request.time_s - request.lead_s,
        lead_s=request.lead_s,
        again=_start_again(plan.site["requeue"]["method"], resend),
        idle_guard=_idle_guard(plan),
    )


def _title(run_dirs: list[Path]) -> str:
    first = run_dirs[0]
    title = f"Run {first.name} of {first.parent.name}"
    if len(run_dirs) == 1:
        return title
    return f"{title}, and {len(run_dirs) - 1} more"


def _directives(plan: Plan, run_dirs: list[Path], dialect: Dialect) -> list[str]:
    """The lines that the scheduler reads: the request's options, the log, the size of an array."""
    n_runs = len(run_dirs)
    if n_runs == 1:
        templates = [dialect.log] if dialect.log else []
    else:
        templates = [dialect.array_log] if dialect.array_log else []
        templates += dialect.array
    options = [
        template.format(run_dir=run_dirs[0], n=n_runs, last=n_runs - 1, throttle=plan.throttle)
        for template in templates
    ]
    return [dialect.prefix + _quote_value(option) for option in [*plan.request.options, *options]]


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


def _chain_part(plan: Plan, dialect: Dialect) -> str:
    """What a chunk of a chain does besides; "" for other jobs."""
    chunks = plan.request.chunks
    if chunks is None or not plan.request.is_chain:
        return ""
    cancel = " ".join('"$id"' if word == "{id}" else word for word in dialect.cancel)
    return _fill_in("chain.sh", ChainPart(chunks.number, cancel)) + "\n\n"


def _start_again(method: str, resend: str) -> str:
    """The shell command with which a job that saved asks to be started again."""
    if method == "exit99":
        return "exit 99 # Grid Engine's code for: start this job again"
    if method == "resubmit":
        return f'{resend} "$SCRIPT" >"$RUN_DIR/resubmitted" && exit 0'
    return ":"  # Slurm's own part does it, or the site cannot


def _idle_guard(plan: Plan) -> str:
    """The start of the process that stops a job whose GPUs do nothing."""
    if not plan.request.gpus or plan.idle_min is None:
        return ""
    module = f"{plan.project.package}.lab.cluster.gpu_guard"
    start = f'"${{PYTHON[@]}}" -m {module} $$ {plan.idle_min:g} &'
    return f"{start} # stops a job whose GPUs do nothing\n  "


def _node_local(place: str | None) -> str:
    """The node's disk, for the shell: a variable of the job such as $TMPDIR, else memory."""
    if place and place.startswith("$"):
        return "${" + place.removeprefix("$") + ":-/dev/shm}"
    return shlex.quote(place or "/dev/shm")


def _fill_in(template: str, values: JobScript | SchedulerPart | ChainPart) -> str:
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    text = text.partition("\n")[2]  # without the line that says whose file the template is
    return JobTemplate(text.rstrip()).substitute(asdict(values))
