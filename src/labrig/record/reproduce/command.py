"""`lab runs reproduce`: runs the frozen code of a run again, as a new run, in the places of this project.

A run may come from another machine, another clone, or a project that was moved. Its repetition
reads data here, and writes nothing to the old place.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from ... import env
from ...config.resolve import plain_values
from ...errors import Failed, LabError, NotComparable
from ...machine.text_formats import printable
from ...project import Paths, Project, read_yaml
from ...providers import provided
from ..compare.results import TOLERANCE, compare_results
from ..files.atomic import write_file
from ..freeze.bundle import STORE, store_bundles
from ..freeze.environment import (
    REPEATED,
    environment_differences,
    matches,
    variable_changes,
)
from ..freeze.frozen import unpack_code
from ..read.attempt_files import last_attempt, read_attempts
from ..read.find import find_run, run_parser
from ..read.rows import run_directories
from ..read.run import Run, Stretch, is_finished, run_roots, stretches_of
from ..verify.results import archived_code
from ..write.inputs import resolve_weights
from .recorded_inputs import (
    find_recorded_data,
    find_recorded_weights,
    is_same_data,
    recorded_weights,
)

MAX_NOTES = 10  # lines about the environment
SHARED = ("data", "runs")  # of a project; git ignores them


def reproduce_command(project: Project, args: list[str]) -> int:
    """`lab runs reproduce`: here, or with site=NAME as a job."""
    overrides = [word for word in args if "=" in word and not word.startswith("-")]
    words = [word for word in args if word not in overrides]
    as_job = provided("reproduce_as_job")
    if as_job and overrides and len(words) == 1 and not words[0].startswith("-"):
        as_job(project, find_run(run_roots(project), words[0]), overrides)
        return 0
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
    original = find_run(run_roots(project), options.run)
    print_environment_differences(original, project)
    print_other_variables(original, project)
    for line in archived_code(original):
        print(f"note: code: {line}", flush=True)
    repeated = run_again(project, original, options.check)
    print(f"{original.id} was run again as {repeated.id}")
    return compare_results(original, repeated, options.tolerance) if options.check else 0


def print_environment_differences(original: Run, project: Project) -> None:
    """Prints how the environment differs from the one in which the run was recorded."""
    differences = environment_differences(original.record["env"], original.packages, project.root)
    for difference in differences[:MAX_NOTES]:
        print(f"note: the environment differs from the record: {difference}", flush=True)


def print_other_variables(original: Run, project: Project) -> None:
    """Names the variables that had another value then, and that are not set again as they were."""
    attempt = last_attempt(original.dir)
    env_vars = original.record["env"].get("env_vars") or ()
    changes = variable_changes(attempt.start if attempt else {}, project.root, env_vars)
    if changes.others:
        names = ", ".join(printable(name) for name in list(changes.others)[:MAX_NOTES])
        print(
            f"note: variables that differ from the record: {names}. "
            "Set what the code reads as it was then.",
            flush=True,
        )


def run_again(project: Project, original: Run, is_check: bool = False) -> Run:
    """Trains as `original` did: stretch by stretch, each with its frozen code and its settings.

    Args:
        is_check: the new run is recorded as a check, whose numbers count nowhere.

    Returns:
        The new run, whose parent is `original`.
    """
    stretches = trained_stretches(original)
    repeated = None
    for stretch in stretches:
        if len(stretches) > 1:
            line = f"attempt {stretch.attempt.n} of {original.id}: {where_it_ends(stretch)}"
            print(line, flush=True)
        repeated = run_stretch(project, original, stretch, repeated, is_check)
        require_end(original, stretch, repeated)
    assert repeated is not None  # a run has a stretch at least
    refuse_other_data(original, repeated)
    return repeated


def trained_stretches(original: Run) -> list[Stretch]:
    """The stretches of a training."""
    stretches = stretches_of(original)
    if "command" in stretches[0].attempt.start:
        raise LabError(
            f"{original.id} ran a command, not a training. "
            "Submit the command again: lab submit … -- COMMAND"
        )
    return stretches


def where_it_ends(stretch: Stretch) -> str:
    """Up to where a stretch is repeated."""
    if stretch.stop_step is None:
        return "to its end"
    return f"up to step {stretch.stop_step}, where the next attempt began"


def run_stretch(
    project: Project, original: Run, stretch: Stretch, repeated: Run | None, is_check: bool
) -> Run:
    """Repeats one stretch: as a new run, or as the next attempt of `repeated`."""
    with tempfile.TemporaryDirectory(prefix="lab-frozen-") as temporary:
        folder = Path(temporary).resolve()
        code = folder / "code"
        unpack_code(stretch.code, project.root, stretch.bundles, code)
        store_bundles(stretch.code, stretch.bundles, project.paths.runs / STORE)
        link_shared(project, code / stretch.code["prefix"])
        if repeated:
            words = ["resume", str(repeated.dir), *stretch.overrides]
            run_frozen(project, stretch, code, words, is_check)
            return repeated
        config = folder / "config.yaml"
        write_file(config, config_here(project, original, stretch.config))
        before = set(run_directories(project.paths.runs))
        words = ["train", "--parent", original.id, "--config", str(config)]
        run_frozen(project, stretch, code, words, is_check)
    return new_repetition(project, original, before)


def new_repetition(project: Project, original: Run, before: set[str]) -> Run:
    """The run that repeats `original` and has no directory in `before`."""
    new = set(run_directories(project.paths.runs)) - before
    runs = [Run.open(Path(directory)) for directory in new]
    of_original = [run for run in runs if run.record["parent"] == original.id]
    if not of_original:
        raise Failed(f"the repetition of {original.id} failed, see above. Then the same again")
    return of_original[0]


def link_shared(project: Project, frozen_project: Path) -> None:
    """Has relative paths to what is large and not frozen lead to this project, as in a job."""
    for name in SHARED:
        if not (frozen_project / name).exists():
            (frozen_project / name).symlink_to(project.root / name)


def run_frozen(
    project: Project, stretch: Stretch, code: Path, words: list[str], is_check: bool
) -> None:
    """`lab WORDS` with the frozen code, from where its attempt was started in it."""
    command = [sys.executable, "-m", "labrig", *words]
    variables = variables_of(project, stretch, code)
    if is_check:
        variables[env.CHECK] = "1"
    subprocess.run(command, cwd=working_directory(stretch, code), env=variables)


def working_directory(stretch: Stretch, code: Path) -> Path:
    """The directory in the frozen tree that is to it what the attempt's was to its project."""
    start = stretch.attempt.start
    frozen_project = code / stretch.code["prefix"]
    if "cwd" not in start:
        return frozen_project
    project_then = Path(start["imported_from"]).parents[1]
    inside = os.path.relpath(start["cwd"], project_then)
    directory = Path(os.path.normpath(frozen_project / inside))
    if not directory.is_relative_to(code):
        return frozen_project
    directory.mkdir(parents=True, exist_ok=True)  # git keeps no directory without files
    return directory


