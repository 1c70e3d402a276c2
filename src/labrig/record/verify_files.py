"""Whether the files of the record are what was written: settings, JSON files, notes, job script."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .atomic import read_json, sha256
from .attempt import LOGS
from .attempt_files import read_attempts
from .json_lines import read_lines
from .run import Run
from .seal import AFTER, KEY, is_sealed

SETTINGS = ("config.yaml", "overrides.txt")
ARCHIVED = "archived.json"  # in a run from an archive: the files that the archive leaves out
# files whose every line holds a hash
LINES = ("notes.jsonl", "evaluations.jsonl", "predictions.jsonl", "each.jsonl")


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
        entries = read_json(path)
        if entries is None:
            part.problems.append(f"{path} cannot be read")
        elif is_sealed(entries) is None:
            without_hash.append(str(path.relative_to(run.dir)))
        elif not is_sealed(entries):
            part.problems.append(f"{path} was changed")
    part.problems.extend(file_problems(other_files(run)))
    record_has_hash = "run.json" not in without_hash
    for name in LINES:
        part.problems.extend(line_problems(run.dir / name, record_has_hash))
    if without_hash:
        names = ", ".join(without_hash)
        part.unchecked.append(f"no hash in {names}, which an older lab wrote")
    return part


def json_files(run: Run) -> list[Path]:
    """The JSON files of the record; others in the directory may be the user's."""
    of_run = [run.dir / "run.json", run.dir / "summary.json", run.dir / ARCHIVED]
    of_attempts = sorted(run.dir.glob("attempts/*/*.json"))
    return [path for path in [*of_run, *of_attempts] if path.exists()]


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
        elif sha256(path) != expected:
            changed.append(f"{path} was changed")
    return missing + changed


def lost_files(run: Run) -> list[str]:
    """The files of attempts that are missing, although others show that they were written."""
    attempts = read_attempts(run.dir)
    ends = run.dir.glob("attempts/*/end.json")
    starts = [path.with_name("start.json") for path in sorted(ends)]
    lost = [f"{start} is missing" for start in starts if not start.exists()]
    summary = read_json(run.dir / "summary.json") or {}
    n_attempts = summary.get("n_attempts") or 0  # when the last of them ended
    if len(attempts) < n_attempts and not lost:
        lost.append(f"{run.dir}/attempts has {len(attempts)} of {n_attempts} attempts")
    of_summary = attempts[:n_attempts]
    if of_summary and not of_summary[-1].end:
        lost.append(f"{run.dir}/attempts/{of_summary[-1].n}/end.json is missing")
    return lost


def line_problems(path: Path, record_has_hash: bool) -> list[str]:
    """The lines of a file that were changed, added or removed.

    Args:
        record_has_hash: False: an older lab made the run, whose lines hold no hash.
    """
    if not path.exists():
        return []
    rows = read_lines(path)
    problems = []
    if len(rows) != len(path.read_bytes().splitlines()):
        problems.append(f"{path} has a line that is no JSON")
    earlier = {None}
    for n, row in enumerate(rows, start=1):
        sealed = is_sealed(row)
        if sealed is None:
            if record_has_hash:
                problems.append(f"{path}, line {n}: lab did not write it, it holds no hash")
            continue
        if not sealed:
            problems.append(f"{path}, line {n} was changed")
        elif row.get(AFTER) not in earlier:
            problems.append(f"{path}: a line before line {n} was removed")
        earlier.add(row[KEY])
    return problems
