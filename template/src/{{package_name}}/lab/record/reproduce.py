# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs reproduce`: runs the frozen code of a run again, as a new run."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .. import env
from ..errors import Failed, NotComparable
from ..project import Project
from .compare import TOLERANCE, compare_results
from .environment import environment_differences
from .find import find_run, run_parser
from .frozen import unpack_code
from .index import run_directories
from .run import Run

MAX_NOTES = 10  # lines about the environment


def reproduce_command(project: Project, args: list[str]) -> int:
    """`lab runs reproduce`.

    Raises:
        NotComparable: the data is not as recorded, or the results cannot be compared.
        Failed: the new run failed.
    """
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
    original = find_run(project.paths.runs, options.run)
    require_data(original)
    print_environment_differences(original, project)
    repeated = run_again(project, original)
    print(f"{original.id} was run again as {repeated.id}")
    return compare_results(original, repeated, options.tolerance) if options.check else 0


def require_data(original: Run) -> None:
    """Makes sure that the recorded data file exists with its size.

    Its content is compared once the new run has read it.

    Raises:
        NotComparable: it is missing, or has another size.
    """
    recorded = original.data
    if "size_bytes" not in recorded:
        return
    path = Path(recorded["path"])
    state = "is missing"
    if path.is_file():
        size_bytes = path.stat().st_size
        if size_bytes == recorded["size_bytes"]:
            return
        state = f"has {size_bytes} bytes"
    raise NotComparable(
        f"the data of {original.id}, {path}, {state}; recorded were {recorded['size_bytes']} bytes"
    )


def print_environment_differences(original: Run, project: Project) -> None:
    """Prints how the environment differs from the one in which the run was recorded."""
    differences = environment_differences(original.record["env"], original.packages, project.root)
    for difference in differences[:MAX_NOTES]:
        print(f"note: the environment differs from the record: {difference}", flush=True)


def run_again(project: Project, original: Run) -> Run:
    """Trains with the frozen code of `original`.

    Returns:
        The new run, whose parent is `original`.

    Raises:
        Failed: the training failed.
    """
    runs = project.paths.runs
    directories_before = set(run_directories(runs))
    with tempfile.TemporaryDirectory(prefix="lab-frozen-") as temporary:
        code = Path(temporary).resolve() / "code"
        unpack_code(original.record["code"], project.root, original.dir, code)
        exit_code = train_frozen(project, original, code)
    new_directories = set(run_directories(runs)) - directories_before
    new_runs = [Run.open(Path(directory)) for directory in new_directories]
    repeated = [run for run in new_runs if run.record["parent"] == original.id]
    if not repeated:
        raise Failed(f"the repetition of {original.id} failed")
    if exit_code:
        raise Failed(f"the repetition of {original.id} failed: lab runs show {repeated[0].id}")
    return repeated[0]


def train_frozen(project: Project, original: Run, code: Path) -> int:
    """`lab train` with the frozen code and the recorded configuration.

    Data and runs stay where they are.

    Returns:
        The exit code.
    """
    recorded = original.record["code"]
    frozen = env.frozen_environment(code, recorded["prefix"], project.root, recorded["commit"])
    variables = os.environ | frozen
    # The new run is not part of the run in which this command may have been started.
    variables.pop(env.RUN_DIR, None)
    variables.pop(env.ATTEMPT, None)
    command = [sys.executable, "-m", f"{project.package}.lab", "train", "--parent", original.id]
    command += ["--config", str(original.dir / "config.yaml")]
    return subprocess.run(command, cwd=project.root, env=variables).returncode
