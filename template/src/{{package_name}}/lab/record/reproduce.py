# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs reproduce`: runs the frozen code of a run again, as a new run."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .. import env
from ..errors import Failed, NotComparable
from ..project import Project
from .compare import TOLERANCE, compare_results
from .diff import data_of
from .environment import drift
from .find import find_run, run_parser
from .frozen import unpack_code
from .index import run_directories
from .run import Run


def reproduce_command(project: Project, args: list[str]) -> int:
    parser = run_parser("reproduce", "Runs the frozen code of a run again, as a new run.")
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare the results: exit code 0, 1 differs, 3 not comparable",
    )
    parser.add_argument(
        "--tolerance", type=float, default=TOLERANCE, help=f"relative, for metrics ({TOLERANCE})"
    )
    options = parser.parse_args(args)
    runs = project.paths["runs"]
    original = find_run(runs, options.run)
    require_data(original)
    for change in drift(original.record["env"], original.packages, project.root)[:10]:
        print(f"note: the environment differs from the record: {change}", flush=True)
    before = set(run_directories(runs))
    with tempfile.TemporaryDirectory(prefix="lab-frozen-") as temporary:
        code = Path(temporary).resolve() / "code"
        unpack_code(original.record["code"], project.root, original.dir, code)
        failed = train_frozen(project, original, code).returncode
    made = [Run.open(Path(directory)) for directory in set(run_directories(runs)) - before]
    repeated = next((run for run in made if run.record["parent"] == original.id), None)
    if failed or repeated is None:
        raise Failed(
            f"the repetition of {original.id} failed{f': lab runs show {repeated.id}' if repeated else ''}"
        )
    print(f"{original.id} was run again as {repeated.id}")
    return compare_results(original, repeated, options.tolerance) if options.check else 0


def train_frozen(project: Project, original: Run, code: Path) -> subprocess.CompletedProcess:
    """Trains with the frozen code and the recorded configuration; the project's data and runs stay where they are."""
    recorded = original.record["code"]
    inherited = {
        key: value for key, value in os.environ.items() if key not in (env.RUN_DIR, env.ATTEMPT)
    }
    frozen = env.frozen_environment(code, recorded["prefix"], project.root, recorded["commit"])
    command = [sys.executable, "-m", f"{project.package}.lab", "train", "--parent", original.id]
    command += ["--config", str(original.dir / "config.yaml")]
    return subprocess.run(command, cwd=project.root, env=inherited | frozen)


def require_data(original: Run) -> None:
    """The recorded data file must be there with its size; its content is compared once the new run has read it.

    Raises:
        NotComparable: it is gone, or has another size.
    """
    recorded = data_of(original)
    path = Path(recorded.get("path", ""))
    if "size_bytes" in recorded and not (
        path.is_file() and path.stat().st_size == recorded["size_bytes"]
    ):
        found = f"has {path.stat().st_size} bytes" if path.is_file() else "is missing"
        raise NotComparable(
            f"the data of {original.id}, {path}, {found}; recorded were {recorded['size_bytes']} bytes"
        )
