# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab submit`: freezes the code, renders the job, sends it, returns at once."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..bench.forecast import check_budget
from ..config.compose import Composition
from ..config.overrides import SettingsParser
from ..config.recorded import run_identity
from ..errors import Failed, LabError, Refused
from ..project import Project
from ..record.atomic import read_json
from ..record.bundle import STORE
from ..record.create import RunRequest, create_run
from ..record.frozen import freeze_code, unpack_code
from ..record.index import run_directories
from ..record.run import Run
from ..record.status import status_of
from .check_frozen import check_frozen, refuse_lacking
from .dialect import load_dialect
from .job_size import format_hms
from .jobs import job_state_of
from .local import scheduler_of
from .plan import Plan, plan_submission
from .script import render_script, template_of

TRIAL_OF_COMMANDS = "command"  # runs/command/…: what `lab submit -- CMD` ran


@dataclass(frozen=True)
class Submitted:
    """One run that a scheduler has taken."""

    run_id: str
    job_id: str
    run_dir: str
    log: str


def submit(
    *overrides: str,
    project: Project | None = None,
    command: list[str] | None = None,
    why: str | None = None,
    batch: bool = True,
    allow: bool = False,
    yes: bool = False,
) -> list[Submitted]:
    """Freezes and sends the run of these settings, or one run per point of a list; returns at once.

    Args:
        overrides: as on the command line, such as "trial=wide", "seed=0,1,2".
        command: any command to run instead of a training.
        why: kept in the record.
        batch: train one batch of the frozen code before sending; False checks keys, targets and files only.
        allow: record also what looks like a secret.
        yes: send also what will take more than budget.gpu_hours, by the forecast of a bench of the same code.

    Raises:
        LabError: the settings, the frozen code, the budget or the site say no; nothing was sent.
    """
    plan = plan_submission(project or Project.find(), list(overrides), command)
    return submit_plan(plan, why=why, batch=batch, allow=allow, yes=yes)


def submit_plan(
    plan: Plan,
    why: str | None = None,
    batch: bool = True,
    allow: bool = False,
    yes: bool = False,
    original: Run | None = None,
) -> list[Submitted]:
    """Freezes, checks and sends what `prepare` has prepared; with `original`, the code of that run, as it is."""
    if original:
        codes = {original.trial: original.record["code"]}
    else:
        codes = {point.trial: _freeze(plan, point, allow) for point in plan.points}
    code = codes[plan.points[0].trial]
    if len({code["commit"] for code in codes.values()}) > 1:
        raise Refused(
            "the code was edited while it was frozen, and nothing was sent. Type the same again."
        )
    if plan.trains and not original:
        plan.points = _holes(plan, code)
    if not plan.points:
        print(
            "every point of this list is queued, running or finished; nothing to send",
            file=sys.stderr,
        )
        return []
    if plan.trains:
        meant = yes or original is not None  # its hours are known from the first time
        check_budget(
            [point.config for point in plan.points], code["tree"], plan.request.time_s, meant
        )
    archive = plan.runs / STORE / f"{code['commit']}.tar"
    with tempfile.TemporaryDirectory(prefix="lab-submit-") as temporary:
        frozen = Path(temporary).resolve() / "code"
        unpack_code(
            code, plan.project.root, original.dir if original else plan.runs / STORE, frozen
        )
        if not original:
            settings = {name for point in plan.points for name in point.origin.values()}
            refuse_lacking(plan.project, code, frozen, settings)
            if batch and plan.trains:
                for point in {point.trial: point for point in plan.points}.values():
                    check_frozen(plan.project, code, frozen, point)
        if not archive.exists():
            _pack(frozen, archive)
    parent = original.id if original else None
    runs = [_create(plan, point, codes[point.trial], why, allow, parent) for point in plan.points]
    return _send(plan, runs, archive, code)


