# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab train`, `lab resume`, `lab check`, `lab eval`: compose, record, and only then import what is slow."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path

from omegaconf import OmegaConf

from ..config.compose import compose, composed_before, load_dotenv, resolved, telling
from ..config.layers import trials
from ..config.overrides import SettingsParser, read_recorded, run_and_settings, with_settings
from ..errors import LabError
from ..project import PACKAGE, Project
from ..record.attempt import read_attempts
from ..record.files import write
from ..record.run import Run, find
from .recording import Recording, recorded

MAY_CHANGE = ("trainer.max_epochs", "trainer.max_steps", "job.")  # what an attempt may do differently from the first
OTHERWISE = (
    "It cannot change within a run, whose numbers would then mean two things: lab resume may change trainer.max_epochs, "
    "trainer.max_steps and job.*; for the rest start a new run: lab train ..."
)


def train_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser("lab train", "Trains trial=NAME here, now, and records it.")
    parser.add_argument("--why", metavar="TEXT", help="what this run is for; kept in its record")
    parser.add_argument("--parent", metavar="RUN", help="the run that this one repeats or continues from")
    parser.add_argument("--config", metavar="FILE", help="a composed configuration, instead of composing one")
    parser.add_argument("--allow", action="store_true", help="record also what looks like a secret")
    chosen = parser.read(args)
    if "LAB_ATTEMPT" in os.environ:
        return join()
    made = composed_before(project, Path(chosen.config)) if chosen.config else compose(project, chosen.overrides)
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
    return attempt(project, run, [])


def resume_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser("lab resume", "Continues RUN from its last checkpoint, in the same directory.")
    words = parser.read(args).overrides
    if "LAB_ATTEMPT" in os.environ:
        return join()
    word, overrides = run_and_settings(parser, words)
    return attempt(project, find(project.paths["runs"], word), overrides)


def attempt(project: Project, run: Run, overrides: list[str]) -> int:
    """One attempt of a run in this process, with its recorded settings and the few that may change."""
    secrets = telling(load_dotenv(project))
    config = with_settings(read_recorded(run.dir / "config.yaml"), overrides, MAY_CHANGE, OTHERWISE)
    print(f"run {run.id}  in {os.path.relpath(run.dir)}", flush=True)
    with recorded(run, project, env=config.record.env, secrets=secrets, overrides=overrides) as recording:
        if overrides:
            write(run.dir / "attempts" / str(recording.n) / "config.yaml", OmegaConf.to_yaml(config))
        import_module(f"{PACKAGE}.train").train(resolved(config), run, recording)
    tested = [f"{name} {value:.4f}" for name, value in recording.metrics.items() if name.startswith("test/")]
    print("  ".join(["finished", *tested]) + f"\nlook: lab runs show {run.id}")
    return 0


def join() -> int:
    """Another rank of an attempt that the first rank began: the same settings, no record of its own."""
    project, run = Project.find(), Run.open(Path(os.environ["LAB_RUN_DIR"]))
    load_dotenv(project)
    own = run.dir / "attempts" / os.environ["LAB_ATTEMPT"] / "config.yaml"
    config = read_recorded(own if own.exists() else run.dir / "config.yaml")
    begun = read_attempts(run.dir)  # still empty when this rank is faster than the first attempt's first rank
    recording = Recording(None, int(os.environ["LAB_ATTEMPT"]), begun[0]["start"] if begun else {})
    import_module(f"{PACKAGE}.train").train(resolved(config), run, recording)
    return 0


def check_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser("lab check", "Checks trial=NAME with settings; without one, every trial.")
    parser.add_argument("--no-batch", action="store_true", help="keys, targets and arguments only; imports no torch")
    chosen = parser.read(args)
    named = any(override.startswith("trial=") for override in chosen.overrides)
    worst = 0
    for trial in [None] if named else trials(project):
        overrides = chosen.overrides if named else [f"trial={trial}", *chosen.overrides]
        try:
            print(check(project, overrides, batch=not chosen.no_batch), flush=True)
        except LabError as error:
            print(f"lab: {'' if named else f'{trial}: '}{error}", file=sys.stderr)
            worst = max(worst, error.exit_code)
    return worst


def check(project: Project, overrides: list[str], batch: bool = True) -> str:
    """Composes, builds every part and trains one batch without leaving anything behind; a line that says so.

    Raises:
        LabError: what is wrong, with the key or file to change.
    """
    composition = compose(project, overrides)
    config = composition.config
    if not batch:
        return f"ok  {composition.trial}: keys, targets and arguments"
    from .parts import build_callbacks, build_data, build_task  # torch, only now
    from .trainer import plain_trainer, settle

    config.trainer.devices, train = 1, import_module(f"{PACKAGE}.train")
    settle(config, earlier={})
    train.scale(config)  # as train.py itself does it
    data, task, callbacks = build_data(config), train.accelerate(build_task(config), config), build_callbacks(config)
    started_s = time.monotonic()
    one_batch = [callback for callback in callbacks if not hasattr(callback, "monitor")]  # no metric to monitor yet
    trainer = plain_trainer(config, data, task, fast_dev_run=1, callbacks=one_batch)
    try:
        trainer.fit(task, datamodule=data)
    except LabError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        place = [frame for frame in frames if str(project.source) in frame.filename][-1:] or frames[-1:]
        at = "".join(f"\n  at {frame.filename}:{frame.lineno}: {frame.line}" for frame in place)
        raise LabError(f"one batch fails: {type(error).__name__}: {error}{at}") from error
    n_parameters = sum(p.numel() for p in task.parameters())
    return f"ok  {composition.trial}: {n_parameters:,} parameters, one batch in {time.monotonic() - started_s:.2f} s"


def eval_command(project: Project, args: list[str]) -> int:
    """Notes the `test/...` metrics of a checkpoint over the whole test split beside the run; on any number of processes."""
    parser = SettingsParser("lab eval", "Evaluates RUN on the test split; settings of trainer and data may follow.")
    parser.add_argument("--checkpoint", default="last", metavar="NAME", help="last (default), best or previous")
    parser.add_argument("--json", action="store_true", help="print the metrics as one JSON object")
    chosen = parser.read(args)
    word, overrides = run_and_settings(parser, chosen.overrides)
    run = find(project.paths["runs"], word)
    load_dotenv(project)
    may, otherwise = ("trainer.", "data."), "lab eval takes trainer.* and data.*"
    config = resolved(with_settings(read_recorded(run.dir / "config.yaml"), overrides, may, otherwise))
    from .metrics import LogMeans  # torch, only now
    from .parts import build_data, build_task, load_weights
    from .trainer import plain_trainer, settle

    settle(config, earlier={})
    data, task = build_data(config), build_task(config)
    load_weights(task, run, chosen.checkpoint)
    trainer = plain_trainer(config, data, task, logger=False, enable_checkpointing=False, callbacks=[LogMeans()])
    trainer.test(task, datamodule=data, verbose=False)
    if trainer.is_global_zero:
        metrics = {name: float(value) for name, value in sorted(trainer.callback_metrics.items())}
        about = {"time_unix_s": round(time.time(), 3), "checkpoint": chosen.checkpoint, "overrides": overrides}
        with open(run.dir / "evaluations.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(about | {"metrics": metrics}) + "\n")
        lines = [f"run {run.id}, {chosen.checkpoint}.ckpt"] + [f"{key:<12} {metrics[key]:.6g}" for key in metrics]
        print(json.dumps(metrics) if chosen.json else "\n".join(lines))
    return 0
