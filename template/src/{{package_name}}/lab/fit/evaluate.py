# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab eval`: a run's checkpoint on the test split, recorded beside the run."""

from __future__ import annotations

import json
import os
import time

import lightning.pytorch as L
from omegaconf import DictConfig, OmegaConf

from ..config.arguments import SettingsParser
from ..config.overrides import parse
from ..errors import LabError, nearest
from ..project import Project
from ..record.find import find
from ..record.run import Run
from .load import checkpoint_of, load_weights
from .metrics import BuffersAgree, LogMeans
from .parts import build_data, build_task
from .settings import settle
from .trainer import PASSED_ON, quiet, shards_itself, strategy

MAY_CHANGE = ("trainer.", "data.")


def eval_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser(
        "lab eval", "Evaluates RUN on the test split; settings of trainer and data may follow."
    )
    parser.add_argument(
        "--checkpoint", default="last", metavar="NAME", help="last (default), best or previous"
    )
    parser.add_argument("--json", action="store_true", help="print the metrics as one JSON object")
    chosen = parser.read(args)
    if not chosen.overrides or "=" in chosen.overrides[0]:
        raise LabError(
            "name the run first: lab eval RUN [data.batch_size=256]. Runs: lab runs list; the last one is @last"
        )
    word, *overrides = chosen.overrides
    run = find(project.paths["runs"], word)
    config = changed(OmegaConf.load(run.dir / "config.yaml"), overrides)
    metrics = evaluate(run, config, chosen.checkpoint)
    if int(os.environ.get("LOCAL_RANK", 0)) > 0:
        return 0
    row = {
        "time_unix_s": round(time.time(), 3),
        "checkpoint": chosen.checkpoint,
        "overrides": overrides,
        "metrics": metrics,
    }
    with open(run.dir / "evaluations.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    lines = [f"{name:<12} {value:.6g}" for name, value in metrics.items()]
    print(
        json.dumps(metrics) if chosen.json else "\n".join([f"run {run.id}, {chosen.checkpoint}.ckpt", *lines])
    )
    return 0


def evaluate(run: Run, config: DictConfig, checkpoint: str = "last") -> dict[str, float]:
    """The `test/...` metrics of a run's checkpoint, over the whole test split, on any number of processes."""
    settle(config, earlier={})
    quiet()
    data, task = build_data(config), build_task(config)
    load_weights(task, checkpoint_of(run, checkpoint))
    trainer = L.Trainer(
        **{key: config.trainer[key] for key in PASSED_ON},
        strategy=strategy(config),
        use_distributed_sampler=not shards_itself(data),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[BuffersAgree(), LogMeans()],
    )
    trainer.test(task, datamodule=data, verbose=False)
    return {name: float(value) for name, value in sorted(trainer.callback_metrics.items())}


def changed(config: DictConfig, overrides: list[str]) -> DictConfig:
    for override in parse(overrides).settings:
        key = override.key_or_group
        known = [name for name in _keys(config) if name.startswith(MAY_CHANGE)]
        if key not in known:
            raise LabError(
                f"lab eval cannot set {key!r}{nearest(key, known)}. It takes trainer.* and data.*, over the run's own settings."
            )
        OmegaConf.update(config, key, override.value())
    return config


def _keys(config: DictConfig, prefix: str = "") -> list[str]:
    names = []
    for key in config:
        node = config._get_node(key)
        names += (
            _keys(node, f"{prefix}{key}.")
            if isinstance(node, DictConfig) and not node._is_none()
            else [f"{prefix}{key}"]
        )
    return names
