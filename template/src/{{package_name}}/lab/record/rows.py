# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""One row per run, from the directories alone; rows of ended runs are remembered in a disposable cache."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from .attempt import Scheduler, status, summarise
from .files import read_json

HIGHER = re.compile(r"acc|auc|auroc|f1|precision|recall|iou|dice|map\b|bleu|rouge|psnr|ssim|r2|reward|return|score")
UNLISTED = ("schema", "code", "config_sha256")  # in the record of the run itself
OPTIONAL = (
    "created", "who", "why", "parent", "seed", "exception", "device", "n_attempts", "started_unix_s", "attempt_unix_s",
    "ended_unix_s", "seconds", "gpu_seconds", "energy_j",
)  # fmt: skip
ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
MANY = 300  # runs, from which on a cache is worth its import


def lower_is_better(metric: str) -> bool:
    """Whether small values of a metric are good, judged by its name: `val/acc` no, `val/loss` yes."""
    return not HIGHER.search(metric.rpartition("/")[2].lower())


def run_directories(runs: Path) -> Iterator[str]:
    """Every run directory: runs/<trial>/<run_id>."""
    for trial in listed(str(runs)):
        for name in listed(f"{runs}/{trial}"):
            if ID.fullmatch(name):
                yield f"{runs}/{trial}/{name}"


def listed(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def rows(runs: Path, scheduler: Scheduler | None = None) -> list[dict]:
    """A row per run, newest first: `run_id, trial, status, created, run_dir, metrics, tags` and times, energy, seed."""
    directories = list(run_directories(runs))
    if len(directories) < MANY:
        found = [row(directory, scheduler) for directory in directories]
    else:
        from .cache import remembered  # SQLite

        found = remembered(runs, directories, lambda directory: row(directory, scheduler))
    return sorted(found, key=lambda row: (row["run_id"][:15], row["created"] or ""), reverse=True)


def row(directory: str, scheduler: Scheduler | None = None) -> dict:
    """The row of one run: from summary.json alone when it has ended, else from what there is."""
    folder = Path(directory)
    summary = read_json(folder / "summary.json")
    if summary is None or summary["status"] == "interrupted":
        record = read_json(folder / "run.json") or {}
        summary = summarise(record, folder) | {"status": status(folder, scheduler, record)}
    trial, run_id = directory.rsplit("/", 2)[1:]
    known = {key: value for key, value in summary.items() if key not in UNLISTED}
    return (
        dict.fromkeys(OPTIONAL)
        | known
        | {
            "run_id": run_id,
            "trial": summary.get("trial") or trial.replace("+", "/"),
            "run_dir": directory,
            "metrics": summary.get("metrics") or {},
            "tags": tags(folder),
        }
    )


def tags(folder: Path) -> list[str]:
    """The tags of a run, as the lines of notes.jsonl leave them."""
    found: dict[str, None] = {}
    for entry in notes(folder):
        if "tag" in entry:
            found[entry["tag"]] = None
        found.pop(entry.get("untag", ""), None)
    return list(found)


def notes(folder: Path) -> list[dict]:
    """The lines of notes.jsonl; what cannot be read is passed over."""
    entries = []
    try:
        lines = (folder / "notes.jsonl").read_bytes().splitlines()
    except FileNotFoundError:
        return []
    for line in lines:
        try:
            entries.append(json.loads(line))
        except ValueError:
            continue
    return [entry for entry in entries if isinstance(entry, dict)]
