"""`lab check`: everything that can be known to be wrong before a training."""

from __future__ import annotations

import io
import pickle
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.callbacks import EarlyStopping
from lightning.pytorch.plugins.io import TorchCheckpointIO
from omegaconf import DictConfig, OmegaConf

from ..config.check_target import is_target, known_signature, refuse_other_trials
from ..config.compose import FOLLOWS, Composition, check_packages, compose
from ..config.overrides import SettingsParser
from ..config.program import is_program
from ..config.resolve import plain_values
from ..config.trial_names import trial_names
from ..errors import LabError
from ..failure import debugging, describe, is_interruption
from ..hdf5.file.tokens import N_TOKENS, n_tokens_of
from ..hdf5.read.datamodule import H5DataModule
from ..project import Project, shown_path
from ..record.read.settings import flat_settings
from .checkpoints.checkpoint import Checkpoints, plain_checkpoint
from .watch.print_line import print_line


@dataclass(frozen=True)
class CheckResult:
    """What a passed check found. Without a batch only the name of the trial is known."""

    trial: str
    n_parameters: int | None = None
    batch_s: float | None = None  # seconds that one batch took
    test: str | None = None  # what became of the test batch
    loop: str = ""  # which one runs the steps, and why
    task: str | None = None  # the name of its class
    sections: tuple[str, ...] = ()  # those that fill parameters which the task leaves open
    seeds: tuple[str, ...] = ()  # what is to be said of seeds, a line each
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
    with warnings.catch_warnings(record=True) as warned:
        try:
            result = check(project, overrides, batch=batch)
        except LabError as error:
            print(f"lab: {error_prefix}{error}", file=sys.stderr)
            return error.exit_code
    print(format_result(result), flush=True)
    for text in dict.fromkeys(format_warning(each, project) for each in warned):
        print(f"    warning: {text}", flush=True)
    return 0


def format_warning(warned: warnings.WarningMessage, project: Project) -> str:
    """The text of a warning in one line, and the line of code that it names."""
    text = " ".join(str(warned.message).split())
    return f"{text} ({shown_path(warned.filename, project)}:{warned.lineno})"


def format_result(result: CheckResult) -> str:
    if result.program:
        return f"ok  {result.trial}: keys, and its program"
    seeds = "".join(f"\n    {line}" for line in result.seeds)
    if result.n_parameters is None:
        return f"ok  {result.trial}: keys, targets and arguments{seeds}"
    sections = ", ".join(result.sections) or "none"
    return (
        f"ok  {result.trial}: {result.n_parameters:,} parameters, "
        f"one batch in {result.batch_s:.2f} s, {result.test}\n"
        f"    steps run in {result.loop}\n"
        f"    sections that {result.task} is given: {sections}{seeds}"
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
    check_packages(composition.config)
    if not batch:
        return CheckResult(composition.trial, seeds=tuple(describe_seeds(project, composition)))
    if is_program(composition.config):
        from .start.program import check_program

        with errors_told("the program cannot be imported"):
            check_program(composition.config)
        return CheckResult(composition.trial, program=True)
    with errors_told("one batch fails"):
        return check_batch(project, composition)


def check_batch(project: Project, composition: Composition) -> CheckResult:
    """Builds the parts as train.py does; trains one batch and tests one, on one process.

    What a checkpoint would hold is tried in memory.
    """
    # They import torch, which takes seconds.
    from .lightning_internals import loop_line
    from .parts.accelerate import accelerate, n_parameters_of, require_sizes
    from .parts.build import build_data, build_task, filled_sections
    from .parts.callbacks import callbacks_of_a_check
    from .parts.initialise import check_initial_weights
    from .parts.settings import apply_settings, resolve_settings
    from .parts.trainer import for_optimization, plain_trainer
    from .watch.means import LogMeans
    from .watch.no_effect import NoEffect

    one_process: Any = OmegaConf.merge(composition.config, {"trainer": {"devices": 1}})
    config = resolve_settings(one_process, first_attempt={}).config
    apply_settings(config)
    data = build_data(config)
    check_classes(config, data)
    task = build_task(config)
    check_initial_weights(task, config)
    require_sizes(task, config, n_devices_of(composition.config))
    refuse_other_trials(composition.trial)
    config = for_optimization(config, task)
    task = accelerate(task, config)
    no_effect = NoEffect(config, composition.overrides)
    callbacks = [
        LogMeans(config.log.derived),
        *callbacks_of_a_check(config),
        no_effect,
        FirstCheckpoint(),
    ]
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
        n_parameters=n_parameters_of(task),
        batch_s=batch_s,
        test=f"no test: {why_untested}" if why_untested else "one test batch",
        loop=loop_line(trainer),
        task=config.task._target_.rpartition(".")[2],
        sections=filled_sections(config),
        seeds=(
            *describe_seeds(project, composition),
            *describe_seed_of_data(data, config.seed),
        ),
    )