def variables_of(project: Project, stretch: Stretch, code: Path) -> dict[str, str]:
    """The variables with which the frozen code in `code` repeats a stretch."""
    variables = variables_of_attempt(stretch)
    if stretch.stop_step is not None:
        variables[env.STOP_STEP] = str(stretch.stop_step)
    commit, prefix = stretch.code["commit"], stretch.code["prefix"]
    outside = env.paths_outside(project.root)
    return variables | env.frozen_environment(code, prefix, project.root, commit, outside)


def variables_of_attempt(stretch: Stretch) -> dict[str, str]:
    """This environment with the variables of the attempt that change numbers."""
    patterns = repeated_patterns(stretch)
    variables = {name: value for name, value in os.environ.items() if not matches(name, patterns)}
    variables |= repeated_variables(stretch)
    optimize = stretch.attempt.start.get("flags", {}).get("optimize")
    if optimize:  # python -O
        variables["PYTHONOPTIMIZE"] = str(optimize)
    if "threads" in stretch.attempt.start:
        # Other threads add numbers in another order.
        variables["OMP_NUM_THREADS"] = str(stretch.attempt.start["threads"])
    # The new run is not part of the run in which this command may have been started.
    for name in (env.RUN_DIR, env.ATTEMPT, env.STOP_STEP, env.CHECK):
        variables.pop(name, None)
    return variables


def repeated_variables(stretch: Stretch) -> dict[str, str]:
    """The variables of an attempt that change numbers, as they were then."""
    patterns = repeated_patterns(stretch)
    recorded = stretch.attempt.start.get("variables") or {}
    return {name: value for name, value in recorded.items() if matches(name, patterns)}


def repeated_patterns(stretch: Stretch) -> list[str]:
    """The names of these variables, and the patterns that the user has set in record.env_vars."""
    section = read_yaml(stretch.config).get("record") or {}
    return [*REPEATED, *(section.get("env_vars") or [])]


