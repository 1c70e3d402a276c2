"""`lab submit`."""

from __future__ import annotations

import argparse
import json
import shlex
from contextlib import suppress
from dataclasses import asdict, replace

from ...config.overrides import SettingsParser
from ...errors import Failed, LabError
from ...machine.text_formats import counted, format_hms
from ...project import Project
from ...providers import provided
from ...record.freeze.bundle import STORE
from ...training.start.unchanged import IF_CHANGED_HELP
from ..schedulers import scheduler_of
from ..sites.site import print_balance
from ..watch.queue import format_wait, typical_waits
from .after import options_of_after
from .arrays import OverFiles, arrays_of, plan_over_files
from .plan import Plan, plan_submission
from .resume_as_job import named_run, plan_resumption, submit_resumption
from .script import CodeArchive, render_script, script_path, script_template
from .send import Submitted
from .submit import SubmitOptions, submit_plan

ON = "on="
MAX_PRINTED = 10  # runs of an array


def submit_command(project: Project, args: list[str]) -> None:
    """`lab submit`; with on=HOST on that host, with on=A,B where the job starts first."""
    settings, command = split_command(args)
    hosts = [word.removeprefix(ON) for word in settings if word.startswith(ON)]
    if hosts:
        words = [word for word in settings if not word.startswith(ON)]
        submit_to_hosts(project, hosts[-1].split(","), words, command)
        return
    chosen = parse_arguments(settings)
    if command is None and not chosen.each and named_run(chosen.overrides):
        plan, run, stretch = plan_resumption(project, chosen.overrides)
        if chosen.dry_run:
            print(dry_run(plan))
            return
        print_result(plan, submit_resumption(plan, run, stretch, chosen.yes), chosen.json)
        return
    if chosen.if_changed and command is not None:
        raise LabError(
            "--if-changed is for a training: nobody knows what a command reads. Leave it out, or have "
            "a workflow decide: lab docs workflows"
        )
    plan = plan_of_arguments(project, chosen, command)
    if plan and chosen.dry_run:
        print(dry_run(plan))
        return
    options = SubmitOptions(
        why=chosen.why,
        batch=not chosen.no_batch,
        allow=chosen.allow,
        yes=chosen.yes,
        if_changed=chosen.if_changed,
    )
    if plan:
        print_balance(plan.site)
    print_result(plan, submit_plan(plan, options) if plan else [], chosen.json)


def submit_to_hosts(
    project: Project, hosts: list[str], settings: list[str], command: list[str] | None
) -> None:
    """Sends a job to other machines."""
    send = provided("submit_to_hosts")
    if send is None:
        raise LabError("on= needs labrig.remote, which is not installed here. Leave out on=")
    send(project, hosts, settings, command)


def print_result(plan: Plan | None, submitted: list[Submitted], as_json: bool) -> None:
    """Prints what was sent, for a reader or for a script."""
    if as_json:
        print(json_of(submitted))
    else:
        print_submitted(plan, submitted)


def plan_of_arguments(
    project: Project, chosen: argparse.Namespace, command: list[str] | None
) -> Plan | None:
    """The plan of what was typed; None when all files of --each are done."""
    if chosen.each:
        over_files = OverFiles(chosen.each, chosen.per_task)
        return plan_over_files(project, chosen.overrides, command, over_files)
    return plan_submission(project, chosen.overrides, command)


def split_command(args: list[str]) -> tuple[list[str], list[str] | None]:
    """The arguments before `--`, and the command after it (None without `--`)."""
    if "--" not in args:
        return args, None
    place = args.index("--")
    command = args[place + 1 :]
    if not command:
        raise LabError(
            "there is no command after --. For example: lab submit job.gpus=0 -- lab data pack raw/"
        )
    return args[:place], command


def parse_arguments(args: list[str]) -> argparse.Namespace:
    parser = SettingsParser(
        "lab submit",
        "Freezes the code, writes a job script, sends it and returns."
        " lab submit RUN continues an interrupted run as a job, also @last."
        " Lists (seed=0,1,2) make one job array with a run for each point;"
        " the same list again submits only the runs that are missing."
        " on=HOST sends it to a host over ssh: lab docs laptop."
        " after=RUN waits until that run has finished, after=any:RUN until it is over."
        " `lab submit … -- COMMAND` freezes the code and sends any command;"
        " with --each it runs for each file that it has not run for.",
    )
    parser.add_argument(
        "--each",
        action="append",
        metavar="'PATTERN'",
        help="run the command after -- for each file, with its path in place of {}",
    )
    parser.add_argument(
        "--per-task", type=int, default=1, metavar="K", help="files of one task (1)"
    )
    parser.add_argument("--why", metavar="TEXT", help="what this run is for; kept in its record")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the job script and how it would be sent"
    )
    parser.add_argument(
        "--no-batch", action="store_true", help="check keys, targets and files only; nothing slow"
    )
    parser.add_argument("--allow", action="store_true", help="record also what looks like a secret")
    parser.add_argument("--if-changed", action="store_true", help=IF_CHANGED_HELP)
    parser.add_argument("--yes", action="store_true", help="send it though it is above its budget")
    parser.add_argument(
        "--json", action="store_true", help="for scripts: run_id, job_id, run_dir, log"
    )
    return parser.read(args)


