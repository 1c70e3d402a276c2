# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab eval`: evaluates a checkpoint of a run."""

from __future__ import annotations

import json
import time

from ..config.overrides import SettingsParser, run_and_settings
from ..config.recorded import read_recorded, with_changes
from ..config.resolve import load_dotenv, resolve
from ..project import Project
from ..record.find import find_run


def eval_command(project: Project, args: list[str]) -> int:
    """Notes the `test/...` metrics of a checkpoint over the whole test split beside the run; on any number of processes."""
    parser = SettingsParser(
        "lab eval", "Evaluates RUN on the test split; settings of trainer and data may follow."
    )
    parser.add_argument(
        "--checkpoint", default="last", metavar="NAME", help="last (default), best or previous"
    )
    parser.add_argument("--json", action="store_true", help="print the metrics as one JSON object")
    chosen = parser.read(args)
    word, overrides = run_and_settings(parser, chosen.overrides)
    run = find_run(project.paths["runs"], word)
    load_dotenv(project)
    may, otherwise = ("trainer.", "data."), "lab eval takes trainer.* and data.*"
    config = resolve(
        with_changes(read_recorded(run.dir / "config.yaml"), overrides, may, otherwise)
    )
    from .build import build_data, build_task
    from .load import load_weights
    from .means import LogMeans  # torch, only now
    from .settings import resolve_auto
    from .trainer import plain_trainer

    resolve_auto(config, earlier={})
    data, task = build_data(config), build_task(config)
    load_weights(task, run, chosen.checkpoint)
    trainer = plain_trainer(
        config, data, task, logger=False, enable_checkpointing=False, callbacks=[LogMeans()]
    )
    trainer.test(task, datamodule=data, verbose=False)
    if trainer.is_global_zero:
        metrics = {name: float(value) for name, value in sorted(trainer.callback_metrics.items())}
        about = {
            "time_unix_s": round(time.time(), 3),
            "checkpoint": chosen.checkpoint,
            "overrides": overrides,
        }
        with open(run.dir / "evaluations.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(about | {"metrics": metrics}) + "\n")
        lines = [f"run {run.id}, {chosen.checkpoint}.ckpt"] + [
            f"{key:<12} {metrics[key]:.6g}" for key in metrics
        ]
        print(json.dumps(metrics) if chosen.json else "\n".join(lines))
    return 0