def _freeze(plan: Plan, point: Composition, allow: bool) -> dict[str, Any]:
    rules = point.config.record
    code = freeze_code(
        plan.project,
        plan.runs,
        point.trial,
        dirty=rules.dirty,
        max_file_mb=rules.max_file_mb,
        allow=allow,
    )
    if not code["complete"]:
        raise Refused(f"nothing was sent: the code cannot be frozen: {code['reason']}")
    return code


def _holes(plan: Plan, code: dict[str, Any]) -> list[Composition]:
    """The points of which no run is queued, running or finished; a single run is sent again, with a warning."""
    known, ask = {}, job_state_of()
    for directory in map(Path, run_directories(plan.runs)):
        record = read_json(directory / "run.json") or {}
        if (record.get("code") or {}).get("tree") == code["tree"]:
            state = status_of(directory, ask, record)
            if state in ("queued", "running", "finished"):
                known[run_identity((directory / "config.yaml").read_text(encoding="utf-8"))] = (
                    record["run_id"],
                    state,
                )
    holes = [point for point in plan.points if run_identity(point.yaml) not in known]
    if len(plan.points) == 1 and not holes:
        run_id, state = known[run_identity(plan.points[0].yaml)]
        print(
            f"lab: run {run_id} has the same code and settings, and is {state}; sending another",
            file=sys.stderr,
        )
        return plan.points
    if len(holes) < len(plan.points):
        filled = f"{len(plan.points) - len(holes)} of {len(plan.points)}"
        print(
            f"lab: {filled} points are queued, running or finished; filling the rest",
            file=sys.stderr,
        )
    return holes


