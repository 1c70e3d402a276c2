"""`lab runs verify`: is a run still as recorded?"""

from __future__ import annotations

import json
from pathlib import Path

from ...errors import Failed, NotComparable
from ...project import Project, this_project
from ..compare.results import TOLERANCE, compare_results
from ..files.atomic import sha256
from ..files.json_lines import read_lines
from ..files.schema import Prediction
from ..keep.archive_check import check_directory, is_archive, verify_archive
from ..read.attempt_files import list_changes, outputs_of, read_attempts
from ..read.evaluations import EVALUATIONS, format_evaluation, newest_evaluations
from ..read.find import find_run, run_parser
from ..read.run import Run, run_roots
from ..reproduce.recorded_inputs import (
    find_recorded_data,
    find_recorded_weights,
    hashes_of,
    is_same_data,
    recorded_files,
    recorded_weights,
    verify_data,
)
from ..write.attempt import complete_record
from .files import Part, identity_problems

PREDICTIONS = "predictions.jsonl"  # a row for each `lab predict`


def verify_command(project: Project, args: list[str]) -> int:
    """`lab runs verify`."""
    parser = run_parser("verify", "Is a run as recorded? Or: did two runs give the same result?")
    parser.epilog = "RUN may also be a file of lab runs archive."
    parser.add_argument(
        "other", nargs="?", help="a second run, whose result is compared with the first's"
    )
    parser.add_argument(
        "--tolerance", type=float, default=TOLERANCE, help=f"relative, for metrics ({TOLERANCE})"
    )
    parser.add_argument(
        "--repair", action="store_true", help="write what a killed process left out: summary.json"
    )
    options = parser.parse_args(args)
    if is_archive(options.run):
        print(verify_archive(Path(options.run)))
        return 0
    run = find_run(run_roots(project), options.run)
    if options.repair:
        print("\n".join(complete_record(run.dir)) or f"{run.id}: nothing to repair")
    if options.other:
        other = find_run(run_roots(project), options.other)
        return compare_results(run, other, options.tolerance)
    parts = check_parts(run, project.root)
    problems = identity_problems(run, run_roots(project)) + list_problems(parts)
    remarks = [f"{part.name}: {line}" for part in parts for line in part.unchecked]
    remarks += [f"note: {change}" for change in list_changes(run.record, read_attempts(run.dir))]
    if problems:
        raise Failed(
            "\n  ".join(
                [f"{run.id} is not as recorded. Bring it back from a copy:", *problems, *remarks]
            )
        )
    whole = [part.name for part in parts if not part.unchecked]
    print("\n  ".join([f"{run.id}: {join_names(whole)} as recorded", *remarks]))
    return 0


def check_parts(run: Run, root: Path) -> list[Part]:
    """Every part of a run, compared with its record."""
    parts = [*check_directory(run, root), check_data(run, root)]
    if recorded_weights(run):
        parts.append(check_initial_weights(run, root))
    if (run.dir / PREDICTIONS).exists():
        parts.append(check_predictions(run, root))
    if (run.dir / EVALUATIONS).exists():
        parts.append(check_evaluations(run, root))
    if outputs_of(read_attempts(run.dir)) is not None:
        parts.append(check_outputs(run))
    return parts


def list_problems(parts: list[Part]) -> list[str]:
    """The problems of all parts; a file that two parts name is listed once."""
    return list(dict.fromkeys(problem for part in parts for problem in part.problems))


def join_names(names: list[str]) -> str:
    """The subject and verb of a sentence about these parts."""
    if not names:
        return "nothing can be shown to be"
    if len(names) == 1:
        return f"{names[0]} is"
    return f"{', '.join(names[:-1])} and {names[-1]} are"


def check_data(run: Run, root: Path) -> Part:
    """Whether the data is what the newest attempt that recorded it read."""
    if "sha256" not in run.data:
        return Part("data", unchecked=["not recorded"])
    if "path" not in run.data:
        return Part("data", unchecked=["not checked, its fingerprint names no file or folder"])
    return Part("data", data_problems(run, root))


def check_initial_weights(run: Run, root: Path) -> Part:
    """Whether the weights that a run started from are where they were, or near, and the same."""
    part = Part("initial weights")
    if recorded_weights(run)["sha256"] is None:
        part.unchecked.append("not recorded, since the run has not loaded them")
        return part
    try:
        find_recorded_weights(run, Project(root, this_project().package))
    except NotComparable as error:
        part.problems.append(str(error))
    return part


def check_predictions(run: Run, root: Path) -> Part:
    """Whether the files of `lab predict` hold what the newest row about each of them says."""
    part = Part("predictions")
    newest = {row.get("path"): row for row in read_lines(run.dir / PREDICTIONS, Prediction)}
    for name, row in newest.items():
        path = run.dir / str(name)
        if not path.exists():
            part.unchecked.append(f"{path} is gone")
            continue
        now = hashes_of(path, Project(root, this_project().package))
        if now is None or not is_same_data({"sha256": row.get("content_sha256")}, now):
            part.problems.append(f"{path} was changed")
    return part


def check_evaluations(run: Run, root: Path) -> Part:
    """Whether the weights and the data that `lab eval` read are still those."""
    part = Part("evaluations")
    project = Project(root, this_project().package)
    hashes = {sha256(path) for path in run.checkpoints.glob("*.ckpt")}
    for row in newest_evaluations(run.dir):
        if row.get("checkpoint_sha256") not in hashes:
            part.unchecked.append(f"the weights are gone of {format_evaluation(row)}")
        data = row.get("data") or {}
        if "size_bytes" not in data or data["sha256"] == run.data.get("sha256"):
            continue  # a folder, or checked with the data of the run
        for file in recorded_files(data):
            path = Path(file["path"])
            if not path.exists():
                part.unchecked.append(f"{path} is gone")
                continue
            now = hashes_of(path, project)
            if now is None or not is_same_data(file, now):
                part.problems.append(f"{path} has other content now than the evaluation read")
    return part


def check_outputs(run: Run) -> Part:
    """The outputs of a command by their hashes; they are the user's, who may move them."""
    part = Part("outputs")
    outputs = outputs_of(read_attempts(run.dir))
    assert outputs is not None  # the caller has looked
    for name, file in outputs["files"].items():
        path = run.dir / name
        if not path.exists():
            part.unchecked.append(f"{path} is gone")
        elif file["sha256"] is None:
            part.unchecked.append(f"{name} has no hash: it is large, or the job was stopped")
        elif sha256(path) != file["sha256"]:
            part.problems.append(f"{path} was changed")
    return part


def data_problems(run: Run, root: Path) -> list[str]:
    """Whether every byte of the data files is as recorded."""
    recorded = run.data
    try:
        paths = find_recorded_data(Project(root, this_project().package), run)
    except NotComparable as error:
        return [str(error)]
    problems = []
    for path, file in zip(paths, recorded_files(recorded), strict=False):
        done = verify_data(path, root)
        if done.returncode:
            message = done.stderr.strip().splitlines()[-1]
            problems.append(f"data: {message.removeprefix('lab: ')}")
        elif not is_same_data(file, json.loads(done.stdout)):
            problems.append(f"the data file {path} has other content now than the run read")
    return problems
