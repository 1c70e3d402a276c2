# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs diff` and `lab runs verify`: what two runs have different, whether they gave the same result, and whether a
run is still as recorded. `lab runs reproduce`: its frozen code, run again as a new run; `lab runs code` writes it.

Levels of sameness: bitwise, within tolerance, differs, not comparable (with the reason).
"""

import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ..errors import Failed, LabError, NotComparable
from ..project import LAB, PACKAGE, Project, read_yaml
from .attempt import NONE, read_attempts
from .bundle import materialise
from .environment import changes, drift, versions
from .files import ABOUT, number, read_metrics, sha256
from .rows import row_of, run_directories
from .run import Run, find, run_parser
from .snapshot import Git

FINGERPRINT = f"""
import sys
from {PACKAGE}.lab.hdf5 import fingerprint, verify
print(fingerprint(sys.argv[1], verify(sys.argv[1]))["sha256"])
"""
TOLERANCE = 1e-3  # relative; what another number of threads or another GPU may change
# Sections of the configuration that change no number.
NO_RESULT = {"paths", "site", "job", "logger", "log", "record", "checkpoint", "profile"}
RESULTS = ("train/", "val/", "test/")  # metrics that must agree; speed and memory need not
PLACE = ("accelerator", "device", "devices", "precision", "threads", "world_size", "torch", "cuda", "determinism")


def verify_command(project: Project, args: list[str]) -> int:
    parser = run_parser("verify", "Is a run as recorded? Or: did two runs give the same result?")
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
    end = (read_attempts(run.dir) or [NONE])[-1]["end"]
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
    states = {run.id: row_of(str(run.dir))["status"] for run in (a, b)}
    found = [f"{run_id} is {state}" for run_id, state in states.items() if state != "finished"]
    found += [f"setting {line}" for line in changes(settings(a), settings(b))]
    hashes = [data(run).get("sha256") for run in (a, b)]
    if hashes[0] != hashes[1]:
        found.append(f"the data differs: {hashes[0]} -> {hashes[1]}")
    if not found and not finals(a).keys() & finals(b).keys():
        found.append("they have no metric in common")
    return found


def settings(run: Run) -> dict:
    """The settings that may change a number: not where the data lies, since its hash is compared."""
    kept = {key: value for key, value in config(run).items() if key not in NO_RESULT}
    return kept | {"data": {key: kept["data"][key] for key in kept.get("data", {}) if key not in ("search", "stage")}}


def circumstances(a: Run, b: Run) -> list[str]:
    """What may explain a difference: other code, machine or threads."""
    trees = [(run.record["code"].get("package_tree"), run.record["code"].get("commit")) for run in (a, b)]
    found = [] if trees[0] == trees[1] else ["the code differs; see: lab runs diff"]
    places = ({key: started(run).get(key) for key in PLACE} for run in (a, b))
    return found + changes(*places)


def curve(run: Run) -> list[dict]:
    """The logged results by step, without times; the last row is the final result."""
    logged = [
        {k: v for k, v in entry.items() if k in ("step", "epoch") or k.startswith(RESULTS)}
        for entry in read_metrics(run.dir)
    ]
    return [*(entry for entry in logged if entry.keys() - ABOUT), finals(run)]


def finals(run: Run) -> dict[str, float]:
    metrics = {name: number(value) for name, value in row_of(str(run.dir))["metrics"].items()}
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


def diff_command(project: Project, args: list[str]) -> int:
    parser = run_parser("diff", "What two runs have different, and only that. Exit code 1 when they differ.")
    parser.add_argument("other", help="a second run")
    options = parser.parse_args(args)
    a, b = (find(project.paths["runs"], word) for word in (options.run, options.other))
    print(f"{a.id} ({a.trial}) -> {b.id} ({b.trial})")
    found = {
        "code": code_lines(a, b, project.root),
        "configuration": changes(config(a), config(b)),
        "environment": changes(environment_of(a), environment_of(b)),
        "data": changes(data(a), data(b)),
        "metrics": changes(row_of(str(a.dir))["metrics"], row_of(str(b.dir))["metrics"]),
    }
    for section, entries in found.items():
        if entries:
            print("\n".join([section, *(f"  {entry}" for entry in entries)]))
    if not any(found.values()):
        print("no difference")
    return int(any(found.values()))


def config(run: Run) -> dict:
    return read_yaml(run.dir / "config.yaml")


def data(run: Run) -> dict:
    """The data's fingerprint as the last attempt found it; {} when it has none."""
    return started(run).get("data") or {}


