# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs verify`: whether a run is still as recorded, or whether two runs gave the same result.

Levels of sameness: bitwise, within tolerance, differs, not comparable (with the reason).
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ..errors import Failed, LabError, NotComparable
from ..project import LAB, PACKAGE, Project
from .attempt import read_attempts
from .bundle import materialise
from .diff import config, data, lines
from .files import sha256
from .find import find
from .metrics import ABOUT, number, read_metrics
from .rows import row
from .run import Run

FINGERPRINT = f"""
import sys
from {PACKAGE}.lab.hdf5.checksum import remember, verify
print(remember(verify(sys.argv[1]))["sha256"])
"""
TOLERANCE = 1e-3  # relative; what another number of threads or another GPU may change
# Sections of the configuration that change no number.
NO_RESULT = {"paths", "site", "job", "logger", "log", "record", "checkpoint", "profile"}
RESULTS = ("train/", "val/", "test/")  # metrics that must agree; speed and memory need not
PLACE = ("accelerator", "device", "devices", "precision", "threads", "world_size", "torch", "cuda", "determinism")


def verify_command(project: Project, args: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="lab runs verify", description="Is a run as recorded? Or: did two runs give the same result?"
    )
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


def compare(a: Run, b: Run, tolerance: float = TOLERANCE) -> int:
    """Prints the verdict; 0: the results agree bitwise or within `tolerance` (relative), 1: they differ.

    Raises:
        NotComparable: the runs were not meant to give the same result, or one of them gave none.
    """
    if reasons := obstacles(a, b):
        raise NotComparable(f"{a.id} and {b.id} are not comparable: " + "; ".join(reasons[:5]))
    for reason in circumstances(a, b):
        print(f"note: {reason}")
    weights = same_weights(a, b)
    if weights is None:
        print("note: a final checkpoint is missing, so weights are not compared")
    if repr(curve(a)) == repr(curve(b)) and weights is not False:
        print("bitwise: metrics are identical" + (" and so are the weights" if weights else ""))
        return 0
    left, right = finals(a), finals(b)
    far = {name: distance(left[name], right[name]) for name in left.keys() & right.keys()}
    worst = max(far, key=far.get)
    figures = f"{worst} {left[worst]:.6g} and {right[worst]:.6g}, relative difference {far[worst]:.2g}"
    if left.keys() == right.keys() and far[worst] <= tolerance:
        print(f"within tolerance {tolerance:g}: {figures} at most")
        return 0
    print(f"differs: {figures}" + "".join(f"; only one has {name}" for name in left.keys() ^ right.keys()))
    return 1


def obstacles(a: Run, b: Run) -> list[str]:
    """Why the results of two runs say nothing about each other."""
    states = {run.id: row(str(run.dir))["status"] for run in (a, b)}
    found = [f"{run_id} is {state}" for run_id, state in states.items() if state != "finished"]
    settings = ({key: value for key, value in config(run).items() if key not in NO_RESULT} for run in (a, b))
    found += [f"setting {line}" for line in lines(*settings)]
    hashes = [data(run).get("sha256") for run in (a, b)]
    if hashes[0] != hashes[1]:
        found.append(f"the data differs: {hashes[0]} -> {hashes[1]}")
    if not found and not finals(a).keys() & finals(b).keys():
        found.append("they have no metric in common")
    return found


def circumstances(a: Run, b: Run) -> list[str]:
    """What may explain a difference: other code, machine or threads."""
    trees = [(run.record["code"].get("package_tree"), run.record["code"].get("commit")) for run in (a, b)]
    found = [] if trees[0] == trees[1] else ["the code differs; see: lab runs diff"]
    starts = [read_attempts(run.dir)[-1]["start"] for run in (a, b)]
    places = ({key: start.get(key) for key in PLACE} for start in starts)
    return found + lines(*places)


def curve(run: Run) -> list[dict]:
    """The logged results by step, without times; the last row is the final result."""
    logged = [
        {k: v for k, v in entry.items() if k in ("step", "epoch") or k.startswith(RESULTS)}
        for entry in read_metrics(run.dir)
    ]
    return [*(entry for entry in logged if entry.keys() - ABOUT), finals(run)]


def finals(run: Run) -> dict[str, float]:
    metrics = {name: number(value) for name, value in row(str(run.dir))["metrics"].items()}
    return {name: value for name, value in metrics.items() if name.startswith(RESULTS)}


def distance(a: float, b: float) -> float:
    """Relative difference, 0 for equal values (also both NaN), infinite when only one is finite."""
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    return abs(a - b) / max(abs(a), abs(b)) if math.isfinite(a) and math.isfinite(b) else math.inf


def same_weights(a: Run, b: Run) -> bool | None:
    """Whether the final weights are the same bytes; None when a run has no final checkpoint."""
    paths = [run.checkpoints / "last.ckpt" for run in (a, b)]
    if not all(path.exists() for path in paths):
        return None
    import torch  # slow, and nothing else here needs it

    left, right = (torch.load(path, map_location="cpu", weights_only=True)["state_dict"] for path in paths)

    def same(one: torch.Tensor, other: torch.Tensor) -> bool:
        bytes_of = (tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (one, other))
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(*bytes_of)

    return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
