# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab eval`: a run's checkpoint on the test split, noted beside the run."""

from __future__ import annotations

import json
import time

from omegaconf import DictConfig

from ..config.compose import load_dotenv, resolved
from ..config.overrides import SettingsParser, read_recorded, run_and_settings, with_settings
from ..project import Project
from ..record.run import Run, find

MAY_CHANGE = ("trainer.", "data.")


def eval_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser("lab eval", "Evaluates RUN on the test split; settings of trainer and data may follow.")
    parser.add_argument("--checkpoint", default="last", metavar="NAME", help="last (default), best or previous")
    parser.add_argument("--json", action="store_true", help="print the metrics as one JSON object")
    chosen = parser.read(args)
    word, overrides = run_and_settings(parser, chosen.overrides)
    run = find(project.paths["runs"], word)
    load_dotenv(project)
    config = with_settings(
        read_recorded(run.dir / "config.yaml"), overrides, MAY_CHANGE, "lab eval takes trainer.* and data.*"
    )
    metrics, is_first_rank = evaluate(run, resolved(config), chosen.checkpoint)
    if is_first_rank:
        about = {"time_unix_s": round(time.time(), 3), "checkpoint": chosen.checkpoint, "overrides": overrides}
        with open(run.dir / "evaluations.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(about | {"metrics": metrics}) + "\n")
        lines = [
            f"run {run.id}, {chosen.checkpoint}.ckpt",
            *[f"{name:<12} {value:.6g}" for name, value in metrics.items()],
        ]
        print(json.dumps(metrics) if chosen.json else "\n".join(lines))
    return 0


def evaluate(run: Run, config: DictConfig, checkpoint: str) -> tuple[dict[str, float], bool]:
    """The `test/...` metrics of a checkpoint over the whole test split, on any number of processes; and whether this
    is the first of them."""
    from .load import checkpoint_of, load_weights  # torch, only now
    from .metrics import LogMeans
    from .parts import build_data, build_task
    from .settings import settle
    from .trainer import plain_trainer

    settle(config, earlier={})
    data, task = build_data(config), build_task(config)
    load_weights(task, checkpoint_of(run, checkpoint))
    trainer = plain_trainer(config, data, task, logger=False, enable_checkpointing=False, callbacks=[LogMeans()])
    trainer.test(task, datamodule=data, verbose=False)
    return {name: float(value) for name, value in sorted(trainer.callback_metrics.items())}, trainer.is_global_zero
