# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs verify`: is a run still as recorded?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .. import env
from ..errors import Failed, LabError
from ..project import LAB, PACKAGE, Project
from .atomic import sha256
from .attempt_files import last_attempt
from .compare import TOLERANCE, compare_results
from .find import find_run, run_parser
from .frozen import unpack_code
from .incomplete import changed_code, lacking_code
from .run import Run


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
    run = find_run(project.paths.runs, options.run)
    if options.other:
        other = find_run(project.paths.runs, options.other)
        return compare_results(run, other, options.tolerance)
    problems = find_problems(run, project.root)
    if problems:
        raise Failed("\n  ".join([f"{run.id} is not as recorded:", *problems]))
    lacking = lacking_code(run)
    parts = "settings" if lacking else "code, settings"
    print(f"{run.id}: {parts}, metrics, checkpoints and data are as recorded")
    for line in lacking:
        print(f"  code: {line}")
    return 0


def find_problems(run: Run, root: Path) -> list[str]:
    """What of a run is no longer as recorded, a line each. `root` is the project's."""
    return file_problems(run) + code_problems(run, root) + data_problems(run, root)


def file_problems(run: Run) -> list[str]:
    """The files of the record and the checkpoints that are missing or have another hash."""
    missing = []
    changed = []
    for path, expected in recorded_hashes(run).items():
        if not path.exists():
            missing.append(f"{path} is missing")
        elif sha256(path) != expected:
            changed.append(f"{path} was changed")
    return missing + changed


def recorded_hashes(run: Run) -> dict[Path, str]:
    """The sha256 of every file that the record and its last attempt name."""
    attempt = last_attempt(run.dir)
    end = attempt.end if attempt else {}
    hashes = {}
    for name, recorded in (run.record["files"] | end.get("files", {})).items():
        hashes[run.dir / name] = recorded
    for name, checkpoint in end.get("checkpoints", {}).items():
        hashes[run.checkpoints / name] = checkpoint["sha256"]
    return hashes


def code_problems(run: Run, root: Path) -> list[str]:
    """Whether the frozen code can be written out."""
    with tempfile.TemporaryDirectory(prefix="lab-verify-") as temporary:
        try:
            unpack_code(run.record["code"], root, run.dir, Path(temporary, "code"))
        except LabError as error:
            return [f"code: {error}"]
    return changed_code(run, root)


def data_problems(run: Run, root: Path) -> list[str]:
    """Whether every byte of the data file is as recorded."""
    recorded = run.data
    if "sha256" not in recorded:
        return []
    path = Path(recorded["path"])
    if not path.exists():
        return [f"the data file {path} is missing"]
    done = verify_data(path, root)
    if done.returncode:
        message = done.stderr.strip().splitlines()[-1]
        return [f"data: {message.removeprefix('lab: ')}"]
    if json.loads(done.stdout)["sha256"] != recorded["sha256"]:
        return [f"the data in {path} was changed"]
    return []


def verify_data(path: Path, root: Path) -> subprocess.CompletedProcess[str]:
    """`lab data verify PATH --json`, as a process.

    What reads records imports neither HDF5 nor NumPy.
    """
    command = [sys.executable, "-m", f"{PACKAGE}.lab", "data", "verify", str(path), "--json"]
    variables = os.environ | {"PYTHONPATH": str(LAB.parent.parent), env.PROJECT: str(root)}
    return subprocess.run(command, env=variables, capture_output=True, text=True)
