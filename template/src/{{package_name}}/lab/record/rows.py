# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""One row per run, from the directories alone."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .attempt import attempt_numbers
from .files import read_json
from .metrics import last_metrics
from .state import Scheduler, status

HIGHER = re.compile(
    r"acc|auc|auroc|f1|precision|recall|iou|dice|map\b|bleu|rouge|psnr|ssim|r2|reward|return|score|success|samples"
)


def lower_is_better(metric: str) -> bool:
    """Whether small values of a metric are good, judged by its name: `val/acc` no, `val/loss` yes."""
    return not HIGHER.search(metric.rpartition("/")[2].lower())


def run_directories(runs: Path) -> Iterator[Path]:
    """Every run directory below `runs`: runs/<trial>/<run_id>."""
    for trial in listed(runs):
        for name in listed(f"{runs}/{trial}"):
            yield Path(runs, trial, name)


def listed(directory: str | Path) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def rows(runs: Path, scheduler: Scheduler | None = None) -> list[dict[str, Any]]:
    """A row per run, newest first: `run_id, trial, status, created, run_dir, metrics` and what the summary
    has besides."""
    found = [row(directory, scheduler) for directory in run_directories(runs)]
    return sorted(found, key=lambda row: row["run_id"], reverse=True)


def row(directory: Path, scheduler: Scheduler | None = None) -> dict[str, Any]:
    """The row of one run: from summary.json alone when it has ended, else from what there is."""
    summary = read_json(directory / "summary.json") or unfinished(directory, scheduler)
    return {
        "run_id": directory.name,
        "trial": summary.get("trial") or directory.parent.name.replace("+", "/"),
        "status": summary["status"],
        "created": summary.get("created"),
        "run_dir": str(directory),
        "metrics": summary.get("metrics") or {},
        "tags": tags(directory),
        **{key: summary.get(key) for key in ("who", "why", "parent", "seed", "exception", "code", "device")},
        **{
            key: summary.get(key)
            for key in ("started_unix_s", "ended_unix_s", "seconds", "gpu_seconds", "energy_j")
        },
        "n_attempts": summary.get("n_attempts"),
    }


def unfinished(directory: Path, scheduler: Scheduler | None) -> dict[str, Any]:
    record = read_json(directory / "run.json") or {}
    return record | {
        "status": status(directory, scheduler, record),
        "metrics": last_metrics(directory),
        "n_attempts": len(attempt_numbers(directory)),
    }


def tags(directory: Path) -> list[str]:
    """The tags of a run, as the lines of notes.jsonl leave them."""
    try:
        lines = (directory / "notes.jsonl").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    found: dict[str, None] = {}
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if "tag" in entry:
            found[entry["tag"]] = None
        found.pop(entry.get("untag", ""), None)
    return list(found)
