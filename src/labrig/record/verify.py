"""`lab runs verify`: is a run still as recorded?"""

from __future__ import annotations

import json
from pathlib import Path

from ..errors import Failed, NotComparable
from ..project import Project, this_project
from .archive_check import check_directory, is_archive, verify_archive
from .attempt_files import read_attempts
from .changes import list_changes
from .compare import TOLERANCE, compare_results
from .find import find_run, run_parser
from .identity import identity_problems
from .json_lines import read_lines
from .recorded_data import content_hash, find_recorded_data, verify_data
from .recorded_weights import find_recorded_weights, recorded_weights
from .roots import run_roots
from .run import Run
from .scrub_note import format_scrubs
from .verify_files import Part

PREDICTIONS = "predictions.jsonl"  # a row for each `lab predict`


def verify_command(project: Project, args: list[str]) -> int:
    """`lab runs verify`.

    Raises:
        Failed: something is not as recorded.
        NotComparable: a second run was named, and the results cannot be compared.
    """
    parser = run_parser("verify", "Is a run as recorded? Or: did two runs give the same result?")
    parser.epilog = "RUN may also be a file of lab runs archive."
    parser.add_argument(
        "other", nargs="?", help="a second run, whose result is compared with the first's"
    )
    parser.add_argument(
        "--tolerance", type=float, default=TOLERANCE, help=f"relative, for metrics ({TOLERANCE})"
    )
    options = parser.parse_args(args)
    if is_archive(options.run):
        print(verify_archive(Path(options.run)))
        return 0
    run = find_run(run_roots(project), options.run)
    if options.other:
        other = find_run(run_roots(project), options.other)
        return compare_results(run, other, options.tolerance)
    parts = check_parts(run, project.root)
    problems = identity_problems(run, run_roots(project)) + list_problems(parts)
    remarks = [f"{part.name}: {line}" for part in parts for line in part.unchecked]
    remarks += [f"note: {change}" for change in list_changes(run.record, read_attempts(run.dir))]
    remarks += [f"note: {line}" for line in format_scrubs(run.record)]
    if problems:
        raise Failed("\n  ".join([f"{run.id} is not as recorded:", *problems, *remarks]))
    whole = [part.name for part in parts if not part.unchecked]
    print("\n  ".join([f"{run.id}: {join_names(whole)} as recorded", *remarks]))
    return 0


def find_problems(run: Run, root: Path) -> list[str]:
    """What of a run is no longer as recorded, a line each. `root` is the project's."""
    return list_problems(check_parts(run, root))


def check_parts(run: Run, root: Path) -> list[Part]:
    """Every part of a run, compared with its record."""
    parts = [*check_directory(run, root), check_data(run, root)]
    if recorded_weights(run):
        parts.append(check_initial_weights(run, root))
    if (run.dir / PREDICTIONS).exists():
        parts.append(check_predictions(run, root))
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
    newest = {row.get("path"): row for row in read_lines(run.dir / PREDICTIONS)}
    for name, row in newest.items():
        path = run.dir / str(name)
        if not path.exists():
            part.unchecked.append(f"{path} is gone")
        elif content_hash(path, Project(root, this_project().package)) != row.get("content_sha256"):
            part.problems.append(f"{path} was changed")
    return part


def data_problems(run: Run, root: Path) -> list[str]:
    """Whether every byte of the data file is as recorded."""
    recorded = run.data
    try:
        path = find_recorded_data(Project(root, this_project().package), run)
    except NotComparable as error:
        return [str(error)]
    if path is None:
        return []
    done = verify_data(path, root)
    if done.returncode:
        message = done.stderr.strip().splitlines()[-1]
        return [f"data: {message.removeprefix('lab: ')}"]
    if json.loads(done.stdout)["sha256"] != recorded["sha256"]:
        return [f"the data file {path} has other content now than the run read"]
    return []