def require_end(original: Run, stretch: Stretch, repeated: Run) -> None:
    """Makes sure that a repeated stretch ended as that of the original did."""
    attempt = last_attempt(repeated.dir)
    if stretch.stop_step is None:
        ended_alike = attempt is not None and is_finished(attempt)
    else:
        ended_alike = attempt is not None and attempt.end.get("status") == "interrupted"
    if not ended_alike:
        raise Failed(f"the repetition of {original.id} failed. See: lab runs show {repeated.id}")


def refuse_other_data(original: Run, repeated: Run) -> None:
    """Makes sure that the repetition read the recorded data."""
    then, now = original.data, repeated.data
    if not is_same_data(then, now):
        raise NotComparable(
            f"{repeated.id} read other data than {original.id}: {now.get('path')} has sha256 "
            f"{str(now.get('sha256'))[:12]}, recorded was {str(then.get('sha256'))[:12]}. "
            "Put the recorded file there"
        )


def config_here(project: Project, original: Run, file: Path) -> str:
    """The configuration in `file`, which `original` recorded, as YAML with this project's paths."""
    # the names as recorded: the repetition runs the recorded code
    sections = plain_values(cast("DictConfig", OmegaConf.load(file)))
    old_paths = sections.get("paths") or {}
    moves = list_moves(project, old_paths, old_root(original))
    here = moved(sections, moves, old_paths.get("data"), texts(project.paths.data))
    here["paths"] = here.get("paths", {}) | {
        "runs": str(project.paths.runs),
        "checkpoints": text_or_none(project.paths.checkpoints),
        "data": texts(project.paths.data),
        "scratch": text_or_none(project.paths.scratch),
    }
    place_data(project, original, here)
    place_weights(project, original, here)
    return OmegaConf.to_yaml(OmegaConf.create(here))


def old_root(original: Run) -> Path | None:
    """The root of the project in which a run was made; None when its record does not say."""
    attempts = read_attempts(original.dir)
    if not attempts or "imported_from" not in attempts[0].start:
        return None
    start = attempts[0].start
    live_root = Path(start["imported_from"]).parents[1]
    return Path(start.get("variables", {}).get(env.PROJECT, live_root))


def list_moves(project: Project, old: dict[str, Any], root: Path | None) -> list[tuple[str, str]]:
    """Pairs of an old directory and the one that takes its place here, inner directories first."""
    new: Paths = project.paths
    pairs = [(old.get("runs"), new.runs), (old.get("checkpoints"), new.checkpoints)]
    pairs += [(old.get("scratch"), new.scratch), (root, project.root)]
    moves = [(str(before), str(after)) for before, after in pairs if before and after]
    return sorted(moves, key=lambda move: len(move[0]), reverse=True)


def moved(value: Any, moves: list[tuple[str, str]], old_data: Any, data: list[str]) -> Any:
    """`value` with every path below an old directory in the new one, and the data's search path."""
    if isinstance(value, dict):
        return {key: moved(item, moves, old_data, data) for key, item in value.items()}
    if isinstance(value, list):
        if old_data and value == old_data:
            return data
        return [moved(item, moves, old_data, data) for item in value]
    if isinstance(value, str):
        for before, after in moves:
            if value == before or value.startswith(f"{before}/"):
                return after + value.removeprefix(before)
    return value


def place_data(project: Project, original: Run, sections: dict[str, Any]) -> None:
    """Has `data.path` name the recorded file, where the search path would find another or none."""
    files = find_recorded_data(project, original)
    data = sections.get("data")
    if not files or not isinstance(data, dict):
        return
    if len(files) > 1:
        data["path"] = texts(files)
        return
    if not isinstance(data.get("path"), str):
        return
    places = [Path(directory, data["path"]) for directory in project.paths.data]
    data_file = next((place for place in places if place.exists()), None)
    if data_file is None or not data_file.samefile(files[0]):
        data["path"] = str(files[0])


def place_weights(project: Project, original: Run, sections: dict[str, Any]) -> None:
    """Has `init_from` name the recorded weights, wherever they lie now."""
    recorded = recorded_weights(original)
    if not recorded:
        return
    file = find_recorded_weights(original, project)
    sections["init_from"] = str(file)
    with suppress(LabError):
        if resolve_weights(recorded["source"], project)["path"] == str(file):
            sections["init_from"] = recorded["source"]


def texts(paths: list[Path]) -> list[str]:
    return [str(path) for path in paths]


def text_or_none(path: Path | None) -> str | None:
    return None if path is None else str(path)
