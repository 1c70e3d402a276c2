# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs verify`: whether a run is still as recorded, or whether two runs gave the same result."""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ..errors import Failed, LabError
from ..project import LAB, PACKAGE, Project
from .attempt import read_attempts
from .bundle import materialise
from .compare import TOLERANCE, compare
from .diff import data
from .files import sha256
from .find import find
from .run import Run

FINGERPRINT = f"""
import sys
from {PACKAGE}.lab.hdf5.checksum import remember, verify
print(remember(verify(sys.argv[1]))["sha256"])
"""


def verify_command(project: Project, args: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="lab runs verify", description=__doc__)
    parser.add_argument("run", help="an id or its beginning, a tag, @last, @best:val/loss")
    parser.add_argument("other", nargs="?", help="a second run, whose result is compared with the first's")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help=f"relative, for metrics ({TOLERANCE})")
    options = parser.parse_args(args)
    run = find(project.paths["runs"], options.run)
    if options.other:
        return compare(run, find(project.paths["runs"], options.other), options.tolerance)
    if wrong := problems(run, project.root):
        raise Failed(f"{run.id} is not as recorded:\n  " + "\n  ".join(wrong))
    print(f"{run.id}: code, settings, metrics, checkpoints and data are as recorded")
    return 0


def problems(run: Run, root: Path) -> list[str]:
    """What of a run is no longer as recorded, a line each."""
    attempts = read_attempts(run.dir)
    end = attempts[-1]["end"] if attempts else {}
    expected = {run.dir / name: recorded for name, recorded in (run.record["files"] | end.get("files", {})).items()}
    expected |= {run.checkpoints / name: about["sha256"] for name, about in end.get("checkpoints", {}).items()}
    found = [f"{path} is missing" for path in expected if not path.exists()]
    found += [f"{path} was changed" for path, hash in expected.items() if path.exists() and sha256(path) != hash]
    with tempfile.TemporaryDirectory(prefix="lab-verify-") as temporary:
        try:
            materialise(run.record["code"], root, run.dir, Path(temporary, "code"))
        except LabError as error:
            found.append(f"code: {error}")
    return found + data_problems(data(run))


def data_problems(recorded: dict) -> list[str]:
    """Reads the data file whole, in a process of its own, because reading records imports no HDF5."""
    if "sha256" not in recorded:
        return []
    path = Path(recorded["path"])
    if not path.exists():
        return [f"the data file {path} is missing"]
    where = os.environ | {"PYTHONPATH": str(LAB.parent.parent)}
    done = subprocess.run([sys.executable, "-c", FINGERPRINT, path], env=where, capture_output=True, text=True)
    if done.returncode:
        return [f"data: {done.stderr.strip().splitlines()[-1]}"]
    return [] if done.stdout.strip() == recorded["sha256"] else [f"the data in {path} was changed"]
