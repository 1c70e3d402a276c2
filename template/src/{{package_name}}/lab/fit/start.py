# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab train` and `lab resume`: compose, record, and only then import what is slow."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from ..config.arguments import SettingsParser
from ..config.compose import Composition, compose
from ..config.overrides import parse
from ..errors import LabError
from ..project import PACKAGE, Project
from ..record.find import find
from ..record.run import Run
from .recording import recorded

MAY_CHANGE = ("trainer.max_epochs", "trainer.max_steps", "job.")  # what an attempt may do differently from the first


def train_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser("lab train", "Trains trial=NAME here, now, and records it.")
    parser.add_argument("--why", metavar="TEXT", help="what this run is for; kept in its record")
    parser.add_argument("--parent", metavar="RUN", help="the run that this one repeats or continues from")
    parser.add_argument("--config", metavar="FILE", help="a composed configuration, instead of composing one")
    parser.add_argument("--allow", action="store_true", help="record also what looks like a secret")
    chosen = parser.read(args)
    if "LAB_ATTEMPT" in os.environ:
        return join()
    composition = recorded_composition(Path(chosen.config)) if chosen.config else compose(project, chosen.overrides)
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
    return attempt(project, run, config, [])


def resume_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser("lab resume", "Continues RUN from its last checkpoint, in the same directory.")
    chosen = parser.read(args)
    if "LAB_ATTEMPT" in os.environ:
        return join()
    if not chosen.overrides or "=" in chosen.overrides[0]:
        raise LabError("name the run first: lab resume RUN [trainer.max_epochs=40]. Runs: lab runs list; the last one is @last")
    word, *overrides = chosen.overrides
    run = find(project.paths["runs"], word)
    config = changed(OmegaConf.load(run.dir / "config.yaml"), overrides)
    print(f"run {run.id}  {run.dir}", flush=True)
    return attempt(project, run, config, overrides)


def attempt(project: Project, run: Run, config: DictConfig, overrides: list[str]) -> int:
    """One attempt in this process."""
    with recorded(run, project, env=config.record.env, overrides=overrides) as recording:
        (run.dir / "attempts" / str(recording.n) / "config.yaml").write_text(OmegaConf.to_yaml(config), encoding="utf-8")
        import_module(f"{PACKAGE}.train").train(config, run, recording)
    print(f"\nfinished. Look: lab runs show {run.id}")
    return 0


def join() -> int:
    """Another rank of an attempt that the first rank began: the same settings, no record of its own."""
    run, n = Run.open(Path(os.environ["LAB_RUN_DIR"])), os.environ["LAB_ATTEMPT"]
    config = OmegaConf.load(run.dir / "attempts" / n / "config.yaml")
    with recorded(run, Project.find(), env="warn") as recording:
        import_module(f"{PACKAGE}.train").train(config, run, recording)
    return 0


def recorded_composition(path: Path) -> Composition:
    config = OmegaConf.load(path)
    return Composition(OmegaConf.create(OmegaConf.to_container(config, resolve=True)), path.read_text(), config.trial, [], {})


def changed(config: DictConfig, overrides: list[str]) -> DictConfig:
    """The recorded configuration with the few settings that an attempt may change."""
    for override in parse(overrides).settings:
        key = override.key_or_group
        if not key.startswith(MAY_CHANGE):
            raise LabError(
                f"{key} cannot change within a run: its numbers would mean two things. "
                f"lab resume may change trainer.max_epochs, trainer.max_steps and job.*; for the rest start a new run: lab train ..."
            )
        if OmegaConf.select(config, key) is None:
            raise LabError(f"unknown setting {key!r}")
        OmegaConf.update(config, key, override.value())
    return config
