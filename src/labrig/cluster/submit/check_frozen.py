"""Checks a point in its frozen code before anything is sent to the scheduler.

Run there as a program, this file trains one batch.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from ... import env
from ...config.compose import Composition
from ...errors import Failed, LabError, Refused
from ...project import Project, say_once, this_project
from ...record.files.schema import Code
from ...record.freeze.frozen_files import left_out_reason, way_to_record
from ..schedulers.command import clean_environment

# names that are not code, and are never frozen
NOT_CODE = re.compile(
    r"(data|runs|\.venv|\.git|\.env)(/|$)|.*(__pycache__|\.egg-info|\.dist-info)/"
)
# weights and two moments of the optimizer, 4 bytes each
CHECKPOINT_BYTES_PER_PARAMETER = 12


def check_frozen(project: Project, code: Code, frozen: Path, point: Composition) -> None:
    """Trains one batch of `point` in `frozen`, the unpacked snapshot."""
    result = run_check(project, code, frozen, point.overrides)
    # a missing file first: it may be the reason of the error
    refuse_missing_files(project, code, frozen, result.wanted_files)
    if result.error:
        raise LabError(
            f"the frozen code fails its check: {result.error.replace(str(frozen), '<snapshot>')}\n"
            "Correct it, then type the same again. Without a job: lab check"
        )
    paths = point.config.paths
    check_room(Path(paths.checkpoints or paths.runs), result.n_parameters)


def run_check(project: Project, code: Code, frozen: Path, overrides: list[str]) -> FrozenCheck:
    """Runs this file of the frozen code."""
    frozen_variables = env.frozen_environment(frozen, code["prefix"], project.root, code["commit"])
    done = subprocess.run(
        [sys.executable, "-m", "labrig.cluster.submit.check_frozen", *overrides],
        env=clean_environment() | frozen_variables,
        cwd=frozen / code["prefix"],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise Failed(
            f"the check of the frozen code ended with code {done.returncode}:\n"
            f"{done.stderr.strip()[-2000:]}\n"
            "To see it without a job: lab check"
        )
    return FrozenCheck(**json.loads(done.stdout.splitlines()[-1]))


def check_room(checkpoints: Path, n_parameters: int) -> None:
    """Checks that two checkpoints fit on the disk of `checkpoints`, which need not exist yet."""
    place = checkpoints
    while not place.exists():
        place = place.parent
    need_MB = 2 * CHECKPOINT_BYTES_PER_PARAMETER * n_parameters / 1e6
    free_MB = shutil.disk_usage(place).free / 1e6
    if free_MB < need_MB:
        raise Refused(
            f"two checkpoints need {need_MB:,.0f} MB,"
            f" but the disk of {place} has {free_MB:,.0f} MB free.\n"
            "Make room (lab runs prune), or set paths.checkpoints to a larger disk."
        )


def name_unseen_words(project: Project, code: Code, frozen: Path, command: list[str]) -> None:
    """Says which words of a command name files of the project that the command will not see."""
    for word in command:
        if Path(word).is_absolute() or NOT_CODE.match(word):
            continue
        is_seen = os.path.exists(frozen / code["prefix"] / word)
        if os.path.exists(project.root / word) and not is_seen:
            reason = left_out_reason(project.root, code, word.rstrip("/")) or "not frozen"
            say_once(
                f"the command does not see {word}: {reason}.\nIt sees the frozen code, data/ and "
                f"runs/. For other files type the whole path: {shlex.quote(str(project.root / word))}"
            )


def refuse_missing_files(project: Project, code: Code, frozen: Path, names: Iterable[str]) -> None:
    """Checks that the snapshot in `frozen` has the files that a run needs.

    Args:
        names: paths relative to the project; only code that the project has counts.
    """
    missing = []
    for name in sorted(set(names)):
        is_code = not NOT_CODE.match(name) and (project.root / name).is_file()
        if is_code and not (frozen / code["prefix"] / name).exists():
            missing.append(name)
    if missing:
        unknown = "it lies outside what the snapshot holds"
        reasons = [left_out_reason(project.root, code, name) or unknown for name in missing]
        lines = [f"  {name}: {reason}\n" for name, reason in zip(missing, reasons, strict=True)]
        raise Refused(
            "the snapshot lacks files that the job needs. Nothing was submitted.\n"
            f"{''.join(lines)}To record such a file: {way_to_record(missing[0], reasons[0])}"
        )


@dataclass(frozen=True)
class FrozenCheck:
    """What the check of frozen code found.

    Args:
        error: what is wrong; None when the batch was trained.
        n_parameters: of the model; 0 when there was an error before it was built.
        wanted_files: files and modules that the check tried to open, relative to the project.
    """

    error: str | None
    n_parameters: int
    wanted_files: list[str]


def main(overrides: list[str]) -> None:
    """Runs the check; the last line of output is a FrozenCheck as JSON."""
    wanted_paths: set[str] = set()
    sys.addaudithook(collector_of(wanted_paths))
    # imported only now, so that the hook sees which files it imports
    from ...training.check import check

    error = None
    n_parameters = 0
    try:
        n_parameters = check(this_project(), overrides).n_parameters or 0
    except LabError as problem:
        error = str(problem)
    except Exception as problem:  # whatever it is: a file that it wanted may be the reason
        error = "".join(traceback.format_exception(problem))
    result = FrozenCheck(error, n_parameters, inside_project(wanted_paths))
    print(json.dumps(asdict(result)))


def collector_of(wanted_paths: set[str]) -> Callable[[str, tuple], None]:
    """An audit hook of Python that adds the path of every opened file and imported module."""

    def collect(event: str, arguments: tuple) -> None:
        if event == "open" and isinstance(arguments[0], str):
            wanted_paths.add(arguments[0])
        elif event == "import":
            module = f"src/{arguments[0].replace('.', '/')}"
            wanted_paths.add(f"{module}.py")
            wanted_paths.add(f"{module}/__init__.py")

    return collect


def inside_project(paths: set[str]) -> list[str]:
    """The paths below the project or its frozen copy, relative to it."""
    project = os.environ[env.PROJECT] + "/"
    frozen = os.getcwd() + "/"
    # a copy: the audit hook may add to the set meanwhile
    names = {path.removeprefix(project).removeprefix(frozen) for path in set(paths)}
    return sorted(name for name in names if not name.startswith(("/", "..")))


if __name__ == "__main__":
    main(sys.argv[1:])
