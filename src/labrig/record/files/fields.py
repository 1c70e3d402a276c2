"""The fields of a run: what each is called, where it comes from, and where it is shown.

Everything that shows runs reads FIELDS. A line more is a field in summary.json, in the rows and
their cache, and wherever the line says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto
from functools import cached_property
from pathlib import Path
from typing import Any, Required, TypedDict

from ...machine.text_formats import GB, HOUR_S, KWH_J
from ..read.attempt_files import AttemptFiles
from ..read.changes import list_changes
from ..read.settings import recorded_settings
from ..read.status import deciding_attempt, status_at_end
from .forms import Metric, UnixTime
from .metrics_file import last_metrics
from .schema import EndRecord, GitHash, InitialWeights, RunRecord, RunStatus, Seconds, StartRecord

OF_WEIGHTS = ("source", "run", "checkpoint", "sha256")


class Shown(Flag):
    """Where a field is shown."""

    LIST = auto()  # as a name for `lab runs list --columns`
    JSON = auto()  # in `lab runs list --json`
    CSV = auto()  # in `lab runs list --csv`
    NOTEBOOK = auto()  # in `labrig.runs()`
    SHOW = auto()  # in `lab runs show --json`
    LINE = auto()  # in `lab runs show`, as a line with its title where it was measured
    REPORT = auto()  # as a column of the page of `lab report`


NOWHERE = Shown(0)
LIST, JSON, CSV, NOTEBOOK, SHOW, LINE, REPORT = Shown
TABLES = CSV | NOTEBOOK | REPORT


@dataclass(frozen=True)
class RecordedRun:
    """What a summary is made of: run.json and the attempts, in order."""

    record: RunRecord
    run_dir: Path
    attempts: list[AttemptFiles]

    @property
    def first_start(self) -> StartRecord:
        return self.attempts[0].start if self.attempts else {}

    @property
    def last_start(self) -> StartRecord:
        return self.attempts[-1].start if self.attempts else {}

    @property
    def last_end(self) -> EndRecord:
        return self.attempts[-1].end if self.attempts else {}

    @cached_property
    def deciding(self) -> AttemptFiles | None:
        """The attempt that the numbers are of."""
        return deciding_attempt(self.attempts)

    @property
    def deciding_start(self) -> StartRecord:
        return self.deciding.start if self.deciding else {}

    @property
    def deciding_end(self) -> EndRecord:
        return self.deciding.end if self.deciding else {}


Source = Callable[[RecordedRun, str], Any]  # the value of the field of that name


def recorded(run: RecordedRun, name: str) -> Any:
    """What run.json says."""
    return run.record.get(name)


def of_first_start(run: RecordedRun, name: str) -> Any:
    return run.first_start.get(name)


def of_last_start(run: RecordedRun, name: str) -> Any:
    return run.last_start.get(name)


def of_last_end(run: RecordedRun, name: str) -> Any:
    return run.last_end.get(name)


def total(run: RecordedRun, name: str) -> float | None:
    return total_of(run.attempts, name)


def largest(run: RecordedRun, name: str) -> float | None:
    return largest_of(run.attempts, name)


def status(run: RecordedRun, name: str) -> str:
    return status_at_end(run.attempts)


def status_of_last_attempt(run: RecordedRun, name: str) -> str | None:
    return run.last_end.get("status")


def start_of_last_attempt(run: RecordedRun, name: str) -> float | None:
    return run.last_start.get("started_unix_s")


def number_of_attempts(run: RecordedRun, name: str) -> int:
    return len(run.attempts)


def error_line(run: RecordedRun, name: str) -> str | None:
    exception = run.deciding_end.get("exception")
    return exception["line"] if exception else None


def last_values(run: RecordedRun, name: str) -> dict[str, Any]:
    return run.deciding_end.get("metrics") or last_metrics(run.run_dir)


def changes_of_attempts(run: RecordedRun, name: str) -> list[str]:
    return list_changes(run.record, run.attempts)


def last_settings(run: RecordedRun, name: str) -> dict[str, Any]:
    return recorded_settings(run.record, run.run_dir, run.attempts)


def waited_in_queue(run: RecordedRun, name: str) -> dict[str, Any] | None:
    """How long the job of a run waited until it first began, and where.

    None when it has not begun, or an older lab sent it. The clocks of two machines are compared, so
    it is never less than 0.
    """
    job = run.record.get("job") or {}
    began = run.first_start.get("job", {})
    if "submitted_unix_s" not in job or "started_unix_s" not in began:
        return None
    seconds = max(0.0, began["started_unix_s"] - job["submitted_unix_s"])
    return {
        "site": job.get("site") or "",
        "queue": job.get("queue") or "",
        "seconds": round(seconds),
    }


def files_used(run: RecordedRun, name: str) -> dict[str, str] | None:
    """The hash of each file of own code that the attempts up to the numbers imported or read.

    Where attempts had other contents of a file it has several, in order. None: not noted, as by an
    older lab.
    """
    deciding = run.deciding.n if run.deciding else 0
    codes = [each.start.get("code") or {} for each in run.attempts if each.n <= deciding]
    codes = [code for code in codes if "used" in code]
    hashes: dict[str, dict[str, None]] = {}
    for code in codes:
        left_out = {file["path"]: str(file["sha256"]) for file in code.get("not_frozen", [])}
        for path, of_file in (code["used"] | left_out).items():
            hashes.setdefault(path, {})[of_file] = None
    return {path: " ".join(each) for path, each in hashes.items()} if codes else None


def commit_that_ran(run: RecordedRun, name: str) -> str | None:
    """The commit of the code that the numbers are of, which a resumed run may have changed."""
    code = run.deciding_start.get("code") or {"same": True}
    return (run.record.get("code") or {}).get("commit") if code.get("same") else code.get("commit")


def data_that_was_read(run: RecordedRun, name: str) -> dict[str, Any] | None:
    """The hash of the data, hashes of the splits that are not the file's own, and an order that is not
    random, and the run that made them; None: not recorded.

    A class of the user's may add anything to its fingerprint: only hashes count.
    """
    data = run.deciding_start.get("data") or {}
    rows = data.get("rows")
    facts: dict[str, Any] = {}
    if isinstance(data.get("sha256"), str):
        facts["sha256"] = data["sha256"]
    if isinstance(rows, dict) and all(isinstance(each, str) for each in rows.values()):
        facts["rows"] = rows
    if data.get("order") == "blocks":
        facts["order"] = "blocks"
    if "data_from" in run.record:
        facts["run"] = run.record["data_from"]["run"]
    return facts or None


def of_deciding_start(run: RecordedRun, name: str) -> Any:
    return run.deciding_start.get(name)


def origin_of_weights(run: RecordedRun, name: str) -> dict[str, Any] | None:
    """The weights that a run started from, in short; None when they were random."""
    starts = [attempt.start for attempt in run.attempts]
    loaded = [start["init_from"] for start in starts if "init_from" in start]
    weights = loaded[-1] if loaded else run.record.get("init_from")
    return {key: weights.get(key) for key in OF_WEIGHTS} if weights else None


def total_of(attempts: list[AttemptFiles], key: str) -> float | None:
    """The sum of `key` over attempts; None when none measured it."""
    values = measured_values(attempts, key)
    return round(sum(values), 3) if values else None


def largest_of(attempts: list[AttemptFiles], key: str) -> float | None:
    """The largest `key` of all attempts; None when none measured it."""
    return max(measured_values(attempts, key), default=None)


def measured_values(attempts: list[AttemptFiles], key: str) -> list[float]:
    """`key` of the attempts that measured it. One that never ended counts up to its last heartbeat."""
    measured = [attempt.end or attempt.until_now for attempt in attempts]
    return [figures[key] for figures in measured if figures.get(key) is not None]


@dataclass(frozen=True)
class Field:
    """One thing that is known of a run.

    Args:
        name: its key in summary.json and in a row.
        type: of its value, a form; a run whose summary.json has another one is listed as damaged.
        source: gives its value for summary.json. None: it is no part of that, and `build_row` of
            rows.py gives it.
        key: what the page of the report calls it, in a filter too; "": as its name.
        title: above its column and before its line; "": as its key.
        per: how many of its unit are one of the unit in the title; 0: it is shown as it is.
    """

    name: str
    type: Any
    source: Source | None
    shown: Shown = NOWHERE
    key: str = ""
    title: str = ""
    per: float = 0


class DataRead(TypedDict, total=False):
    """Hashes of the data, and of the samples of splits that are not the file's own."""

    sha256: str
    rows: dict[str, str]
    run: str  # that made them


