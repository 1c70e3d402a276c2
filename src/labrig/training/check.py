"""`lab check`: everything that can be known to be wrong before a training."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from omegaconf import OmegaConf

from ..config.compose import Composition, compose
from ..config.overrides import SettingsParser
from ..config.program import is_program
from ..config.trial_names import trial_names
from ..errors import LabError
from ..failure import debugging, describe, is_interruption
from ..project import Project


@dataclass(frozen=True)
class CheckResult:
    """What a passed check found. Without a batch only the name of the trial is known."""

    trial: str
    n_parameters: int | None = None
    batch_s: float | None = None  # seconds that one batch took
    test: str | None = None  # what became of the test batch
    program: bool = False  # it is a program, which was imported


def check_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser(
        "lab check", "Checks trial=NAME with settings; without one, every trial."
    )
    parser.add_argument(
        "--no-batch", action="store_true", help="keys, targets and arguments only; imports no torch"
    )
    options = parser.read(args)
    if any(override.startswith("trial=") for override in options.overrides):
        return check_and_print(project, options.overrides, batch=not options.no_batch)
    exit_code = 0
    for trial in trial_names(project):
        overrides = [f"trial={trial}", *options.overrides]
        code = check_and_print(
            project, overrides, batch=not options.no_batch, error_prefix=f"{trial}: "
        )
        exit_code = max(exit_code, code)
    return exit_code


def check_and_print(
    project: Project, overrides: list[str], batch: bool, error_prefix: str = ""
) -> int:
    """Prints the result of one check, or its error; returns the exit code."""
    try:
        result = check(project, overrides, batch=batch)
    except LabError as error:
        print(f"lab: {error_prefix}{error}", file=sys.stderr)
        return error.exit_code
    print(format_result(result), flush=True)
    return 0


def format_result(result: CheckResult) -> str:
    if result.program:
        return f"ok  {result.trial}: keys, and main(config, log) of its program.py"
    if result.n_parameters is None:
        return f"ok  {result.trial}: keys, targets and arguments"
    return (
        f"ok  {result.trial}: {result.n_parameters:,} parameters, "
        f"one batch in {result.batch_s:.2f} s, {result.test}"
    )


def check(project: Project, overrides: list[str], batch: bool = True) -> CheckResult:
    """Composes the settings, builds every part, trains one batch, tests one, tries a checkpoint.

    A program is imported only. It leaves nothing behind.

    Args:
        overrides: as after `lab check`, with trial=NAME.
        batch: False checks keys, targets and arguments only, and does not import torch.

    Raises:
        LabError: what is wrong, with the key or file to change.
    """
    composition = compose(project, overrides)
    if not batch:
        return CheckResult(composition.trial)
    if is_program(composition.config):
        from .program import load_program  # NumPy

        with errors_told("the program cannot be imported"):
            load_program(composition.config.trial)
        return CheckResult(composition.trial, program=True)
    with errors_told("one batch fails"):
        return check_batch(composition)


def check_batch(composition: Composition) -> CheckResult:
    """Builds the parts as train.py does; trains one batch and tests one, on one process.

    What a checkpoint would hold is tried in memory.

    Raises:
        LabError: what is wrong.
        Exception: what the project's own code raised.
    """
    # They import torch, which takes seconds.
    from .accelerate import accelerate
    from .build import build_data, build_task
    from .callbacks import callbacks_of_a_check
    from .check_checkpoint import FirstCheckpoint, NoFile
    from .check_classes import check_classes
    from .final_test import why_no_test
    from .initialise import check_initial_weights
    from .means import LogMeans
    from .no_effect import NoEffect
    from .settings import apply_settings, resolve_settings
    from .trainer import plain_trainer

    one_process: Any = OmegaConf.merge(composition.config, {"trainer": {"devices": 1}})
    config = resolve_settings(one_process, first_attempt={}).config
    apply_settings(config)
    data = build_data(config)
    check_classes(config, data)
    task = build_task(config)
    check_initial_weights(task, config)
    task = accelerate(task, config)
    no_effect = NoEffect(config, composition.overrides)
    callbacks = [LogMeans(), *callbacks_of_a_check(config), no_effect, FirstCheckpoint()]
    trainer = plain_trainer(
        config, data, task, fast_dev_run=1, callbacks=callbacks, plugins=[NoFile()]
    )

    began_s = time.monotonic()
    trainer.fit(task, datamodule=data)
    batch_s = time.monotonic() - began_s
    why_untested = None if config.trainer.test_after_fit else "trainer.test_after_fit is false"
    why_untested = why_untested or why_no_test(task, data)
    if why_untested is None:
        with errors_told("one batch of the test split fails"):
            trainer.test(task, datamodule=data, verbose=False)
    return CheckResult(
        trial=composition.trial,
        n_parameters=sum(parameter.numel() for parameter in task.parameters()),
        batch_s=batch_s,
        test=f"no test: {why_untested}" if why_untested else "one test batch",
    )


@contextmanager
def errors_told(what: str) -> Iterator[None]:
    """Turns an error within the block into a message with the project's own line behind it.

    Args:
        what: the beginning of the message.

    Raises:
        LabError: there was an error.
    """
    try:
        yield
    except LabError:
        raise
    except Exception as error:
        if debugging() or is_interruption(error):
            raise
        raise LabError(f"{what}:\n{describe(error)}") from error