def n_devices_of(config: DictConfig) -> int:
    """The processes that `trainer.devices` asks for; 1 where that depends on the machine."""
    devices = config.trainer.devices
    return devices if isinstance(devices, int) else 1


@contextmanager
def errors_told(what: str) -> Iterator[None]:
    """Turns an error within the block into a message with the project's own line behind it.

    Args:
        what: the beginning of the message.
    """
    try:
        yield
    except LabError:
        raise
    except Exception as error:
        if debugging() or is_interruption(error):
            raise
        raise LabError(f"{what}:\n{describe(error)}") from error


# What a first checkpoint would find, without writing one.


class FirstCheckpoint(L.Callback):
    """Saves once, at the end of the training, through the CheckpointIO of the Trainer."""

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        trainer.save_checkpoint("first.ckpt")


class NoFile(TorchCheckpointIO):
    """Writes no checkpoint, and checks instead that it could be read again."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        """Saves and loads the content in memory, with empty tensors."""
        file = io.BytesIO()
        torch.save(with_empty_tensors(plain_checkpoint(checkpoint)), file)
        file.seek(0)
        try:
            torch.load(file, weights_only=True)
        except pickle.UnpicklingError as error:
            reason = str(error).partition("error: ")[2].splitlines()[0]
            raise LabError(
                f"a checkpoint could be written, but not read again: {reason}. "
                "Return tensors, numbers, texts, lists and dicts from state_dict"
            ) from error


def with_empty_tensors(value: Any) -> Any:
    """The same plain content, whose tensors have no elements; those of classes of one's own stay."""
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        return torch.empty(0, dtype=value.dtype)
    if isinstance(value, dict):
        return {key: with_empty_tensors(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(with_empty_tensors(item) for item in value)
    return value


# Which seeds of a configuration do not follow `seed`: several runs of them differ in less than they say.


def describe_seeds(project: Project, composition: Composition) -> list[str]:
    """A line for each seed that lab has set, and for each that does not follow `seed`.

    Args:
        composition: whose overrides are composed once more, with another seed.
    """
    config = plain_values(composition.config)
    lines = []
    if "seed" in config["data"] and "data.seed" not in composition.origin:
        lines.append("data.seed is left open, so it follows seed")
    if not isinstance(config["seed"], int):
        return lines
    other = compose(project, [*composition.overrides, f"seed={config['seed'] + 1}"])
    stay = seeds_that_stay(flat_settings(config), flat_settings(plain_values(other.config)))
    for key, value in stay.items():
        origin = composition.origin.get(key, "set by lab")
        lines.append(
            f"{key}={value} does not follow seed ({origin}). To follow it: {key}={FOLLOWS}"
        )
    if has_open_seed(config["data"]):
        name = config["data"]["_target_"].rpartition(".")[2]
        lines.append(
            f"data.seed is left open, and {name} takes its default, which does not follow seed. "
            f"To follow it: data.seed={FOLLOWS}"
        )
    return lines


def seeds_that_stay(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The keys such as data.seed, with their values, that are equal in spite of another `seed`.

    Args:
        one, other: two compositions as dotted keys with values, which differ in `seed`.
    """
    return {
        key: value
        for key, value in one.items()
        if key.endswith(".seed") and value is not None and other.get(key) == value
    }


def has_open_seed(data: Any) -> bool:
    """Whether a class that takes a seed is given none."""
    if not is_target(data) or "seed" in data:
        return False
    return "seed" in known_signature(data["_target_"], "data").names


def describe_seed_of_data(data: Any, seed: int) -> list[str]:
    """A line when the order and augmentation of a data file have another seed that no setting shows.

    Args:
        data: as it was built.
        seed: of the run.
    """
    from ..hdf5.read.datamodule import H5DataModule  # torch, which built `data`

    if not isinstance(data, H5DataModule) or data.seed == seed:
        return []
    name = type(data).__name__
    return [
        f"order and augmentation of the data have the seed {data.seed}, which does not follow seed. "
        f"Have {name}.__init__ take seed, and pass it on: super().__init__(..., seed=seed)"
    ]


def run_final_test(
    trainer: L.Trainer, task: L.LightningModule, data: L.LightningDataModule
) -> list[str] | bool:
    """Tests once, with the weights that `trainer.test_with` says; prints one line if there is no test.

    `trainer.callback_metrics` has the values of the fit and those of the test afterwards.

    Returns:
        The names of what the test measured; False: there was none.
    """
    reason = why_no_test(task, data)
    if reason is not None:
        if trainer.is_global_zero:
            print(f"not tested: {reason}", flush=True)
        return False
    # Lightning forgets them in a test: the record would have those of the last row.
    of_fit = dict(trainer.callback_metrics)
    trainer.test(task, datamodule=data, verbose=False, ckpt_path=weights_to_test(trainer))
    of_test = dict(trainer.callback_metrics)
    trainer.callback_metrics.update(of_fit | of_test)
    return list(of_test)


def weights_to_test(trainer: L.Trainer) -> Path | None:
    """best.ckpt where that is tested; None: the weights as they are after `fit`."""
    keeper = next(
        (one for one in trainer.checkpoint_callbacks if isinstance(one, Checkpoints)), None
    )
    if keeper is None or keeper.test_with == "last":
        return None
    watched = [one.monitor for one in trainer.callbacks if isinstance(one, EarlyStopping)]
    if keeper.test_with == "auto" and keeper.monitor not in watched:
        if watched:
            print_line(
                trainer,
                f"EarlyStopping watches {', '.join(map(str, watched))}, and best.ckpt is the best by "
                f"{keeper.monitor}: the last weights are tested. For the best: "
                f"checkpoint.monitor={watched[0]}",
            )
        return None
    best = keeper.directory / "best.ckpt"
    if trainer.strategy.broadcast(best.exists()):
        print_line(trainer, f"tests best.ckpt, the best by {keeper.monitor}")
        return best
    if keeper.test_with == "best":
        raise LabError(
            f"trainer.test_with=best, and there is no best.ckpt: no validation logged {keeper.monitor}. "
            "Set checkpoint.monitor to a metric of the validation, or trainer.test_with=last"
        )
    return None


def why_no_test(task: L.LightningModule, data: L.LightningDataModule) -> str | None:
    """Why a test is not possible; None when it is."""
    if type(task).test_step is L.LightningModule.test_step:
        return f"{type(task).__name__} has no test_step"
    if type(data).test_dataloader is L.LightningDataModule.test_dataloader:
        return f"{type(data).__name__} has no test_dataloader"
    uses_split = type(data).test_dataloader is H5DataModule.test_dataloader
    if isinstance(data, H5DataModule) and uses_split and "test" not in data.layout.splits:
        return f"{data.path} has no split test"
    return None


def check_classes(config: DictConfig, data: Any) -> None:
    """Compares `model.n_classes` and `model.n_tokens`, where there are any, with an H5DataModule."""
    model = config.get("model") or {}
    n_classes, n_tokens = model.get("n_classes"), model.get(N_TOKENS)
    if not isinstance(data, H5DataModule):
        return
    n_known = n_tokens_of(data.layout) or 0
    if isinstance(n_tokens, int) and n_tokens < n_known:
        raise LabError(
            f"model.n_tokens is {n_tokens}, but {data.layout.path} has {n_known} tokens. "
            "Write: model.n_tokens='${data_of:n_tokens}'"
        )
    if not isinstance(n_classes, int):
        return
    n_in_data = data.n_classes
    if n_in_data is not None and n_classes < n_in_data:
        raise LabError(
            f"model.n_classes is {n_classes}, but the labels y of {data.layout.path} go from 0 to "
            f"{n_in_data - 1}. Set model.n_classes={n_in_data}"
        )
