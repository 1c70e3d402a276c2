"""`lab eval`: evaluates a checkpoint of a run."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ...config.overrides import SettingsParser
from ...errors import LabError
from ...machine.ranks import leave_group
from ...project import Project
from ...record.compare.results import distance
from ...record.files.atomic import number
from ...record.files.checkpoint_hashes import hash_once
from ...record.files.manifest import append_listed
from ...record.read.evaluations import EVALUATIONS, TEST
from ...record.read.find import RUN_HELP, find_run
from ...record.read.row_cache import outdate_row
from ...record.read.rows import read_row
from ...record.read.run import Run, run_roots
from ...record.read.status import weights_of_numbers
from ...record.reproduce.recorded_inputs import is_same_data
from ...record.reproduce.today import run_with_frozen_code
from ...record.write.claim import in_use
from ...record.write.ran import RanCode, imported_code, places_in
from ..parts.kept_data import with_kept_override
from .code_to_run import add_choices, code_to_run, config_to_run, facts_of_code, read_choices

ADVICE = "lab eval takes data=NAME, split=NAME, data.* and trainer.*"
TOLERANCE = 1e-4  # relative, from which on a number is another one


@dataclass(frozen=True)
class EvaluationResult:
    """A row of evaluations.jsonl, without its time, settings and code."""

    checkpoint: str
    checkpoint_sha256: str
    data_name: str | None  # what the metrics are called after; None: the data of the run's own test
    split: str
    data: dict[str, Any]  # what was read, by its content
    metrics: dict[str, float]  # over every sample: test/..., of split=val val/...


def eval_command(project: Project, args: list[str]) -> int:
    options = parse_arguments(args)
    run = find_run(run_roots(project), options.run)
    with in_use(run.dir):
        return evaluate_run(project, run, options, args)


def evaluate_run(project: Project, run: Run, options: argparse.Namespace, args: list[str]) -> int:
    """Evaluates with the code of the run, which may be another process, and records the numbers."""
    kept = with_kept_override(options.overrides, run, project)[len(options.overrides) :]
    code = code_to_run(run, project, options.today, "evaluates")
    if code is None:
        words = [str(run.dir) if word == options.run else word for word in args]
        words += kept
        return run_with_frozen_code(run, project, ["eval", *words])
    imported = imported_code(project, code)
    config = config_to_run(project, run, options.data, [*options.settings, *kept], ADVICE)
    is_elsewhere = options.data is not None or options.split is not None
    refuse_part(config.trainer, {} if is_elsewhere else run.config["trainer"])
    ran = RanCode(imported, elsewhere=places_in(config.paths))
    checkpoint = options.checkpoint or weights_of_numbers(run.dir, run.checkpoints).stem
    evaluation = evaluate(project, config, run, checkpoint, options.split, options.data)
    if evaluation is None:
        return 0
    row = {
        "time_unix_s": round(time.time(), 3),
        "overrides": [*options.overrides, *kept],
        **asdict(evaluation),
        "code": facts_of_code(run, code, ran),
    }
    print_other_numbers(run, evaluation)
    append_listed(run.dir, EVALUATIONS, row)
    outdate_row(run.dir)
    if options.json:
        print(json.dumps(evaluation.metrics))
    else:
        print_evaluation(run, evaluation)
    return 0


def parse_arguments(args: list[str]) -> argparse.Namespace:
    parser = SettingsParser(
        "lab eval",
        "Evaluates RUN on its test split. data=NAME takes another data set of conf/data, split=NAME "
        "another split, split=all every sample; settings of trainer and data may follow.",
        RUN_HELP,
    )
    add_choices(parser)
    parser.add_argument("--json", action="store_true", help="print the metrics as one JSON object")
    return read_choices(parser, args)


def refuse_part(trainer: Mapping[str, Any], recorded: Mapping[str, Any]) -> None:
    """Refuses a limit with which the number would be of other samples than tables take it for.

    Args:
        trainer: the section of the evaluation.
        recorded: that of the run; {} for other data or another split, which are measured whole.
    """
    limits = [each.get("limit_test_batches") for each in (trainer, recorded)]
    limit, wanted = (1.0 if each is None else each for each in limits)
    if repr(limit) != repr(wanted):  # 1 is one batch, 1.0 are all
        raise LabError(
            f"trainer.limit_test_batches={limit}: lab eval measures every sample of a split, and for the "
            f"numbers of the run those that the run measured. Type trainer.limit_test_batches={wanted}; "
            "for a part: split=NAME"
        )


def evaluate(
    project: Project,
    config: DictConfig,
    run: Run,
    checkpoint: str,
    split: str | None,
    data_name: str | None,
) -> EvaluationResult | None:
    """The `test/...` metrics over a whole split, on any number of processes.

    Args:
        config: the configuration of the run; trainer and data may differ.
        checkpoint: last, best or previous.
        split: of a data file; None: test.
        data_name: of the data set that was asked for, where it is not the run's own.

    Returns:
        None on other ranks than the first.
    """
    # They import torch, which takes seconds.
    from ..parts.trainer import plain_trainer
    from ..watch.means import LogMeans
    from .predictable import choose_test_split, rebuild

    built = rebuild(project, config, run, checkpoint, choose_test_split, split)
    trainer = plain_trainer(
        built.config,
        built.data,
        built.task,
        logger=False,
        enable_checkpointing=False,
        callbacks=[LogMeans(built.config.log.get("derived"))],
    )
    trainer.test(built.task, datamodule=built.data, verbose=False)
    leave_group()
    if not trainer.is_global_zero:
        return None
    return EvaluationResult(
        checkpoint=checkpoint,
        checkpoint_sha256=hash_once(run.checkpoints / f"{checkpoint}.ckpt"),
        data_name=data_name or name_of_other_data(built.content, built.split, run),
        split=built.split,
        data=built.content,
        metrics={
            name_for_split(name, built.split): float(value)
            for name, value in sorted(trainer.callback_metrics.items())
        },
    )


def name_for_split(name: str, split: str) -> str:
    """What a metric of `test_step` is called: val/acc for test/acc over the split val."""
    known = split in ("train", "val") and name.startswith(f"{TEST}/")
    return f"{split}{name.removeprefix(TEST)}" if known else name


def print_other_numbers(run: Run, evaluation: EvaluationResult) -> None:
    """Says where the weights and data of the recorded numbers give other ones now."""
    is_same = (
        evaluation.data_name is None
        and evaluation.split == TEST
        and evaluation.checkpoint == weights_of_numbers(run.dir, run.checkpoints).stem
    )
    if not is_same:
        return
    recorded = read_row(str(run.dir))["metrics"]
    for name, value in evaluation.metrics.items():
        before = number(recorded.get(name))
        if isinstance(before, int | float) and distance(before, value) > TOLERANCE:
            print(
                f"lab: {name} is {value:.6g} here, and {before:.6g} in the record of {run.id}, with the "
                "same weights and data. Something that no checkpoint holds decides too (a buffer with "
                "persistent=False), or another device or precision",
                file=sys.stderr,
            )


def name_of_other_data(content: dict[str, Any], split: str, run: Run) -> str | None:
    """The name of the file or folder that was read; None for the test split of the run's own data."""
    is_own = "sha256" in run.data and is_same_data(run.data, content)
    if "path" not in content or (is_own and split == TEST):
        return None
    return Path(content["path"]).stem


def print_evaluation(run: Run, evaluation: EvaluationResult) -> None:
    place = Path(evaluation.data["path"]).name if "path" in evaluation.data else "its data"
    print(f"run {run.id}, {evaluation.checkpoint}.ckpt, {place}, split {evaluation.split}")
    for name, value in evaluation.metrics.items():
        print(f"{name:<12} {value:.6g}")
