"""The fields of a run: what each is called, where it comes from, and where it is shown.

`Summary` is the one list of them; everything that shows runs reads it.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Flag, auto
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TypedDict, get_args, get_type_hints

from msgspec import Meta, Struct

from ...machine.text_formats import GB, HOUR_S, KWH_J
from ..files.forms import GitHash, Int, Metric, Seconds, UnixTime
from ..files.metrics_file import last_metrics
from ..files.schema import EndRecord, InitialWeights, RunRecord, RunStatus, StartRecord
from .attempt_files import AttemptFiles, list_changes, program_report
from .settings import recorded_settings
from .status import deciding_attempt, status_at_end

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


def seconds_by_gpu(run: RecordedRun, name: str) -> dict[str, float]:
    """GPU-seconds by the name of the GPU, which attempts may have had others of."""
    by_gpu: dict[str, float] = {}
    for attempt in run.attempts:
        device = attempt.start.get("device") or ""
        by_gpu[device] = by_gpu.get(device, 0.0) + (total_of([attempt], "gpu_seconds") or 0)
    return {device: round(seconds, 3) for device, seconds in by_gpu.items() if seconds}


def seconds_without_energy(run: RecordedRun, name: str) -> float:
    """GPU-seconds of the attempts that did not measure their energy, such as one that was killed."""
    unmeasured = [each for each in run.attempts if not measured_values([each], "energy_j")]
    return total_of(unmeasured, "gpu_seconds") or 0.0


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


def parsed_by_script(run: RecordedRun, name: str) -> dict[str, Any]:
    """What its parser made of the words, without the path of the run and addresses: they always differ."""
    parsed = program_report(run.run_dir, run.deciding.n).get("parsed") if run.deciding else None
    text = json.dumps(parsed if isinstance(parsed, dict) else {})
    alike = re.sub(rf'[^"]*{re.escape(run.record["run_id"])}| at 0x[0-9a-f]+', "", text)
    return {key.replace(".", "_"): value for key, value in json.loads(alike).items()}


def waited_in_queue(run: RecordedRun, name: str) -> dict[str, Any] | None:
    """How long the job of a run waited until it first began, and where.

    None when it has not begun. The clocks of two machines are compared, so
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

    Where attempts had other contents of a file it has several, in order. None: not noted.
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


def resolved_of_deciding_start(run: RecordedRun, name: str) -> dict[str, Any]:
    """What the settings became on the machine, as far as it changes numbers whatever was typed."""
    start: Any = run.deciding_start
    found = {key: start[key] for key in ("samples_per_step", "precision") if start.get(key)}
    if "samples_per_step" not in found and start.get("world_size", 1) > 1:
        found["world_size"] = start["world_size"]
    return found


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
    """One thing that is known of a run, as `Summary` describes it.

    Args:
        name: its key in summary.json and in a row.
        type: of its value.
        source: gives its value for summary.json. None: it is no part of that, and `build_row` of
            rows.py gives it.
        key: what the page of the report calls it, in a filter too.
        title: above its column and before its line.
        per: how many of its unit are one of the unit in the title; 0: it is shown as it is.
    """

    name: str
    type: Any
    source: Source | None
    shown: Shown
    key: str
    title: str
    per: float


def of(
    source: Source | None,
    shown: Shown = NOWHERE,
    *,
    key: str = "",
    title: str = "",
    per: float = 0,
) -> Meta:
    """Where a field of `Summary` comes from, and how it is shown: see `Field`.

    Args:
        key: "": as its name.
        title: "": as its key.
    """
    about = {"source": source, "shown": shown, "key": key, "title": title, "per": per}
    return Meta(extra=about)


class DataRead(TypedDict, total=False):
    """Hashes of the data, and of the samples of splits that are not the file's own."""

    sha256: str
    rows: dict[str, str]
    order: str
    run: str  # that made them


class Waited(TypedDict):
    """How long the job of a run waited until it first began, and where."""

    site: str
    queue: str
    seconds: Seconds


class CodeOfSummary(TypedDict, total=False):
    """What summary.json says of the code, as far as it was recorded."""

    commit: GitHash | None
    tree: GitHash | None
    branch: str | None
    dirty: bool | None
    package_tree: GitHash | None
    trial_tree: GitHash | None


Text = str | None
Number = Int | float | None


