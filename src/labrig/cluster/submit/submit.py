"""Submits runs: freezes the code, checks it, records the runs, and sends one job for all."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ...config.compose import Composition, check_packages
from ...errors import Failed, Refused
from ...project import Project, say_once
from ...record.files.code_section import library_of, same_code
from ...record.files.schema import Code, Job
from ...record.freeze.bundle import STORE, flush_to_disk
from ...record.freeze.frozen import freeze_code, unpack_code
from ...record.freeze.packages import installed_packages
from ...record.read.each import Inputs
from ...record.read.run import Run, Stretch
from ...record.write.create import RunRequest, create_run, ids_from
from ...record.write.inputs import is_to_come
from .arrays import JobArray, OverFiles, arrays_of, plan_over_files
from .budget import check_budget
from .check_frozen import check_frozen, name_unseen_words, refuse_missing_files
from .existing_runs import points_to_submit, refuse_unknown_command, without_unchanged
from .plan import Plan, plan_submission
from .script import CodeArchive, render_script, script_path, script_template
from .send import Submitted, send_arrays, sent_record


@dataclass(frozen=True)
class SubmitOptions:
    """How to submit.

    Args:
        why: kept in the record.
        batch: train one batch of the frozen code before sending; False: check keys, targets and
            files only.
        allow: record also what looks like a secret.
        yes: send also what takes more than its budget.
        if_changed: leave out points that a run of the same code, settings and inputs stands for.
    """

    why: str | None = None
    batch: bool = True
    allow: bool = False
    yes: bool = False
    if_changed: bool = False


def submit(
    *overrides: str,
    project: Project | None = None,
    command: list[str] | None = None,
    each: str | None = None,
    per_task: int = 1,
    why: str | None = None,
    batch: bool = True,
    allow: bool = False,
    yes: bool = False,
) -> list[Submitted]:
    """Freezes and sends a run of these settings, or one for each point of a list; returns at once.

    Args:
        overrides: as on the command line, such as "trial=wide", "seed=0,1,2".
        command: any command to run instead of a training.
        each: a pattern of files. The command runs for each of them that it has not run for, with the
            path in place of {}.
        per_task: files of one task of the array.
        why: kept in the record.
        batch: train one batch of the frozen code before sending.
        allow: record also what looks like a secret.
        yes: send also what takes more than its budget.

    Raises:
        LabError: the settings, the frozen code, the budget or the site forbid it; nothing was sent.
    """
    project = project or Project.of_notebook()
    options = SubmitOptions(why=why, batch=batch, allow=allow, yes=yes)
    if each is None:
        return submit_plan(plan_submission(project, list(overrides), command), options)
    plan = plan_over_files(project, list(overrides), command, OverFiles([each], per_task))
    return submit_plan(plan, options) if plan else []


def submit_plan(plan: Plan, options: SubmitOptions) -> list[Submitted]:
    """Freezes, checks, records and sends the points of a plan, in this order."""
    codes = freeze_points(plan.project, plan.runs, plan.points, options.allow)
    standing: list[Submitted] = []
    if options.if_changed:
        plan, standing = without_unchanged(plan, codes)
    if not plan.points:
        return standing
    return [*standing, *submit_frozen(plan, options, codes, plan.runs / STORE)]


def submit_frozen(
    plan: Plan,
    options: SubmitOptions,
    codes: dict[str, Code],
    bundles: Path,
    first_id: str | None = None,
) -> list[Submitted]:
    """Checks, records and sends the points of a plan, with code that was frozen before.

    Args:
        codes: the code of each trial.
        bundles: the directory with its bundles.
        first_id: of the first run, chosen by who sends it; see `ids_from`.
    """
    code = codes[plan.points[0].trial]
    if plan.trains:
        plan = replace(plan, points=points_to_submit(plan, code["tree"]))
        if not plan.points:
            return []
    elif plan.inputs is None:
        refuse_unknown_command(plan, code["tree"])
    check_budget(plan, code["tree"], options.yes)
    arrays = arrays_of(plan)
    with unpacked(plan, code, bundles) as frozen:
        check_points(plan, code, frozen, options.batch)
        archive = pack_code(plan, code, frozen)
    render_script(plan, [plan.runs / str(i) for i in range(len(plan.points))], archive)  # or refuse
    begun_unix_s = round(time.time(), 3)
    runs = record_runs(plan, codes, options, arrays, begun_unix_s, first_id)
    return send_arrays(plan, runs, archive, arrays, begun_unix_s)


def record_runs(
    plan: Plan,
    codes: dict[str, Code],
    options: SubmitOptions,
    arrays: list[JobArray],
    begun_unix_s: float,
    first_id: str | None = None,
    parent: str | None = None,
) -> list[Run]:
    """Makes the run of each point; its record says how it is sent before that is tried."""
    n_runs = len(plan.points)
    inputs = plan.inputs or [None] * n_runs
    ids = ids_from(first_id, n_runs) if first_id else [None] * n_runs
    rules = plan.points[0].config.record
    packages = installed_packages(plan.project.root, rules.package_files)
    runs: list[Run] = []
    for array in arrays:
        first_dir: Path | None = None
        for index in range(array.n_runs):
            point = plan.points[len(runs)]
            run = record_run(
                plan,
                point,
                codes[point.trial],
                options,
                partial(intended_job, plan, array, index, begun_unix_s, first_dir),
                inputs=inputs[len(runs)],
                run_id=ids[len(runs)],
                packages=packages,
                parent=parent,
            )
            runs.append(run)
            first_dir = first_dir or run.dir
    return runs


def intended_job(
    plan: Plan,
    array: JobArray,
    index: int,
    begun_unix_s: float,
    first_dir: Path | None,
    run_dir: Path,
) -> Job:
    """The section `job` of a run before it is sent: all but its id, where it does not wait here."""
    if index >= array.n_runs - array.n_waiting:
        return {"site": plan.site.name, "sending": True}
    script = script_path([first_dir or run_dir], plan.script)
    job = sent_record(plan, script, begun_unix_s) | {"sending": True}
    return job | {"index": index} if array.n_runs > 1 else job


def submit_repetition(
    plan: Plan, options: SubmitOptions, original: Run, stretch: Stretch
) -> list[Submitted]:
    """Sends the only point of a plan with the recorded code of `original`, unchecked.

    Args:
        stretch: what of `original` is repeated.
    """
    code = stretch.code
    check_budget(plan, code["tree"], yes=True)  # the original says what it takes
    with unpacked(plan, code, stretch.bundles) as frozen:
        archive = pack_code(plan, code, frozen)
    codes = {plan.points[0].trial: code}
    arrays = [JobArray(1, plan.throttle)]
    begun_unix_s = round(time.time(), 3)
    runs = record_runs(plan, codes, options, arrays, begun_unix_s, parent=original.id)
    return send_arrays(plan, runs, archive, arrays, begun_unix_s)


@contextmanager
def unpacked(plan: Plan, code: Code, bundles: Path) -> Iterator[Path]:
    """A temporary directory with the files of recorded code; `bundles` is where its bundles lie."""
    with tempfile.TemporaryDirectory(prefix="lab-submit-") as temporary:
        frozen = Path(temporary).resolve() / "code"
        unpack_code(code, plan.project.root, bundles, frozen)
        yield frozen


def freeze_points(
    project: Project, runs: Path, points: list[Composition], allow: bool
) -> dict[str, Code]:
    """Freezes the working tree; the `code` section of the record for each trial."""
    codes: dict[str, Code] = {}
    for point in points:
        if point.trial not in codes:
            codes[point.trial] = _freeze(project, runs, point, allow)
    first = next(iter(codes.values()))
    if not all(same_code(first, code) for code in codes.values()):
        raise Refused(
            "the code changed while it was being recorded."
            " Nothing was submitted; run the same command again."
        )
    return codes


def _freeze(project: Project, runs: Path, point: Composition, allow: bool) -> Code:
    rules = point.config.record
    code = freeze_code(
        project,
        runs,
        point.trial,
        dirty=rules.dirty,
        max_file_mb=rules.max_file_mb,
        allow=allow,
    )
    if not code.get("commit"):
        raise Refused(f"the code cannot be recorded: {code['reason']}. Nothing was submitted.")
    return code


def check_points(plan: Plan, code: Code, frozen: Path, batch: bool) -> None:
    """Checks that the unpacked code in `frozen` has what the jobs need.

    Args:
        batch: train also one batch of each trial.
    """
    to_come = [point for point in plan.points if plan.after and is_to_come(point.settings)]
    if to_come:
        say_once("one batch is not tried: its data come from a run before")
        batch = False
    settings_files = {name for point in plan.points for name in point.origin.values()}
    refuse_missing_files(plan.project, code, frozen, settings_files)
    if not plan.trains:
        name_unseen_words(plan.project, code, frozen, plan.command)
    if not (batch and plan.trains):
        return
    for point in plan.points:
        check_packages(point.config)
    from ...machine.progress import count_progress  # 18 ms, and a dry run does without

    one_point_per_trial = {point.trial: point for point in plan.points}
    for point in count_progress("trying one batch", one_point_per_trial.values(), "trial"):
        check_frozen(plan.project, code, frozen, point)


def pack_code(plan: Plan, code: Code, frozen: Path) -> CodeArchive:
    """Packs the frozen tree as <runs>/.code/<commit>.tar, which nodes unpack without git."""
    library = library_of(code)
    name = f"{code['commit']}.{library['commit'][:12]}" if library else code["commit"]
    path = plan.runs / STORE / f"{name}.tar"
    template = script_template(frozen / code["prefix"], plan.site.scheduler)
    archive = CodeArchive(path, code["commit"], code["prefix"], template)
    if path.exists():
        return archive
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    command = ["tar", "-cf", str(temporary), "-C", str(frozen), "."]
    try:
        subprocess.run(command, check=True, capture_output=True)
        flush_to_disk(temporary)
        os.replace(temporary, path)
    except (subprocess.CalledProcessError, OSError) as error:
        raise Failed(
            f"the frozen code cannot be written to {path}: {error}. Is the disk full?"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
    return archive


def record_run(
    plan: Plan,
    point: Composition,
    code: Code,
    options: SubmitOptions,
    job_of: Callable[[Path], Job],
    *,
    packages: list[str],
    parent: str | None,
    inputs: Inputs | None,
    run_id: str | None,
) -> Run:
    """Makes the run directory with its record; from now on the run has its id.

    Args:
        run_id: chosen before; a directory with this id, of a first try, is taken as it is.
        job_of: its directory -> what is known of its job.
    """
    if run_id:
        directory = plan.runs / plan.trial_of(point).replace("/", "+") / run_id
        if (directory / "run.json").exists():
            return Run.open(directory)
    request = RunRequest.of(
        point,
        trial=plan.trial_of(point),
        argv=sys.argv,
        why=options.why,
        parent=parent,
        run_id=run_id,
        inputs=inputs,
        allow=options.allow,
        code=code,
        packages=packages,
        job_of=job_of,
        after=plan.after,
        image=plan.image.facts() if plan.image else None,
    )
    return create_run(plan.project, plan.runs, request)