class Waited(TypedDict):
    """How long the job of a run waited until it first began, and where."""

    site: str
    queue: str
    seconds: Seconds


Text = str | None
Number = int | float | None

# In the order in which they are shown everywhere. Times and energy are over all attempts, failed
# ones too.
# fmt: off
FIELDS = (
    #     name              type         source    shown            key, title, per
    Field("run_id",         str,         recorded, JSON | TABLES, "run"),  # in a row, its directory's
    Field("trial",          str,         recorded, JSON | TABLES),
    Field("status",         str,         status,   JSON | SHOW | TABLES),  # one of STATES
    Field("created",        Text,        recorded, LIST | JSON | TABLES),  # ISO 8601 with time zone
    Field("who",            Text,        recorded, LIST | TABLES),
    Field("why",            Text,        recorded, LIST | NOTEBOOK | REPORT),
    Field("parent",         Text,        recorded, NOTEBOOK | REPORT, "", "repeats"),
    Field("seed",           int | None,      recorded, CSV | NOTEBOOK),
    Field("init_from",      InitialWeights | None, origin_of_weights, NOTEBOOK),  # keys of OF_WEIGHTS
    Field("commit",         Text,        None,     NOTEBOOK | REPORT),  # of the snapshot
    Field("package_tree",   Text,        None,     NOTEBOOK),  # git's hash of src/<package>
    Field("trial_tree",     Text,        None,     NOTEBOOK),  # git's hash of the trial's directory
    Field("device",         Text,        of_last_start, LIST | NOTEBOOK | REPORT),
    Field("n_attempts",     int | None,  number_of_attempts, LIST | NOTEBOOK | SHOW | REPORT, "attempts"),
    Field("seconds",        Seconds | None, total, LIST | SHOW | TABLES, "hours", "", HOUR_S),
    Field("gpu_seconds",    Seconds | None, total, LIST | CSV | SHOW | REPORT, "gpu_hours", "GPU-hours", HOUR_S),
    Field("energy_j",       Number,      total,    SHOW | REPORT, "kwh", "kWh", KWH_J),
    Field("peak_gpu_bytes", Number,      largest,  LIST | SHOW | LINE | TABLES, "peak_gpu_gb", "peak GPU GB", GB),
    Field("run_dir",        str,         None,     JSON | CSV | NOTEBOOK | SHOW),
    Field("tags",           list[str],       None,     LIST | SHOW | REPORT),  # in the order they were added
    Field("exception",      Text,        error_line, REPORT, "error"),  # one line
    Field("changes",        list[str],   changes_of_attempts, SHOW),  # what attempts had different, a line each
    Field("metrics",        dict[str, Metric], last_values, JSON | SHOW),
    Field("settings",       dict[str, Any], last_settings),  # of the run, or of the last attempt that had others
    Field("code_commit",    Text,        commit_that_ran),
    Field("code_files",     dict[str, str] | None, files_used),
    Field("data",           DataRead | None, data_that_was_read),
    Field("tested_weights", Text,        of_deciding_start),  # see StartRecord
    Field("waited",         Waited | None, waited_in_queue),  # site, queue, seconds until its job first began
    Field("attempt_status", Text,        status_of_last_attempt),  # a run that finished before stays finished
    Field("order_unix_ms",  int | None,  recorded),  # the place among all runs, see order.py
    Field("started_unix_s", UnixTime | None, of_first_start),
    Field("attempt_unix_s", UnixTime | None, start_of_last_attempt),
    Field("ended_unix_s",   UnixTime | None, of_last_end),
    Field("renamed_from",   Text,        None),  # the recorded id, when the directory has another name
    Field("is_copied",      bool,        None),  # another directory in the list has the same recorded id
)
# fmt: on


class CodeOfSummary(TypedDict, total=False):
    """What summary.json says of the code, as far as it was recorded."""

    commit: GitHash | None
    tree: GitHash | None
    branch: Text
    dirty: bool | None
    package_tree: GitHash | None
    trial_tree: GitHash | None


# The form of summary.json: its fields, and the three that `summarise` adds.
KEYS_OF_SUMMARY: Any = {
    **{field.name: field.type for field in FIELDS if field.source},
    "status": Required[RunStatus],
    "code": CodeOfSummary,
    "config_sha256": Text,
    "schema": int,
}
typed_dict: Any = TypedDict  # with keys that are known only here
SUMMARY = typed_dict("SUMMARY", KEYS_OF_SUMMARY, total=False)


def fields_shown(place: Shown) -> list[Field]:
    """The fields that are shown in a place, in order."""
    return [field for field in FIELDS if place in field.shown]


def names_shown(place: Shown) -> list[str]:
    return [field.name for field in fields_shown(place)]