class Summary(Struct, kw_only=True):
    """summary.json and a row of a list: each field with its type, its source and where it is shown.

    A line more is a field in summary.json, in the rows and their cache, and wherever the line says.
    They stand in the order in which they are shown everywhere. Times and energy are over all
    attempts, failed ones too.
    """

    # fmt: off
    run_id: Annotated[Text, of(recorded, JSON | TABLES, key="run")] = None  # in a row, its directory's
    trial: Annotated[Text, of(recorded, JSON | TABLES)] = None
    status: Annotated[RunStatus, of(status, JSON | SHOW | TABLES)]
    created: Annotated[Text, of(recorded, LIST | JSON | TABLES)] = None  # ISO 8601 with time zone
    who: Annotated[Text, of(recorded, LIST | TABLES)] = None
    why: Annotated[Text, of(recorded, LIST | NOTEBOOK | REPORT)] = None
    parent: Annotated[Text, of(recorded, NOTEBOOK | REPORT, title="repeats")] = None
    is_check: Annotated[bool | None, of(recorded, JSON | NOTEBOOK)] = None  # its numbers count nowhere
    seed: Annotated[Int | None, of(recorded, CSV | NOTEBOOK)] = None
    init_from: Annotated[InitialWeights | None, of(origin_of_weights, NOTEBOOK)] = None  # keys of OF_WEIGHTS
    commit: Annotated[Text, of(None, NOTEBOOK | REPORT)] = None  # of the snapshot
    package_tree: Annotated[Text, of(None, NOTEBOOK)] = None  # git's hash of src/<package>
    trial_tree: Annotated[Text, of(None, NOTEBOOK)] = None  # git's hash of the trial's directory
    device: Annotated[Text, of(of_last_start, LIST | NOTEBOOK | REPORT)] = None
    n_attempts: Annotated[Int | None, of(number_of_attempts, LIST | NOTEBOOK | SHOW | REPORT, key="attempts")] = None
    seconds: Annotated[Seconds | None, of(total, LIST | SHOW | TABLES, key="hours", per=HOUR_S)] = None
    gpu_seconds: Annotated[
        Seconds | None, of(total, LIST | CSV | SHOW | REPORT, key="gpu_hours", title="GPU-hours", per=HOUR_S)
    ] = None
    energy_j: Annotated[Number, of(total, SHOW | REPORT, key="kwh", title="kWh", per=KWH_J)] = None
    gpu_seconds_by: Annotated[dict[str, Seconds], of(seconds_by_gpu)] = {}  # the name of the GPU
    gpu_seconds_unmeasured: Annotated[Seconds, of(seconds_without_energy)] = 0.0  # that energy_j leaves out
    peak_gpu_bytes: Annotated[
        Number, of(largest, LIST | SHOW | LINE | TABLES, key="peak_gpu_gb", title="peak GPU GB", per=GB)
    ] = None
    run_dir: Annotated[Text, of(None, JSON | CSV | NOTEBOOK | SHOW)] = None
    tags: Annotated[list[str], of(None, LIST | SHOW | REPORT)] = []  # in the order they were added
    pruned: Annotated[Text, of(None, LIST | LINE)] = None  # how much room prune has made
    size: Annotated[Text, of(None, LIST)] = None  # of its files, as text; only when it is asked for
    size_bytes: Annotated[Int | None, of(of_last_end)] = None  # at its end, see size_of_row
    exception: Annotated[Text, of(error_line, REPORT, key="error")] = None  # one line
    changes: Annotated[list[str], of(changes_of_attempts, SHOW)] = []  # what attempts had different, a line each
    metrics: Annotated[dict[str, Metric], of(last_values, JSON | SHOW)] = {}
    settings: Annotated[dict[str, Any], of(last_settings)] = {}  # of the run, or of the last attempt that had others
    parsed: Annotated[dict[str, Any], of(parsed_by_script)] = {}  # by a script
    code_commit: Annotated[Text, of(commit_that_ran)] = None
    code_files: Annotated[dict[str, str] | None, of(files_used)] = None
    data: Annotated[DataRead | None, of(data_that_was_read)] = None
    tested_weights: Annotated[Text, of(of_deciding_start)] = None  # see StartRecord
    resolved: Annotated[dict[str, Any] | None, of(resolved_of_deciding_start)] = None
    waited: Annotated[Waited | None, of(waited_in_queue)] = None  # until its job first began
    attempt_status: Annotated[Text, of(status_of_last_attempt)] = None  # a run that finished before stays finished
    order_unix_ms: Annotated[Int | None, of(recorded)] = None  # the place among all runs, see order.py
    started_unix_s: Annotated[UnixTime | None, of(of_first_start)] = None
    attempt_unix_s: Annotated[UnixTime | None, of(start_of_last_attempt)] = None
    ended_unix_s: Annotated[UnixTime | None, of(of_last_end)] = None
    renamed_from: Annotated[Text, of(None)] = None  # the recorded id, when the directory has another name
    is_copied: Annotated[bool | None, of(None)] = None  # another directory in the list has the same recorded id
    # fmt: on
    code: CodeOfSummary | None = None
    config_sha256: str | None = None
    fields: str | None = None  # what summary.json was made by, see FIELDS_HASH
    format: int


def fields_of(struct: type[Struct]) -> Iterator[Field]:
    """The fields of a struct that `of` describes."""
    for name, hint in get_type_hints(struct, include_extras=True).items():
        for rule in getattr(hint, "__metadata__", ()):
            if isinstance(rule, Meta) and rule.extra:
                about = {**rule.extra}
                about["key"] = about["key"] or name
                about["title"] = about["title"] or about["key"]
                yield Field(name, get_args(hint)[0], **about)


FIELDS = tuple(fields_of(Summary))
# Of a summary with other fields, what is missing is read from the attempts.
FIELDS_HASH = f"{zlib.crc32(' '.join(field.name for field in FIELDS if field.source).encode()):08x}"


def fields_shown(place: Shown) -> list[Field]:
    """The fields that are shown in a place, in order."""
    return [field for field in FIELDS if place in field.shown]


def names_shown(place: Shown) -> list[str]:
    return [field.name for field in fields_shown(place)]
