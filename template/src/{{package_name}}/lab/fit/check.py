# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab check`: everything that can be known to be wrong before training: keys, targets, arguments, data, one batch."""

from __future__ import annotations

import sys
import time
import traceback

import lightning.pytorch as L

from ..config.arguments import SettingsParser
from ..config.compose import compose
from ..config.layers import trials
from ..errors import LabError
from ..project import Project
from .parts import build_callbacks, build_data, build_task
from .settings import settle
from .trainer import PASSED_ON, quiet, shards_itself


def check_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser("lab check", "Checks trial=NAME with settings; without one, every trial.")
    parser.add_argument(
        "--no-batch", action="store_true", help="keys, targets and arguments only; imports nothing slow"
    )
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
    settle(config, earlier={})
    quiet()
    data, task, callbacks = build_data(config), build_task(config), build_callbacks(config)
    started_s = time.monotonic()
    settings = {
        key: config.trainer[key] for key in PASSED_ON if not key.startswith(("limit_", "max_", "devices"))
    }
    if not task.automatic_optimization:
        settings |= {"gradient_clip_val": None, "accumulate_grad_batches": 1}
    trainer = L.Trainer(
        **settings,
        devices=1,
        fast_dev_run=1,
        use_distributed_sampler=not shards_itself(data),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[c for c in callbacks if not hasattr(c, "monitor")],  # one batch is no metric to monitor
    )
    try:
        trainer.fit(task, datamodule=data)
    except LabError:
        raise
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        own = [f for f in traceback.extract_tb(error.__traceback__) if str(project.source) in f.filename]
        place = own[-1] if own else place
        raise LabError(
            f"one batch fails: {type(error).__name__}: {error}\n  at {place.filename}:{place.lineno}: {place.line}"
        ) from error
    n_parameters = sum(p.numel() for p in task.parameters())
    return f"ok  {composition.trial}: {n_parameters:,} parameters, one batch in {time.monotonic() - started_s:.2f} s"
