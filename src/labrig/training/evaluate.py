"""`lab eval`: evaluates a checkpoint of a run."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ..config.overrides import SettingsParser
from ..config.recorded import read_recorded, with_changes
from ..config.resolve import load_variables, resolve
from ..project import Project
from ..record.find import RUN_HELP, find_run
from ..record.outcome import final_weights
from ..record.ran import RanCode, imported_code
from ..record.roots import run_roots
from ..record.run import Run
from ..record.run_frozen import run_with_frozen_code
from ..record.seal import append_sealed
from .code_to_run import add_choices, code_to_run, facts_of_code

MAY_CHANGE = ("trainer.", "data.")
ADVICE = "lab eval takes trainer.* and data.*"


def eval_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser(
        "lab eval",
        "Evaluates RUN on the test split; settings of trainer and data may follow.",
        RUN_HELP,
    )
    add_choices(parser)
    parser.add_argument("--json", action="store_true", help="print the metrics as one JSON object")
    options = parser.read(args)
    overrides = options.overrides
    run = find_run(run_roots(project), options.run)
    code = code_to_run(run, project, options.today, "evaluates")
    if code is None:
        words = [str(run.dir) if word == options.run else word for word in args]
        return run_with_frozen_code(run, project, ["eval", *words])
    ran = RanCode(imported_code(project, code))
    load_variables(project)
    recorded = read_recorded(run.dir / "config.yaml")
    config = resolve(with_changes(recorded, overrides, MAY_CHANGE, ADVICE))
    checkpoint = options.checkpoint or final_weights(run.checkpoints).stem
    metrics = evaluate(config, run, checkpoint)
    if metrics is None:
        return 0
    append_evaluation(run.dir, checkpoint, overrides, metrics, facts_of_code(run, code, ran))
    if options.json:
        print(json.dumps(metrics))
    else:
        print(f"run {run.id}, {checkpoint}.ckpt")
        for name, value in metrics.items():
            print(f"{name:<12} {value:.6g}")
    return 0


def evaluate(config: DictConfig, run: Run, checkpoint: str) -> dict[str, float] | None:
    """The `test/...` metrics over the whole test split, on any number of processes.

    Args:
        config: the configuration of the run; trainer and data may differ.
        checkpoint: last, best or previous.

    Returns:
        Metrics by name, sorted; None on other ranks than the first.

    Raises:
        LabError: no such checkpoint, or it does not fit today's code.
    """
    # They import torch, which takes seconds.
    from .build import build_data, build_task
    from .load import load_weights
    from .means import LogMeans
    from .settings import apply_settings, resolve_auto
    from .trainer import plain_trainer

    config = resolve_auto(config, first_attempt={})
    apply_settings(config)
    data = build_data(config)
    task = build_task(config)
    load_weights(task, run, checkpoint)
    trainer = plain_trainer(
        config, data, task, logger=False, enable_checkpointing=False, callbacks=[LogMeans()]
    )
    trainer.test(task, datamodule=data, verbose=False)
    if not trainer.is_global_zero:
        return None
    return {name: float(value) for name, value in sorted(trainer.callback_metrics.items())}


def append_evaluation(
    run_dir: Path,
    checkpoint: str,
    overrides: list[str],
    metrics: dict[str, float],
    code: dict[str, Any],
) -> None:
    """Adds a row to evaluations.jsonl of the run.

    Args:
        code: as in start.json: `commit`, `same` (as the run's), `complete`, `not_frozen`.
    """
    row = {
        "time_unix_s": round(time.time(), 3),
        "checkpoint": checkpoint,
        "overrides": overrides,
        "metrics": metrics,
        "code": code,
    }
    append_sealed(run_dir / "evaluations.jsonl", row)