def json_of(submitted: list[Submitted]) -> str:
    """An object for one run, a list for several or none."""
    rows = [asdict(run) for run in submitted]
    return json.dumps(rows[0] if len(rows) == 1 else rows)


def dry_run(plan: Plan) -> str:
    """The script and the command that would send it; runs have no id yet."""
    n_runs = len(plan.points)
    folder = plan.runs / plan.trial_of(plan.points[0]).replace("/", "+")
    run_dirs = [folder / "<run id>"]
    if n_runs > 1:
        run_dirs = [folder / f"<run id {i + 1}>" for i in range(n_runs)]
    template = script_template(plan.project.root, plan.site.scheduler)
    archive = CodeArchive(plan.runs / STORE / "<commit>.tar", "'<commit>'", "", template)
    scheduler = scheduler_of(plan.site.scheduler)
    waits = options_of_after(plan.after, plan.site.scheduler)
    options = [*plan.request.submit_options, *(waits or [])]
    request = replace(plan.request, submit_options=options)
    send = scheduler.send_line(request, shlex.quote(str(script_path(run_dirs, plan.script))))
    remarks = [*plan.request.why, *describe_arrays(plan)]
    if waits is None:
        remarks.append(f"would wait here: {scheduler.name} cannot wait for the runs before")
    notes = "".join(f"# {line}\n" for line in remarks)
    return (
        f"{render_script(plan, run_dirs, archive)}\n"
        f"# {plan.site.name}: {format_size(plan)}\n"
        f"{notes}"
        f"# would be sent with: {send}\n"
        f"# the job script is {template.origin}; {template.editing}"
    )


def describe_arrays(plan: Plan) -> list[str]:
    """How the runs of a plan would be divided now; nothing for one array that fits."""
    try:
        arrays = arrays_of(plan)
    except LabError as error:
        return str(error).splitlines()
    n_waiting = sum(array.n_waiting for array in arrays)
    sizes = ", ".join(str(array.n_runs) for array in arrays)
    lines = [f"{len(arrays)} job arrays, of {sizes} runs"] if len(arrays) > 1 else []
    if n_waiting:
        lines.append(f"{counted(n_waiting, 'run')} would wait here: lab queue sends what fits")
    return lines


def format_size(plan: Plan) -> str:
    """Nodes, GPUs and hours of all jobs of a plan."""
    request = plan.request
    n_runs = len(plan.points)
    nodes = counted(request.nodes, "node")
    gpus = counted(request.gpus, "GPU")
    one_job = f"{nodes} x {gpus} for {format_hms(request.total_s)}"
    if request.chunks and request.total_s > request.time_s:
        one_job += f" in {request.chunks.number} chunks of {format_hms(request.time_s)}"
    return f"{n_runs} x [{one_job}], {n_runs * request.gpu_hours:,.1f} GPU-hours"


def print_submitted(plan: Plan | None, submitted: list[Submitted]) -> None:
    """Prints job, run and log of each run, and when the first is expected to start."""
    for run in submitted:
        if run.unchanged:
            print(
                f"run {run.run_id}  unchanged: the same code, settings and inputs; {run.unchanged}"
            )
    submitted = [run for run in submitted if not run.unchanged]
    if plan is None or not submitted:
        return
    sent = [run for run in submitted if run.job_id]
    n_waiting = len(submitted) - len(sent)
    if n_waiting:
        why = "you may not queue more jobs now"
        if plan.after:
            why = f"{plan.site.scheduler} cannot wait for the runs before"
        print(
            f"{counted(n_waiting, 'run')} of {len(submitted)} wait here, as {why}.\n"
            "lab queue sends those that fit; to send all in time: lab queue --watch"
        )
    if not sent:
        return
    submitted = sent
    for run in submitted[:MAX_PRINTED]:
        print(f"job {run.job_id}  run {run.run_id}  log {run.log}")
    if len(submitted) > MAX_PRINTED:
        print(f"and {len(submitted) - MAX_PRINTED} more")
    if submitted[0].chain:
        chain = submitted[0].chain
        print(f"{len(chain)} chunks, jobs {chain[0]} to {chain[-1]}; each resumes the one before")
    print_typical_wait(plan)
    with suppress(Failed):  # the jobs are queued, whatever the scheduler answers now
        start = scheduler_of(plan.site.scheduler).start_estimate(submitted[0].job_id)
        if start:
            print(f"expected start: {start}")
    print("list your jobs: lab queue    follow the log: lab logs @last -f")


def print_typical_wait(plan: Plan) -> None:
    """Prints how long your runs have waited in the queue of a plan."""
    for wait in typical_waits(plan.project):
        if (wait.site, wait.queue) == (plan.site.name, plan.request.queue):
            print(f"typical wait: {format_wait(wait)}")
