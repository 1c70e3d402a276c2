# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The command line of `lab submit`."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path

from ..config.overrides import SettingsParser
from ..errors import Failed, LabError
from ..project import Project
from .local import scheduler_of
from .request import clock
from .script import Job, render
from .submit import Plan, Submitted, prepare, submit


def submit_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser(
        "lab submit",
        "Freezes the code, writes a job script, sends it and returns. Lists (seed=0,1,2) make one job array, a run per "
        "point; the same list again fills its holes. `lab submit … -- COMMAND` freezes and sends any command.",
    )
    parser.add_argument("--why", metavar="TEXT", help="what this run is for; kept in its record")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the job script and how it would be sent; write nothing"
    )
    parser.add_argument(
        "--no-batch", action="store_true", help="check keys, targets and files only; imports nothing slow"
    )
    parser.add_argument("--allow", action="store_true", help="record also what looks like a secret")
    parser.add_argument("--json", action="store_true", help="for scripts: run_id, job_id, run_dir, log")
    own, command = split(args)
    chosen = parser.read(own)
    if chosen.dry_run:
        print(dry_run(project, prepare(project, chosen.overrides, command)), end="")
        return 0
    sent = submit(
        *chosen.overrides,
        project=project,
        command=command,
        why=chosen.why,
        batch=not chosen.no_batch,
        allow=chosen.allow,
    )
    if chosen.json:
        found = [asdict(one) for one in sent]
        print(json.dumps(found[0] if len(found) == 1 else found))
    else:
        tell(project, sent)
    return 0


def split(args: list[str]) -> tuple[list[str], list[str] | None]:
    """What comes before `--`, and the command after it (None without one)."""
    if "--" not in args:
        return args, None
    place = args.index("--")
    if not args[place + 1 :]:
        raise LabError("nothing after --; type the command there: lab submit job.gpus=0 -- lab data pack raw/")
    return args[:place], args[place + 1 :]


def dry_run(project: Project, plan: Plan) -> str:
    """The script and the command, with <run id> where the run would be claimed."""
    trial = plan.points[0].trial.replace("/", "+")
    count = len(plan.points)
    directories = [plan.runs / trial / (f"<run id {i + 1}>" if count > 1 else "<run id>") for i in range(count)]
    job = Job(
        title=f"Run <run id> of trial {plan.points[0].trial}",
        run_dirs=directories,
        project=project.root,
        code=plan.runs / ".code" / "<commit>.tar",
        commit="<commit>",
        prefix="",
        command=plan.command,
        package=project.package,
        throttle=plan.throttle,
        scratch=Path(path) if (path := plan.points[0].config.paths.scratch) else None,
    )
    send = scheduler_of(plan.site["scheduler"]).submit_command(plan.request, job.script)
    hours = f", at most {plan.request.gpu_hours * count:,.1f} GPU-hours" if plan.request.gpus else ""
    size = (
        f"{count} x [{plan.request.nodes} node(s) x {plan.request.gpus} GPUs for {clock(plan.request.time_s)}]{hours}"
    )
    return f"{render(plan.site, plan.request, job)}\n# {plan.site.name}: {size}\n# would be sent with: {shlex.join(send)}\n"


def tell(project: Project, sent: list[Submitted]) -> None:
    for one in sent[:10]:
        print(f"job {one.job_id}  run {one.run_id}  log {one.log}")
    if len(sent) > 10:
        print(f"and {len(sent) - 10} more")
    if not sent:
        return
    from ..record.run import Run

    job = Run.open(Path(sent[0].run_dir)).record["job"]
    try:
        start = scheduler_of(job["scheduler"]).start_estimate(sent[0].job_id)
    except Failed:
        start = None
    if start:
        print(f"expected start: {start}")
    print("look: lab queue    follow: lab logs @last -f")
