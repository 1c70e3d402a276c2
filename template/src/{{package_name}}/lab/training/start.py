# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab train` and `lab resume`."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

from omegaconf import OmegaConf

from .. import env
from ..config.compose import compose
from ..config.overrides import SettingsParser, run_and_settings
from ..config.recorded import compose_from_record, read_recorded, with_changes
from ..config.resolve import load_dotenv, resolve, secret_values
from ..project import PACKAGE, Project
from ..record.atomic import write_file
from ..record.attempt_files import read_attempts
from ..record.find import find_run
from ..record.recording import Recording, record_attempt
from ..record.run import Run
from .multirun import train_points

MAY_CHANGE = (
    "trainer.max_epochs",
    "trainer.max_steps",
    "job.",
)  # what an attempt may do differently from the first
OTHERWISE = (
    "It cannot change within a run, whose numbers would then mean two things: lab resume may change trainer.max_epochs, "
    "trainer.max_steps and job.*; for the rest start a new run: lab train ..."
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
        "-m", "--multirun", action="store_true", help="lists of values: their runs, one after the other"
    )
    chosen = parser.read(args)
    if env.ATTEMPT in os.environ:
        return join_attempt()
    if chosen.multirun:
        return train_points(project, chosen)
    made = (
        compose_from_record(project, Path(chosen.config))
        if chosen.config
        else compose(project, chosen.overrides)
    )
    config = made.config
    run = Run.create(
        project,
        Path(config.paths.runs),
        trial=made.trial,
        config_yaml=made.yaml,
        overrides=made.overrides,
        argv=sys.argv,
        seed=config.seed,
        why=chosen.why,
        parent=chosen.parent,
        dirty=config.record.dirty,
        allow=chosen.allow,
        max_file_mb=config.record.max_file_mb,
        checkpoints=Path(config.paths.checkpoints) if config.paths.checkpoints else None,
    )
    return train_attempt(project, run, [])


def resume_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser(
        "lab resume", "Continues RUN from its last checkpoint, in the same directory."
    )
    words = parser.read(args).overrides
    if env.ATTEMPT in os.environ:
        return join_attempt()
    word, overrides = run_and_settings(parser, words)
    return train_attempt(project, find_run(project.paths["runs"], word), overrides)


def train_attempt(project: Project, run: Run, overrides: list[str]) -> int:
    """One attempt of a run in this process, with its recorded settings and the few that may change."""
    secrets = secret_values(load_dotenv(project))
    config = with_changes(read_recorded(run.dir / "config.yaml"), overrides, MAY_CHANGE, OTHERWISE)
    print(f"run {run.id}  in {os.path.relpath(run.dir)}", flush=True)
    with record_attempt(
        run,
        project,
        env_policy=config.record.env,
        secrets=secrets,
        overrides=overrides,
    ) as recording:
        if overrides:
            write_file(
                run.dir / "attempts" / str(recording.n) / "config.yaml", OmegaConf.to_yaml(config)
            )
        import_module(f"{PACKAGE}.train").train(resolve(config), run, recording)
    tested = [
        f"{name} {value:.4f}"
        for name, value in recording.metrics.items()
        if name.startswith("test/")
    ]
    print("  ".join(["finished", *tested]) + f"\nlook: lab runs show {run.id}")
    return 0


def join_attempt() -> int:
    """Another rank of an attempt that the first rank began: the same settings, no record of its own."""
    project, run = Project.find(), Run.open(Path(os.environ[env.RUN_DIR]))
    load_dotenv(project)
    own = run.dir / "attempts" / os.environ[env.ATTEMPT] / "config.yaml"
    config = read_recorded(own if own.exists() else run.dir / "config.yaml")
    begun = read_attempts(
        run.dir
    )  # still empty when this rank is faster than the first attempt's first rank
    recording = Recording(None, int(os.environ[env.ATTEMPT]), begun[0]["start"] if begun else {})
    import_module(f"{PACKAGE}.train").train(resolve(config), run, recording)
    return 0
