# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs verify`: is a run still as recorded?"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ..errors import Failed, LabError
from ..project import LAB, PACKAGE, Project
from .atomic import sha256
from .attempt_files import NONE, read_attempts
from .compare import TOLERANCE, compare_results
from .diff import data_of
from .find import find_run, run_parser
from .frozen import unpack_code
from .run import Run

FINGERPRINT = f"""
import sys
from {PACKAGE}.lab.hdf5 import fingerprint, verify
print(fingerprint(sys.argv[1], verify(sys.argv[1]))["sha256"])
"""


def verify_command(project: Project, args: list[str]) -> int:
    parser = run_parser("verify", "Is a run as recorded? Or: did two runs give the same result?")
    parser.add_argument(
        "other", nargs="?", help="a second run, whose result is compared with the first's"
    )
    parser.add_argument(
        "--tolerance", type=float, default=TOLERANCE, help=f"relative, for metrics ({TOLERANCE})"
    )
    options = parser.parse_args(args)
    run = find_run(project.paths["runs"], options.run)
    if options.other:
        return compare_results(
            run, find_run(project.paths["runs"], options.other), options.tolerance
        )
    if wrong := problems(run, project.root):
        raise Failed(f"{run.id} is not as recorded:\n  " + "\n  ".join(wrong))
    print(f"{run.id}: code, settings, metrics, checkpoints and data are as recorded")
    return 0


def problems(run: Run, root: Path) -> list[str]:
    """What of a run is no longer as recorded, a line each."""
    end = (read_attempts(run.dir) or [NONE])[-1]["end"]
    expected = {
        run.dir / name: recorded
        for name, recorded in (run.record["files"] | end.get("files", {})).items()
    }
    expected |= {
        run.checkpoints / name: about["sha256"]
        for name, about in end.get("checkpoints", {}).items()
    }
    found = [f"{path} is missing" for path in expected if not path.exists()]
    found += [
        f"{path} was changed"
        for path, hash in expected.items()
        if path.exists() and sha256(path) != hash
    ]
    with tempfile.TemporaryDirectory(prefix="lab-verify-") as temporary:
        try:
            unpack_code(run.record["code"], root, run.dir, Path(temporary, "code"))
        except LabError as error:
            found.append(f"code: {error}")
    return found + data_problems(data_of(run))


def data_problems(recorded: dict) -> list[str]:
    """Reads the data file whole, in a process of its own, because reading records imports no HDF5."""
    if "sha256" not in recorded:
        return []
    path = Path(recorded["path"])
    if not path.exists():
        return [f"the data file {path} is missing"]
    where = os.environ | {"PYTHONPATH": str(LAB.parent.parent)}
    done = subprocess.run(
        [sys.executable, "-c", FINGERPRINT, path], env=where, capture_output=True, text=True
    )
    if done.returncode:
        return [f"data: {done.stderr.strip().splitlines()[-1]}"]
    return [] if done.stdout.strip() == recorded["sha256"] else [f"the data in {path} was changed"]
