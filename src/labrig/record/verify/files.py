"""Whether the files of the record are what was written: settings, JSON files, notes, job script."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...machine.counted import counted
from ..files.atomic import (
    OBJECT,
    hash_of_file,
    plain_json,
    read_advisory,
)
from ..files.forms import problem_in
from ..files.json_lines import raw_lines
from ..files.schema import (
    Archived,
    Beginning,
    EndRecord,
    Evaluation,
    Note,
    Prediction,
    RowsOfCheckpoint,
    RunRecord,
    StartRecord,
    SummaryRecord,
)
from ..files.seal import AFTER, ENDS, KEY, LINE, is_sealed, read_ends
from ..read.attempt_files import AttemptFiles, read_attempts
from ..read.evaluations import EVALUATIONS
from ..read.fields import Summary
from ..read.run import Run
from ..read.settings import ABSENT
from ..read.status import ROWS, UNENDED, status_of
from ..read.summary import summarise
from ..write.attempt import LOGS, RESERVE

SETTINGS = ("config.yaml", "overrides.txt")
ARCHIVED = "archived.json"  # in a run from an archive: the files that the archive leaves out
# Files whose every line holds a hash, with the form of a line.
LINES: dict[str, Any] = {
    "notes.jsonl": Note,
    EVALUATIONS: Evaluation,
    "predictions.jsonl": Prediction,
    "each.jsonl": OBJECT,
}
# What the JSON files hold, by their names.
FORMS = {
    "run.json": RunRecord,
    "start.json": StartRecord,
    "end.json": EndRecord,
    "beginning.json": Beginning,
    ROWS: RowsOfCheckpoint,
    "summary.json": Summary,
    ARCHIVED: Archived,
}
# What summary.json repeats of the other files. The times of an attempt that was killed may change.
REPEATED = (
    "status",
    "metrics",
    "exception",
    "n_attempts",
    "attempt_status",
    *("run_id", "trial", "seed", "parent", "created", "who", "why", "device", "order_unix_ms"),
    *(
        "started_unix_s",
        "attempt_unix_s",
        "ended_unix_s",
        "peak_gpu_bytes",
        "config_sha256",
        "code",
    ),
)
TIMES = ("seconds", "gpu_seconds", "energy_j")


@dataclass(frozen=True)
class Part:
    """What `lab runs verify` found about one part of a run."""

    name: str  # such as "code"
    problems: list[str] = field(default_factory=list)  # what is not as recorded
    unchecked: list[str] = field(default_factory=list)  # what cannot be checked, and why


def check_settings(run: Run) -> Part:
    hashes = recorded_files(run, *SETTINGS)
    return Part("settings", file_problems(hashes), [] if hashes else ["not recorded"])


def check_record(run: Run) -> Part:
    """The JSON files and lines of a run by the hashes in them, its other files by their list."""
    part = Part("record", lost_files(run))
    without_hash = []
    for path in json_files(run):
        entries, problem = parse_strictly(path.read_bytes(), FORMS.get(path.name, OBJECT))
        if problem or entries is None:
            part.problems.append(f"{path} was changed: {problem}")
        elif is_sealed(entries) is None:
            without_hash.append(str(path.relative_to(run.dir)))
        elif not is_sealed(entries):
            part.problems.append(f"{path} was changed")
    part.problems.extend(file_problems(other_files(run)))
    part.problems.extend(summary_problems(run))
    record_has_hash = "run.json" not in without_hash
    for name in LINES:
        part.problems.extend(line_problems(run.dir / name, record_has_hash))
    if without_hash:
        names = ", ".join(without_hash)
        part.unchecked.append(f"no hash in {names}, which an older lab wrote")
    return part


def json_files(run: Run) -> list[Path]:
    """The JSON files of the record; others in the directory may be the user's."""
    of_run = [run.dir / name for name in ("run.json", "summary.json", ARCHIVED, ENDS)]
    of_attempts = sorted(run.dir.glob("attempts/*/*.json"))
    return [path for path in [*of_run, *of_attempts] if os.path.lexists(path)]


def recorded_files(run: Run, *endings: str) -> dict[Path, str]:
    """The sha256 of the files in run.json whose names end so."""
    files = run.record["files"]
    return {run.dir / name: recorded for name, recorded in files.items() if name.endswith(endings)}


def other_files(run: Run) -> dict[Path, str]:
    """The sha256 of the listed files that belong to no other part of a run."""
    files = dict(run.record["files"])
    for attempt in read_attempts(run.dir):
        files |= attempt.end.get("files", {})
    elsewhere = (*SETTINGS, *LOGS, ".bundle")
    return {
        run.dir / name: recorded
        for name, recorded in files.items()
        if "/" in name or not name.endswith(elsewhere)
    }


def file_problems(hashes: dict[Path, str]) -> list[str]:
    """The files that are missing or have another hash."""
    missing = []
    changed = []
    for path, expected in hashes.items():
        if not path.exists():
            missing.append(f"{path} is missing")
        elif path.is_symlink() or not path.is_file():
            changed.append(f"{path} was changed: something else is there in place of the file")
        elif hash_of_file(path) != expected:
            changed.append(f"{path} was changed")
    return missing + changed


