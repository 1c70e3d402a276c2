# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs reproduce`: the frozen code of a run, run again as a new run, its result compared; `lab runs code` writes it."""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ..errors import Failed, LabError, NotComparable
from ..project import Project
from .bundle import materialise
from .environment import differences
from .rows import run_directories
from .run import Run, find, recorded_packages
from .verify import TOLERANCE, compare, data


def reproduce_command(project: Project, args: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="lab runs reproduce", description="Runs the frozen code of a run again, as a new run."
    )
    parser.add_argument("run", help="an id or its beginning, a tag, @last, @best:val/loss")
    parser.add_argument(
        "--check", action="store_true", help="compare the results: exit code 0, 1 differs, 3 not comparable"
    )
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help=f"relative, for metrics ({TOLERANCE})")
    options = parser.parse_args(args)
    runs = project.paths["runs"]
    original = find(runs, options.run)
    look_at_data(original)
    for change in differences(original.record["env"], recorded_packages(original.dir), project.root)[:10]:
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
    parser = argparse.ArgumentParser(prog="lab runs code", description="Writes the frozen code of a run.")
    parser.add_argument("run", help="an id or its beginning, a tag, @last, @best:val/loss")
    parser.add_argument("directory", nargs="?", type=Path, help="a new directory (code-<run>)")
    options = parser.parse_args(args)
    run = find(project.paths["runs"], options.run)
    directory = (options.directory or Path(f"code-{run.id}")).absolute()
    if directory.exists():
        raise LabError(f"{directory} exists already; name a new directory")
    materialise(run.record["code"], project.root, run.dir, directory)
    print(directory)
