# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""All runs as rows of a table, read from summary.json, with a cache that may be deleted."""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from ..errors import LabError, nearest
from .atomic import read_json
from .json_lines import read_lines
from .status import JobStateOf, status_of
from .summary import summarise

HIGHER = re.compile(
    r"acc|auc|auroc|f1|precision|recall|iou|dice|map\b|bleu|rouge|psnr|ssim|r2|reward|return|score"
)
UNLISTED = ("schema", "code", "config_sha256")  # in the record of the run itself
OPTIONAL = (
    "created", "who", "why", "parent", "seed", "exception", "device", "n_attempts", "started_unix_s", "attempt_unix_s",
    "ended_unix_s", "seconds", "gpu_seconds", "energy_j",
)  # fmt: skip
ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
MANY = 300  # runs, from which on a cache is worth its import
LAYOUT = 1  # of the rows in the cache; an older one is thrown away


def run_directories(runs: Path) -> Iterator[str]:
    """Every run directory: runs/<trial>/<run_id>."""
    for trial in listed(str(runs)):
        for name in listed(f"{runs}/{trial}"):
            if ID.fullmatch(name):
                yield f"{runs}/{trial}/{name}"


def listed(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return [
                entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []


def rows(runs: Path, scheduler: JobStateOf | None = None) -> list[dict]:
    """A row per run, newest first: `run_id, trial, status, created, run_dir, metrics, tags` and times, energy, seed."""
    directories = list(run_directories(runs))
    if len(directories) < MANY:
        found = [row_of(directory, scheduler) for directory in directories]
    else:
        found = cached_rows(runs, directories, lambda directory: row_of(directory, scheduler))
    return sorted(found, key=lambda row: (row["run_id"][:15], row["created"] or ""), reverse=True)


def row_of(directory: str, scheduler: JobStateOf | None = None) -> dict:
    """The row of one run: from summary.json alone when it has ended, else from what there is."""
    folder = Path(directory)
    summary = read_json(folder / "summary.json")
    if summary is None or summary["status"] == "interrupted":  # a preempted job may be queued again
        record = read_json(folder / "run.json") or {}
        summary = summarise(record, folder) | {"status": status_of(folder, scheduler, record)}
    trial, run_id = directory.rsplit("/", 2)[1:]
    known = dict.fromkeys(OPTIONAL) | {
        key: value for key, value in summary.items() if key not in UNLISTED
    }
    own = {
        "run_id": run_id,
        "run_dir": directory,
        "tags": tags(folder),
        "metrics": summary.get("metrics") or {},
    }
    return known | own | {"trial": summary.get("trial") or trial.replace("+", "/")}


def tags(folder: Path) -> list[str]:
    """The tags of a run, as the lines of notes.jsonl leave them."""
    found: dict[str, None] = {}
    for entry in read_lines(folder / "notes.jsonl"):
        if "tag" in entry:
            found[entry["tag"]] = None
        found.pop(entry.get("untag", ""), None)
    return list(found)


def ranked(known: list[dict], metric: str) -> list[dict]:
    """The rows that have `metric` as a number, best value first."""
    found = [row for row in known if isinstance(row["metrics"].get(metric), int | float)]
    return sorted(
        found, key=lambda row: row["metrics"][metric], reverse=not lower_is_better(metric)
    )


def lower_is_better(metric: str) -> bool:
    """Whether small values of a metric are good, judged by its name: `val/acc` no, `val/loss` yes."""
    return not HIGHER.search(metric.rpartition("/")[2].lower())


def check_metric(known: list[dict], name: str) -> None:
    """A metric that no run has is a mistake, not an empty list.

    Raises:
        LabError: with the nearest name and all there are.
    """
    names = sorted({each for row in known for each in row["metrics"]})
    if known and name not in names:
        there = ", ".join(names) or "none"
        raise LabError(f"no run has the metric {name!r}{nearest(name, names)}. Metrics: {there}")


def cached_rows(runs: Path, directories: list[str], read: Callable[[str], dict]) -> list[dict]:
    """The row of every directory: from a SQLite file on this machine's own disk where its key still holds, else by `read`.

    The key of a row is the time and size of its summary.json, which a new note touches. The file is disposable:
    missing, broken, older or on a read-only disk, it is built again or done without. Only listings write it.
    """
    import sqlite3  # slow, and needless for few runs

    try:
        path = location(runs)
        with closing(sqlite3.connect(path, timeout=1)) as connection, connection as database:
            if database.execute("PRAGMA user_version").fetchone()[0] != LAYOUT:
                database.execute("DROP TABLE IF EXISTS rows")
                database.execute(f"PRAGMA user_version = {LAYOUT}")
            database.execute(
                "CREATE TABLE IF NOT EXISTS rows (path TEXT PRIMARY KEY, key TEXT, row TEXT)"
            )
            known = {
                path: (key, text)
                for path, key, text in database.execute("SELECT path, key, row FROM rows")
            }
            texts, fresh, found = [], [], []
            for directory in directories:
                key = stamp(f"{directory}/summary.json")
                entry = known.pop(directory, None)
                if key and entry and entry[0] == key:
                    texts.append(entry[1])
                else:
                    found.append(read(directory))
                    if key and found[-1]["status"] not in ("queued", "running"):
                        fresh.append((directory, key, json.dumps(found[-1])))
            database.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?, ?)", fresh)
            database.executemany("DELETE FROM rows WHERE path = ?", [(path,) for path in known])
            return found + json.loads(f"[{','.join(texts)}]")
    except (sqlite3.OperationalError, OSError):  # locked, or a disk that cannot be written
        pass
    except (sqlite3.DatabaseError, ValueError):  # broken inside: the next listing builds it anew
        path.unlink(missing_ok=True)
    return [read(directory) for directory in directories]


def location(runs: Path) -> Path:
    """A file on the local disk that only this user can write.

    Raises:
        OSError: somebody else owns the place.
    """
    folder = Path(tempfile.gettempdir()) / f"lab-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.is_symlink():
        raise PermissionError(f"{folder} belongs to somebody else")
    return folder / f"{hashlib.sha256(str(runs.resolve()).encode()).hexdigest()[:16]}.sqlite"


def stamp(path: str) -> str | None:
    """What changes when a file changes: its time and size; None when it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return f"{status.st_mtime_ns} {status.st_size}"
