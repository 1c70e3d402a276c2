"""Submits runs: freezes the code, checks it, records the runs, and sends one job for all."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ..config.compose import Composition
from ..errors import Failed, Refused
from ..project import Project
from ..record.bundle import STORE, flush_to_disk
from ..record.code_section import machinery_of, same_code
from ..record.create import RunRequest, create_run, ids_from
from ..record.each import Inputs
from ..record.frozen import freeze_code, unpack_code
from ..record.run import Run
from ..record.schema import Code
from ..record.stretches import Stretch
from .budget import check_budget
from .check_frozen import check_frozen, refuse_missing_files
from .existing_runs import points_to_submit
from .over_files import OverFiles, plan_over_files
from .plan import Plan, plan_submission
from .script import CodeArchive, render_script, script_template
from .send import Submitted, send_runs


@dataclass(frozen=True)
class SubmitOptions:
    """How to submit.

    Args:
        why: kept in the record.
        batch: train one batch of the frozen code before sending; False: check keys, targets and
            files only.
        allow: record also what looks like a secret.
        yes: send also what takes more than its budget.
    """

    why: str | None = None
    batch: bool = True
    allow: bool = False
    yes: bool = False


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
    """Freezes, checks, records and sends the points of a plan, in this order.

    Raises:
        LabError: as `submit`.
    """
    codes = freeze_points(plan.project, plan.runs, plan.points, options.allow)
    return submit_frozen(plan, options, codes, plan.runs / STORE)


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

    Raises:
        LabError: as `submit`.
    """
    code = codes[plan.points[0].trial]
    if plan.trains:
        plan = replace(plan, points=points_to_submit(plan, code["tree"]))
        if not plan.points:
            return []
    check_budget(plan, code["tree"], options.yes)
    with unpacked(plan, code, bundles) as frozen:
        check_points(plan, code, frozen, options.batch)
        archive = pack_code(plan, code, frozen)
    render_script(plan, [plan.runs / str(i) for i in range(len(plan.points))], archive)  # or refuse
    inputs = plan.inputs or [None] * len(plan.points)
    ids = ids_from(first_id, len(plan.points)) if first_id else [None] * len(plan.points)
    runs = [
        record_run(plan, point, codes[point.trial], options, inputs=inputs_of_run, run_id=run_id)
        for point, inputs_of_run, run_id in zip(plan.points, inputs, ids, strict=True)
    ]
    return send_runs(plan, runs, archive)


def submit_repetition(
    plan: Plan, options: SubmitOptions, original: Run, stretch: Stretch
) -> list[Submitted]:
    """Sends the only point of a plan with the recorded code of `original`, unchecked.

    Args:
        stretch: what of `original` is repeated.

    Raises:
        LabError: the code is gone, or the scheduler refuses.
    """
    code = stretch.code
    check_budget(plan, code["tree"], yes=True)  # the original says what it takes
    with unpacked(plan, code, stretch.bundles) as frozen:
        archive = pack_code(plan, code, frozen)
    run = record_run(plan, plan.points[0], code, options, parent=original.id)
    return send_runs(plan, [run], archive)


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
    """Freezes the working tree; the `code` section of the record for each trial.

    Raises:
        Refused: git cannot record the code, or it changed meanwhile.
    """
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
    if not code["commit"]:
        raise Refused(f"the code cannot be recorded: {code['reason']}. Nothing was submitted.")
    return code


def check_points(plan: Plan, code: Code, frozen: Path, batch: bool) -> None:
    """Checks that the unpacked code in `frozen` has what the jobs need.

    Args:
        batch: train also one batch of each trial.

    Raises:
        LabError: a file is missing, a batch fails, or two checkpoints do not fit on the disk.
    """
    settings_files = {name for point in plan.points for name in point.origin.values()}
    refuse_missing_files(plan.project, code, frozen, settings_files)
    if not (batch and plan.trains):
        return
    one_point_per_trial = {point.trial: point for point in plan.points}
    for point in one_point_per_trial.values():
        check_frozen(plan.project, code, frozen, point)


def pack_code(plan: Plan, code: Code, frozen: Path) -> CodeArchive:
    """Packs the frozen tree as <runs>/.code/<commit>.tar, which nodes unpack without git.

    Raises:
        LabError: the project's job script cannot be filled in.
        Failed: the archive cannot be written.
    """
    library = machinery_of(code)
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
    parent: str | None = None,
    inputs: Inputs | None = None,
    run_id: str | None = None,
) -> Run:
    """Makes the run directory with its record; from now on the run has its id.

    Args:
        run_id: chosen before; a directory with this id, of a first try, is taken as it is.
    """
    if run_id:
        directory = plan.runs / plan.trial_of(point).replace("/", "+") / run_id
        if (directory / "run.json").exists():
            return Run.open(directory)
    checkpoints = point.config.paths.checkpoints
    request = RunRequest(
        trial=plan.trial_of(point),
        config_yaml=point.yaml,
        overrides=point.overrides,
        argv=sys.argv,
        seed=point.config.seed,
        why=options.why,
        parent=parent,
        run_id=run_id,
        inputs=inputs,
        allow=options.allow,
        max_file_mb=point.config.record.max_file_mb,
        env_vars=tuple(point.config.record.get("env_vars", ())),
        package_files=point.config.record.get("package_files", False),
        checkpoints=Path(checkpoints) if checkpoints else None,
        code=code,
        job={"site": plan.site.name, "sending": True},
        image=plan.image.facts() if plan.image else None,
    )
    return create_run(plan.project, plan.runs, request)
