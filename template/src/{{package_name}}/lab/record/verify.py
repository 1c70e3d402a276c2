# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs verify`: is a run still as recorded?"""

from __future__ import annotations

import json
from pathlib import Path

from ..errors import Failed, NotComparable
from ..project import PACKAGE, Project
from .attempt_files import read_attempts
from .changes import list_changes
from .compare import TOLERANCE, compare_results
from .find import find_run, run_parser
from .identity import identity_problems
from .recorded_data import find_recorded_data, verify_data
from .roots import run_roots
from .run import Run
from .verify_code import check_code
from .verify_files import Part, check_record, check_settings
from .verify_results import check_checkpoints, check_metrics


def verify_command(project: Project, args: list[str]) -> int:
    """`lab runs verify`.

    Raises:
        Failed: something is not as recorded.
        NotComparable: a second run was named, and the results cannot be compared.
    """
    parser = run_parser("verify", "Is a run as recorded? Or: did two runs give the same result?")
    parser.add_argument(
        "other", nargs="?", help="a second run, whose result is compared with the first's"
    )
    parser.add_argument(
        "--tolerance", type=float, default=TOLERANCE, help=f"relative, for metrics ({TOLERANCE})"
    )
    options = parser.parse_args(args)
    run = find_run(run_roots(project), options.run)
    if options.other:
        other = find_run(run_roots(project), options.other)
        return compare_results(run, other, options.tolerance)
    parts = check_parts(run, project.root)
    problems = identity_problems(run, run_roots(project)) + list_problems(parts)
    remarks = [f"{part.name}: {line}" for part in parts for line in part.unchecked]
    remarks += [f"note: {change}" for change in list_changes(run.record, read_attempts(run.dir))]
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
    return [
        check_code(run, root),
        check_settings(run),
        check_record(run),
        check_metrics(run),
        check_checkpoints(run),
        check_data(run, root),
    ]


def list_problems(parts: list[Part]) -> list[str]:
    """The problems of all parts; a file that two parts name is told once."""
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


def data_problems(run: Run, root: Path) -> list[str]:
    """Whether every byte of the data file is as recorded."""
    recorded = run.data
    try:
        path = find_recorded_data(Project(root, PACKAGE), run)
    except NotComparable as error:
        return [str(error)]
    done = verify_data(path, root)
    if done.returncode:
        message = done.stderr.strip().splitlines()[-1]
        return [f"data: {message.removeprefix('lab: ')}"]
    if json.loads(done.stdout)["sha256"] != recorded["sha256"]:
        return [f"the data file {path} has other content now than the run read"]
    return []