def started(run: Run) -> dict:
    """start.json of the last attempt."""
    return (read_attempts(run.dir) or [NONE])[-1]["start"]


def environment_of(run: Run) -> dict:
    """What the environment was, with versions by package and the devices of the last attempt."""
    about = {key: value for key, value in run.record["env"].items() if key not in ("n_packages", "executable")}
    keys = ("host", "device", "devices", "precision", "threads", "world_size", "driver", "cudnn", "determinism")
    return about | {"package": versions(run.packages)} | {key: started(run).get(key) for key in keys}


def code_lines(a: Run, b: Run, root: Path) -> list[str]:
    """The files that differ, as far as the repository has both commits."""
    before, after = (run.record["code"].get("commit") for run in (a, b))
    if before == after:
        return []
    done = Git(root).run("diff", "--stat=100", "--no-ext-diff", f"{before}", f"{after}", "--")
    if done.returncode:
        return [f"{before} -> {after} (not both in this repository; see: lab runs code RUN DIRECTORY)"]
    stat = [line.strip() for line in done.stdout.splitlines()]
    return [*stat, f"git diff {before[:12]} {after[:12]}"]


def reproduce_command(project: Project, args: list[str]) -> int:
    parser = run_parser("reproduce", "Runs the frozen code of a run again, as a new run.")
    parser.add_argument(
        "--check", action="store_true", help="compare the results: exit code 0, 1 differs, 3 not comparable"
    )
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help=f"relative, for metrics ({TOLERANCE})")
    options = parser.parse_args(args)
    runs = project.paths["runs"]
    original = find(runs, options.run)
    look_at_data(original)
    for change in drift(original.record["env"], original.packages, project.root)[:10]:
        print(f"note: the environment differs from the record: {change}", flush=True)
    before = set(run_directories(runs))
    with tempfile.TemporaryDirectory(prefix="lab-frozen-") as temporary:
        code = Path(temporary).resolve() / "code"
        materialise(original.record["code"], project.root, original.dir, code)
        failed = train(project, original, code).returncode
    made = [Run.open(Path(directory)) for directory in set(run_directories(runs)) - before]
    repeated = next((run for run in made if run.record["parent"] == original.id), None)
    if failed or repeated is None:
        raise Failed(f"the repetition of {original.id} failed{f': lab runs show {repeated.id}' if repeated else ''}")
    print(f"{original.id} was run again as {repeated.id}")
    return compare(original, repeated, options.tolerance) if options.check else 0


def train(project: Project, original: Run, code: Path) -> subprocess.CompletedProcess:
    """Trains with the frozen code and the recorded configuration; the project's data and runs stay where they are."""
    recorded = original.record["code"]
    inherited = {key: value for key, value in os.environ.items() if key not in ("LAB_RUN_DIR", "LAB_ATTEMPT")}
    frozen = {
        "PYTHONPATH": str(code / recorded["prefix"] / "src"),  # before an editable install's live tree
        "PYTHONSAFEPATH": "1",  # and before the current directory
        "LAB_FROZEN": str(code),
        "LAB_PROJECT": str(project.root),
        "LAB_SNAPSHOT_COMMIT": recorded["commit"],
    }
    command = [sys.executable, "-m", f"{project.package}.lab", "train", "--parent", original.id]
    command += ["--config", str(original.dir / "config.yaml")]
    return subprocess.run(command, cwd=project.root, env=inherited | frozen)


def look_at_data(original: Run) -> None:
    """The recorded data file must be there with its size; its content is compared once the new run has read it.

    Raises:
        NotComparable: it is gone, or has another size.
    """
    recorded = data(original)
    path = Path(recorded.get("path", ""))
    if "size_bytes" in recorded and not (path.is_file() and path.stat().st_size == recorded["size_bytes"]):
        found = f"has {path.stat().st_size} bytes" if path.is_file() else "is missing"
        raise NotComparable(f"the data of {original.id}, {path}, {found}; recorded were {recorded['size_bytes']} bytes")


def code_command(project: Project, args: list[str]) -> None:
    parser = run_parser("code", "Writes the frozen code of a run.")
    parser.add_argument("directory", nargs="?", type=Path, help="a new directory (code-<run>)")
    options = parser.parse_args(args)
    run = find(project.paths["runs"], options.run)
    directory = (options.directory or Path(f"code-{run.id}")).absolute()
    if directory.exists():
        raise LabError(f"{directory} exists already; name a new directory")
    materialise(run.record["code"], project.root, run.dir, directory)
    print(directory)