def lost_files(run: Run) -> list[str]:
    """The files of attempts that are missing, although others show that they were written."""
    attempts = read_attempts(run.dir)
    ends = run.dir.glob("attempts/*/end.json")
    starts = [path.with_name("start.json") for path in sorted(ends)]
    lost = [f"{start} is missing" for start in starts if not start.exists()]
    summary: Any = read_advisory(run.dir / "summary.json", SummaryRecord) or {}
    n_attempts = summary.get("n_attempts") or 0  # when the last of them ended
    if len(attempts) < n_attempts and not lost:
        lost.append(f"{run.dir}/attempts has {len(attempts)} of {n_attempts} attempts")
    for attempt in attempts:
        lost += lost_ends(run.dir, attempt, is_last=attempt is attempts[-1])
    return lost


def lost_ends(run_dir: Path, attempt: AttemptFiles, is_last: bool) -> list[str]:
    """end.json or the summary of an attempt, where the other one shows that it ended."""
    folder = run_dir / "attempts" / str(attempt.n)
    end = folder / "end.json"
    # The next attempt moves the summary to the attempt whose end it was.
    summary = (run_dir if is_last else folder) / "summary.json"
    has_end = os.path.lexists(end)
    if has_end == os.path.lexists(summary):
        # A killed attempt leaves the reserve, which is deleted just before end.json is written.
        was_killed = any((folder / name).exists() for name in RESERVE)
        is_archived = (run_dir / ARCHIVED).exists()
        seems_lost = not (has_end or was_killed or is_archived or status_of(run_dir) in UNENDED)
        return [f"{end} and {summary} are missing"] if seems_lost and attempt.start else []
    if has_end:
        advice = f"To write it: lab runs verify --repair {run_dir.name}"
        return [f"{summary} is missing: deleted, or killed before it was written. {advice}"]
    return [f"{end} is missing"]


def summary_problems(run: Run) -> list[str]:
    """What summary.json says otherwise than the files that it sums up."""
    path = run.dir / "summary.json"
    summary = read_advisory(path, Summary)
    attempts = read_attempts(run.dir)
    if summary is None or not attempts or any(attempt.problems for attempt in attempts):
        return []
    follows = plain_json(summarise(run.record, run.dir))
    names = REPEATED + (TIMES if all(attempt.end for attempt in attempts) else ())
    differing = [
        name for name in names if name in summary and summary[name] != follows.get(name, ABSENT)
    ]
    if not differing:
        return []
    return [f"{path} does not follow from the attempts: {', '.join(differing)}"]


def line_problems(path: Path, record_has_hash: bool) -> list[str]:
    """The lines of a file that were changed, added or removed.

    Args:
        record_has_hash: False: an older lab made the run, whose lines hold no hash.
    """
    end = read_ends(path.parent).get(path.name)
    if path.is_symlink():
        return [f"{path} was changed: a link is there in place of the file"]
    if not path.exists():
        return [f"{path} is missing, which had {counted(end['n'], 'line')}"] if end else []
    rows = []
    problems = []
    for n, line in enumerate(b"\n".join(raw_lines(path)).splitlines(), start=1):
        row, problem = parse_strictly(line, LINES[path.name])
        rows.append(row)
        if problem:
            problems.append(f"{path}, line {n}: {problem}")
    earlier: set[str | None] = {None}
    for n, row in enumerate(rows, start=1):
        if row is None:
            continue
        sealed = is_sealed(row)
        if sealed is None:
            if record_has_hash:
                problems.append(f"{path}, line {n}: lab did not write it, it holds no hash")
            continue
        if not sealed:
            problems.append(f"{path}, line {n} was changed")
        elif row[KEY] in earlier:
            problems.append(f"{path}, line {n} is there twice")
        elif row.get(AFTER) not in earlier:
            problems.append(f"{path}: a line before line {n} was removed")
        earlier.add(row[KEY])
    if end is None and any(row and LINE in row for row in rows):
        problems.append(f"{path.with_name(ENDS)} is missing")
    if end and (len(rows) < end["n"] or end["last"] not in earlier):
        problems.append(f"{path}: of its {counted(end['n'], 'line')} the last ones were removed")
    return problems


def object_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For `json.loads`: an object whose keys differ.

    Raises:
        ValueError: two are the same.
    """
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} is there twice")
    return value


def parse_strictly(line: bytes, form: Any) -> tuple[dict[str, Any] | None, str | None]:
    """The object in a line, and what is wrong with the line; None for each that there is not."""
    try:
        row = json.loads(line, object_pairs_hook=object_of_pairs)
    except json.JSONDecodeError:
        return None, "a line that is no JSON"
    except (ValueError, RecursionError) as error:
        return None, str(error)
    if not isinstance(row, dict):
        return None, "a line that is no JSON object"
    return row, problem_in(row, form)
