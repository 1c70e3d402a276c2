# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab check`: everything that can be known to be wrong before a training."""

from __future__ import annotations

import sys
import time
import traceback
from importlib import import_module

from ..config.compose import compose
from ..config.overrides import SettingsParser
from ..config.trial_names import trial_names
from ..errors import LabError
from ..project import PACKAGE, Project


def check_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser(
        "lab check", "Checks trial=NAME with settings; without one, every trial."
    )
    parser.add_argument(
        "--no-batch", action="store_true", help="keys, targets and arguments only; imports no torch"
    )
    chosen = parser.read(args)
    named = any(override.startswith("trial=") for override in chosen.overrides)
    worst = 0
    for trial in [None] if named else trial_names(project):
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
    from .build import build_callbacks, build_data, build_task  # torch, only now
    from .settings import resolve_auto
    from .trainer import plain_trainer

    config.trainer.devices, train = 1, import_module(f"{PACKAGE}.train")
    resolve_auto(config, earlier={})
    train.scale(config)  # as train.py itself does it
    data, task, callbacks = (
        build_data(config),
        train.accelerate(build_task(config), config),
        build_callbacks(config),
    )
    started_s = time.monotonic()
    one_batch = [
        callback for callback in callbacks if not hasattr(callback, "monitor")
    ]  # no metric to monitor yet
    trainer = plain_trainer(config, data, task, fast_dev_run=1, callbacks=one_batch)
    try:
        trainer.fit(task, datamodule=data)
    except LabError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        place = [frame for frame in frames if str(project.source) in frame.filename][-1:] or frames[
            -1:
        ]
        at = "".join(f"\n  at {frame.filename}:{frame.lineno}: {frame.line}" for frame in place)
        raise LabError(f"one batch fails: {type(error).__name__}: {error}{at}") from error
    n_parameters = sum(p.numel() for p in task.parameters())
    return f"ok  {composition.trial}: {n_parameters:,} parameters, one batch in {time.monotonic() - started_s:.2f} s"
