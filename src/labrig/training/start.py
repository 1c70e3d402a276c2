"""`lab train` and `lab resume`."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from .. import env
from ..config.compose import compose
from ..config.overrides import SettingsParser
from ..config.program import is_program
from ..config.recorded import compose_from_record, read_recorded, with_changes
from ..config.resolve import load_variables, resolve
from ..project import Project, this_project
from ..record.atomic import write_file
from ..record.attempt_files import read_attempt, read_attempts
from ..record.cost_line import cost_line
from ..record.create import RunRequest, create_run
from ..record.find import RUN_HELP, find_run
from ..record.frozen import frozen_directory
from ..record.machinery import is_this_library
from ..record.ran import RanCode, code_of_process, imported_code
from ..record.recording import Recording, record_attempt
from ..record.roots import run_roots
from ..record.run import Run
from ..record.run_frozen import run_with_frozen_code, run_with_its_library
from ..record.schema import StartRecord
from ..record.today import what_the_project_lacks
from .multirun import train_points
from .notify import check_notify, notify_end
from .resume_point import whole_checkpoint

# What an attempt may do differently from the run's first.
MAY_CHANGE = ("trainer.max_epochs", "trainer.max_steps", "job.")
ADVICE = (
    "It cannot change within a run: lab resume can change only trainer.max_epochs, "
    "trainer.max_steps and job.*. For other settings start a new run: lab train ..."
)


def train_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser("lab train", "Trains trial=NAME here, now, and records it.")
    parser.add_argument("--why", metavar="TEXT", help="what this run is for; kept in its record")
    parser.add_argument(
        "--parent", metavar="RUN", help="the run that this one repeats or continues from"
    )
    parser.add_argument(
        "--config", metavar="FILE", help="a composed configuration, instead of composing one"
    )
    parser.add_argument("--allow", action="store_true", help="record also what looks like a secret")
    parser.add_argument(
        "-m",
        "--multirun",
        action="store_true",
        help="lists of values: their runs, one after the other",
    )
    options = parser.read(args)
    if env.ATTEMPT in os.environ:
        return join_attempt()
    if options.parent:
        options.parent = parent_id(project, options.parent)
    if options.multirun:
        return train_points(project, options)
    if options.config:
        composition = compose_from_record(project, Path(options.config))
    else:
        composition = compose(project, options.overrides)
    config = composition.config
    check_notify(config, project)
    request = RunRequest(
        trial=composition.trial,
        config_yaml=composition.yaml,
        overrides=composition.overrides,
        argv=sys.argv,
        seed=config.seed,
        why=options.why,
        parent=options.parent,
        dirty=config.record.dirty,
        allow=options.allow,
        max_file_mb=config.record.max_file_mb,
        env_vars=tuple(config.record.get("env_vars", ())),
        package_files=config.record.get("package_files", False),
        checkpoints=Path(config.paths.checkpoints) if config.paths.checkpoints else None,
    )
    run = create_run(project, Path(config.paths.runs), request)
    return train_attempt(project, run, overrides=[])


def parent_id(project: Project, word: str) -> str:
    """The id of the run that --parent names.

    Raises:
        LabError: there is no such run, or there are several.
    """
    # The repetition of a run names an id; that run may lie in another directory of runs.
    return word if frozen_directory() else find_run(run_roots(project), word).id


def resume_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser(
        "lab resume", "Continues RUN from its last checkpoint, in the same directory.", RUN_HELP
    )
    options = parser.read(args)
    if env.ATTEMPT in os.environ:
        return join_attempt()
    run = find_run(run_roots(project), options.run)
    # Before seconds go into imports.
    whole_checkpoint(run.checkpoints)
    lacking = None if frozen_directory() else what_the_project_lacks(project, run)
    if lacking:
        print(f"lab: {lacking}; continues with the code of {run.id}", file=sys.stderr)
        return run_with_frozen_code(run, project, ["resume", str(run.dir), *options.overrides])
    if not (frozen_directory() or env.LIBRARY in os.environ or is_this_library(run.record["code"])):
        return run_with_its_library(run, project, ["resume", str(run.dir), *options.overrides])
    return train_attempt(project, run, options.overrides, when_built=True)


def train_attempt(
    project: Project, run: Run, overrides: list[str], *, when_built: bool = False
) -> int:
    """One attempt of a run in this process.

    Args:
        overrides: settings that differ from the recorded ones; only those of MAY_CHANGE.
        when_built: record the attempt once its parts are built; else from now on.

    Raises:
        LabError: a setting cannot change, or a mistake in the settings.
        Failed: the training failed; the record says why.
        Stopped: a signal ended it, after a checkpoint.
    """
    load_variables(project)
    recorded = read_recorded(run.dir / "config.yaml")
    config = with_changes(recorded, overrides, MAY_CHANGE, ADVICE)
    print(f"run {run.id}  in {os.path.relpath(run.dir)}", flush=True)
    recording = None
    try:
        with record_attempt(
            run,
            project,
            env_policy=config.record.env,
            code_policy=config.record.get("code", "refuse"),
            when_built=when_built,
            overrides=overrides,
        ) as recording:
            if overrides:
                write_file(attempt_config(run, recording.n), OmegaConf.to_yaml(config))
            call_train(config, run, recording)
        print_end(config, run, recording.metrics)
    finally:
        if recording and recording.has_started:
            print(cost_line(run.dir), flush=True)
            notify_end(config, run, project)
    return 0


def join_attempt() -> int:
    """Trains as another rank of an attempt that the first rank began, with its settings."""
    project = this_project()
    run = Run.open(Path(os.environ[env.RUN_DIR]))
    attempt = int(os.environ[env.ATTEMPT])
    load_variables(project)
    config_file = attempt_config(run, attempt)
    if not config_file.exists():
        config_file = run.dir / "config.yaml"
    config = read_recorded(config_file)
    # Empty if this rank is faster than the first rank of the first attempt.
    attempts = read_attempts(run.dir)
    first_attempt: StartRecord = attempts[0].start if attempts else {}
    # Only the first rank writes the record.
    code = code_of_process(run, read_attempt(run.dir, attempt).start)
    ran = RanCode(imported_code(project, code), config.record.get("code", "refuse"))
    call_train(config, run, Recording(None, attempt, first_attempt, ran))
    return 0


def attempt_config(run: Run, attempt: int) -> Path:
    """The configuration of an attempt that was resumed with other settings than the run's."""
    return run.dir / "attempts" / str(attempt) / "config.yaml"


def call_train(config: DictConfig, run: Run, recording: Recording) -> None:
    """Calls `train` of the project's train.py, which imports torch; or the program of the trial."""
    if is_program(config):
        from .program import run_program  # NumPy

        run_program(resolve(config), run, recording)
        return
    import_module(f"{this_project().package}.train").train(resolve(config), run, recording)


def print_end(config: DictConfig, run: Run, metrics: dict[str, float]) -> None:
    if is_program(config):
        shown = [f"{name} {value:.4g}" for name, value in metrics.items()]
    else:
        shown = [f"{name} {value:.4f}" for name, value in metrics.items() if name[:5] == "test/"]
        # The test follows the fit, so it saw the weights that the fit saved last.
        shown.append("(weights: last.ckpt)" if shown else "(not tested)")
    print("  ".join(["finished", *shown]))
    print(f"look: lab runs show {run.id}")
