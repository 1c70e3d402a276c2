# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab train` and `lab resume`: compose, record, and only then import what is slow."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from ..config.arguments import SettingsParser
from ..config.compose import Composition, compose, load_dotenv, resolved, telling
from ..config.overrides import parse
from ..errors import LabError
from ..project import PACKAGE, Project
from ..record.files import write
from ..record.find import find
from ..record.run import Run
from .recording import recorded

MAY_CHANGE = (
    "trainer.max_epochs",
    "trainer.max_steps",
    "job.",
)  # what an attempt may do differently from the first


def train_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser("lab train", "Trains trial=NAME here, now, and records it.")
    parser.add_argument("--why", metavar="TEXT", help="what this run is for; kept in its record")
    parser.add_argument("--parent", metavar="RUN", help="the run that this one repeats or continues from")
    parser.add_argument("--config", metavar="FILE", help="a composed configuration, instead of composing one")
    parser.add_argument("--allow", action="store_true", help="record also what looks like a secret")
    chosen = parser.read(args)
    if "LAB_ATTEMPT" in os.environ:
        return join()
    composition = (
        recorded_composition(project, Path(chosen.config))
        if chosen.config
        else compose(project, chosen.overrides)
    )
    config = composition.config
    run = Run.create(
        project,
        Path(config.paths.runs),
        trial=composition.trial,
        config_yaml=composition.yaml,
        overrides=composition.overrides,
        argv=sys.argv,
        seed=config.seed,
        why=chosen.why,
        parent=chosen.parent,
        dirty=config.record.dirty,
        allow=chosen.allow,
        max_file_mb=config.record.max_file_mb,
        checkpoints=Path(config.paths.checkpoints) if config.paths.checkpoints else None,
    )
    print(f"run {run.id}  {run.dir}", flush=True)
    return attempt(project, run)


def resume_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser("lab resume", "Continues RUN from its last checkpoint, in the same directory.")
    chosen = parser.read(args)
    if "LAB_ATTEMPT" in os.environ:
        return join()
    if not chosen.overrides or "=" in chosen.overrides[0]:
        raise LabError(
            "name the run first: lab resume RUN [trainer.max_epochs=40]. Runs: lab runs list; the last one is @last"
        )
    word, *overrides = chosen.overrides
    run = find(project.paths["runs"], word)
    changed(config_of(run), overrides)  # before an attempt is begun for a mistake
    print(f"run {run.id}  {run.dir}", flush=True)
    return attempt(project, run, overrides)


def attempt(project: Project, run: Run, overrides: Sequence[str] = ()) -> int:
    """One attempt of a run in this process, with its recorded settings and the few that may change."""
    secrets = telling(load_dotenv(project))
    config = changed(config_of(run), overrides)
    with recorded(
        run, project, env=config.record.env, secrets=secrets, overrides=list(overrides)
    ) as recording:
        if overrides:
            write(run.dir / "attempts" / str(recording.n) / "config.yaml", OmegaConf.to_yaml(config))
        import_module(f"{PACKAGE}.train").train(resolved(config), run, recording)
    print(
        "\n"
        + "  ".join(
            f"{name} {value:.4f}" for name, value in recording.metrics.items() if name.startswith("test/")
        )
    )
    print(f"finished. Look: lab runs show {run.id}")
    return 0


def join() -> int:
    """Another rank of an attempt that the first rank began: the same settings, no record of its own."""
    project, run = Project.find(), Run.open(Path(os.environ["LAB_RUN_DIR"]))
    load_dotenv(project)
    own = run.dir / "attempts" / os.environ["LAB_ATTEMPT"] / "config.yaml"
    config = OmegaConf.load(own) if own.exists() else config_of(run)
    with recorded(run, project, env="warn", secrets=[]) as recording:
        import_module(f"{PACKAGE}.train").train(resolved(config), run, recording)
    return 0


def config_of(run: Run) -> DictConfig:
    return OmegaConf.load(run.dir / "config.yaml")


def recorded_composition(project: Project, path: Path) -> Composition:
    """A composed configuration from a file, as another run recorded it."""
    load_dotenv(project)
    config = OmegaConf.load(path)
    return Composition(resolved(config), path.read_text(encoding="utf-8"), config.trial, [], {})


def changed(config: DictConfig, overrides: Sequence[str]) -> DictConfig:
    """The recorded configuration with the few settings that an attempt may change."""
    for override in parse(list(overrides)).settings:
        key = override.key_or_group
        if not key.startswith(MAY_CHANGE):
            raise LabError(
                f"{key} cannot change within a run: its numbers would mean two things. "
                "lab resume may change trainer.max_epochs, trainer.max_steps and job.*; "
                "for the rest start a new run: lab train ..."
            )
        if OmegaConf.select(config, key) is None:
            raise LabError(f"unknown setting {key!r}")
        OmegaConf.update(config, key, override.value())
    return config
