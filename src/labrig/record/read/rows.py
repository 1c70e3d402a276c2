"""All runs as rows of a table, read from their summary.json."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...config.trial_names import current_names, gone_trials
from ...project import this_project
from ..files.atomic import Damaged, read_record
from ..files.json_lines import read_lines
from ..files.schema import Note, Row, RunRecord
from .attempt_files import read_attempts
from .evaluations import EVALUATIONS, evaluated_metrics
from .fields import FIELDS, FIELDS_HASH, RecordedRun, Summary
from .order import order_of
from .row_cache import read_through_cache, summarise
from .run import run_record
from .status import JobStateOf, may_run_again, status_of

# Keys of a summary that a row leaves out
UNLISTED = ("format", "fields", "code", "config_sha256", "sha256")
EMPTY_ROW = dict.fromkeys(field.name for field in FIELDS)
RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
MANY = 300  # runs, from which on the cache saves more time than it costs


def run_directories(*roots: Path) -> Iterator[str]:
    """Every run directory: <root>/<trial>/<run_id>, also under the name that it was renamed to."""
    for root in roots:
        yield from directories_in(root)


def directories_in(runs: Path) -> Iterator[str]:
    """The run directories in one root."""
    for trial in subdirectories(str(runs)):
        for name in subdirectories(f"{runs}/{trial}"):
            directory = f"{runs}/{trial}/{name}"
            if RUN_ID.fullmatch(name) or os.path.exists(f"{directory}/run.json"):
                yield directory


def subdirectories(directory: str) -> list[str]:
    """The names of the visible directories in `directory`."""
    try:
        with os.scandir(directory) as entries:
            return [
                entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []


def read_rows(roots: Sequence[Path], job_state_of: JobStateOf | None = None) -> list[Row]:
    """A row per run in all roots, newest first."""

    def read(directory: str) -> Row:
        return read_row(directory, job_state_of)

    rows = []
    for root in roots:
        directories = list(run_directories(root))
        if len(directories) < MANY:
            rows += [read(directory) for directory in directories]
        else:
            rows += read_through_cache(root, directories, read)
    mark_copies(rows)
    name_renamed_trials(rows)
    return sorted(rows, key=order_of, reverse=True)


def without_checks(rows: list[Row]) -> list[Row]:
    """The rows but for those of `lab runs reproduce --check`: they repeat a number that is there."""
    return [row for row in rows if not row["is_check"]]


def name_renamed_trials(rows: list[Row]) -> None:
    """Gives the runs of a renamed trial its name of today; their records keep the old one."""
    names = current_names(gone_trials(), this_project().source / "trials")
    if not names:
        return
    for row in rows:
        trial, slash, variant = row["trial"].partition("/")
        row["trial"] = names.get(trial, trial) + slash + variant


def mark_copies(rows: list[Row]) -> None:
    """Sets `is_copied` where two directories have one recorded id."""
    ids = [row["renamed_from"] or row["run_id"] for row in rows]
    if len(set(ids)) == len(ids):
        return
    n_directories = Counter(ids)
    for row, run_id in zip(rows, ids, strict=True):
        row["is_copied"] = n_directories[run_id] > 1


def read_row(directory: str, job_state_of: JobStateOf | None = None) -> Row:
    """The row of one run.

    One whose files cannot be read is "damaged", with the reason as its `exception`, so that it
    hides no other run.
    """
    folder = Path(directory)
    try:
        summary = read_summary(folder, job_state_of)
        row = build_row(folder, summary)
        row["metrics"] = row["metrics"] | read_evaluated(folder)
        notes = read_lines(folder / "notes.jsonl", Note)
        row["tags"] = tags_of(notes)
        row["pruned"] = next((note["freed"] for note in reversed(notes) if "freed" in note), None)
    except (OSError, ValueError) as error:
        reason = f"its record cannot be read: {error}"
        return build_row(folder, {"status": "damaged", "exception": reason})
    return row


def read_summary(folder: Path, job_state_of: JobStateOf | None) -> dict[str, Any]:
    """summary.json when the run has ended, else the same from what there is.

    Raises:
        ValueError: a file of the record has not the form that it should have.
    """
    try:
        summary = read_record(folder / "summary.json", Summary)
    except Damaged as problem:
        raise ValueError(f"in summary.json, {problem}") from None
    if summary is not None and not may_run_again(folder, summary):
        if summary.get("fields") != FIELDS_HASH:
            summary |= missing_fields(folder, summary)
        return summary
    try:
        record = read_record(folder / "run.json", RunRecord)
    except Damaged as problem:
        raise ValueError(f"in run.json, {problem}") from None
    if record is None:
        raise ValueError("run.json is missing")
    problems = [problem for attempt in read_attempts(folder) for problem in attempt.problems]
    if problems:
        raise ValueError(problems[0])
    return summarise(record, folder) | {"status": status_of(folder, job_state_of, record)}


def missing_fields(folder: Path, summary: dict[str, Any]) -> dict[str, Any]:
    """The fields that a summary lacks because the labrig that wrote it had none of these names."""
    run = RecordedRun(run_record(folder), folder, read_attempts(folder))
    return {
        field.name: field.source(run, field.name)
        for field in FIELDS
        if field.source and field.name not in summary
    }


def build_row(folder: Path, summary: dict[str, Any]) -> Row:
    """A row with every field; None where the summary does not say."""
    row: Row = EMPTY_ROW | summary
    for key in UNLISTED:
        row.pop(key, None)
    is_renamed = summary.get("run_id") not in (None, folder.name)
    row["renamed_from"] = summary["run_id"] if is_renamed else None
    code = summary.get("code") or {}
    row["commit"] = code.get("commit")
    row["package_tree"] = code.get("package_tree")
    row["trial_tree"] = code.get("trial_tree")
    row["run_id"] = folder.name
    row["run_dir"] = str(folder)
    row["is_copied"] = False  # until all runs are known
    row["tags"] = []
    row["changes"] = summary.get("changes") or []
    row["metrics"] = summary.get("metrics") or {}
    row["parsed"] = summary.get("parsed") or {}
    row["settings"] = settings = summary.get("settings") or {}
    # A default of a script counts, typed or not. Hydra parses all words as one list.
    args = settings.get("args") or {}
    is_list = settings.get("style") == "key=value" or not isinstance(args, dict)
    if settings and row["parsed"] and not is_list:
        row["settings"] = settings | {"args": args | row["parsed"]}
    row["trial"] = summary.get("trial") or folder.parent.name.replace("+", "/")
    return row


def recorded_id(row: Row) -> str:
    """The id of a run, also when its directory was renamed."""
    return row["renamed_from"] or row["run_id"]


def read_evaluated(folder: Path) -> dict[str, float]:
    """Metrics of `lab eval` on other data; empty for most runs, whose attempts are then not read."""
    if not os.path.exists(folder / EVALUATIONS):
        return {}
    return evaluated_metrics(folder, read_attempts(folder))


def read_tags(folder: Path) -> list[str]:
    """The tags of a run in the order they were added, without those that were removed."""
    return tags_of(read_lines(folder / "notes.jsonl", Note))


def tags_of(notes: list[Note]) -> list[str]:
    tags: dict[str, None] = {}
    for entry in notes:
        if "tag" in entry:
            tags[str(entry["tag"])] = None
        tags.pop(str(entry.get("untag", "")), None)
    return list(tags)