def _pack(frozen: Path, archive: Path) -> None:
    """The frozen tree as <runs>/.code/<commit>.tar; nodes unpack it without git."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    aside = archive.with_suffix(f".{os.getpid()}.tmp")
    try:
        subprocess.run(
            ["tar", "-cf", str(aside), "-C", str(frozen), "."], check=True, capture_output=True
        )
        os.replace(aside, archive)
    except (subprocess.CalledProcessError, OSError) as error:
        raise Failed(
            f"the frozen code cannot be written to {archive}: {error}. Is the disk full?"
        ) from error
    finally:
        aside.unlink(missing_ok=True)


def _create(
    plan: Plan,
    point: Composition,
    code: dict[str, Any],
    why: str | None,
    allow: bool,
    parent: str | None,
) -> Run:
    request = RunRequest(
        trial=point.trial if plan.trains else TRIAL_OF_COMMANDS,
        config_yaml=point.yaml,
        overrides=point.overrides,
        argv=sys.argv,
        seed=point.config.seed,
        why=why,
        parent=parent,
        allow=allow,
        max_file_mb=point.config.record.max_file_mb,
        checkpoints=Path(path) if (path := point.config.paths.checkpoints) else None,
        code=code,
        job={"site": plan.site.name, "sending": True},
    )
    return create_run(plan.project, plan.runs, request)


def _send(plan: Plan, runs: list[Run], archive: Path, code: dict[str, Any]) -> list[Submitted]:
    """Writes the script of these runs, gives it to the scheduler, and notes the answer in their records."""
    request, scheduler, run_dirs = plan.request, plan.site["scheduler"], [run.dir for run in runs]
    script = template_of(run_dirs)
    script.write_text(render_script(plan, run_dirs, archive, code), encoding="utf-8")
    script.chmod(0o755)
    (script.parent / "site.yaml").write_text(plan.site.text, encoding="utf-8")
    if (
        len(runs) > 1
    ):  # a scheduler knows one pattern for logs only: <first run>/array/<index>.log leads to each run's
        (script.parent / "array").mkdir()
        for index, folder in enumerate(
            run_dirs, start=load_dialect(scheduler).get("first_index", 0)
        ):
            (script.parent / "array" / f"{index}.log").symlink_to(
                os.path.relpath(folder / "job.log", script.parent / "array")
            )
    try:
        job_ids = scheduler_of(scheduler).send(request, script, len(runs))
    except LabError as error:
        for run in runs:
            run.update(job={"site": plan.site.name, "refused": str(error)})
        raise type(error)(
            f"{error}\nNothing runs; the record and the script are kept: {script}"
        ) from error
    asked = {
        "nodes": request.nodes,
        "gpus": request.gpus,
        "time_s": request.time_s,
        "script": str(script),
    }
    for run, job_id in zip(runs, job_ids, strict=True):
        run.update(job={"scheduler": scheduler, "site": plan.site.name, "id": job_id, **asked})
    return [
        Submitted(run.id, run.record["job"]["id"], str(run.dir), str(run.dir / "job.log"))
        for run in runs
    ]


def submit_command(project: Project, args: list[str]) -> None:
    parser = SettingsParser(
        "lab submit",
        "Freezes the code, writes a job script, sends it and returns. Lists (seed=0,1,2) make one job array, a run per "
        "point; the same list again fills its holes. `lab submit … -- COMMAND` freezes and sends any command.",
    )
    parser.add_argument("--why", metavar="TEXT", help="what this run is for; kept in its record")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the job script and how it would be sent"
    )
    parser.add_argument(
        "--no-batch", action="store_true", help="check keys, targets and files only; nothing slow"
    )
    parser.add_argument("--allow", action="store_true", help="record also what looks like a secret")
    parser.add_argument(
        "--yes", action="store_true", help="send it though its forecast is above budget.gpu_hours"
    )
    parser.add_argument(
        "--json", action="store_true", help="for scripts: run_id, job_id, run_dir, log"
    )
    place = args.index("--") if "--" in args else len(args)
    chosen, command = parser.read(args[:place]), args[place + 1 :] if "--" in args else None
    if command == []:
        raise LabError(
            "nothing after --; type the command there: lab submit job.gpus=0 -- lab data pack raw/"
        )
    plan = plan_submission(project, chosen.overrides, command)
    if chosen.dry_run:
        return print(dry_run(plan))
    sent = submit_plan(
        plan, why=chosen.why, batch=not chosen.no_batch, allow=chosen.allow, yes=chosen.yes
    )
    if not chosen.json:
        return print_submitted(plan, sent)
    found = [asdict(one) for one in sent]
    print(json.dumps(found[0] if len(found) == 1 else found))


def dry_run(plan: Plan) -> str:
    """The script and the command, with <run id> where the run would be claimed."""
    request, n = plan.request, len(plan.points)
    folder = plan.runs / (
        plan.points[0].trial.replace("/", "+") if plan.trains else TRIAL_OF_COMMANDS
    )
    run_dirs = [folder / (f"<run id {i + 1}>" if n > 1 else "<run id>") for i in range(n)]
    text = render_script(
        plan, run_dirs, plan.runs / STORE / "<commit>.tar", {"commit": "'<commit>'", "prefix": ""}
    )
    gpu_hours = n * request.nodes * request.gpus * request.time_s / 3600
    size = f"{n} x [{request.nodes} node(s) x {request.gpus} GPUs for {format_hms(request.time_s)}], {gpu_hours:,.1f} GPU-hours"
    send = shlex.join(
        scheduler_of(plan.site["scheduler"]).send_command(request, template_of(run_dirs))
    )
    return f"{text}\n# {plan.site.name}: {size}\n# would be sent with: {send}"


def print_submitted(plan: Plan, sent: list[Submitted]) -> None:
    for one in sent[:10]:
        print(f"job {one.job_id}  run {one.run_id}  log {one.log}")
    if len(sent) > 10:
        print(f"and {len(sent) - 10} more")
    if sent:
        with suppress(Failed):  # it was sent, whatever the scheduler says next
            if start := scheduler_of(plan.site["scheduler"]).start_estimate(sent[0].job_id):
                print(f"expected start: {start}")
        print("look: lab queue    follow: lab logs @last -f")
