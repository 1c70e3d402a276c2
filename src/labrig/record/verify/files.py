"""Whether the files of the record are what was written, and their directory the recorded one, no copy."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..files.atomic import (
    OBJECT,
    Damaged,
    hash_of_file,
    parse_json,
    plain_json,
    read_advisory,
    read_record,
)
from ..files.forms import problem_in
from ..files.json_lines import raw_lines
from ..files.manifest import MANIFEST, Version, read_manifest
from ..files.schema import (
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
from ..read.attempt_files import AttemptFiles, read_attempts
from ..read.evaluations import EVALUATIONS
from ..read.fields import Summary
from ..read.row_cache import summarise
from ..read.rows import run_directories
from ..read.run import Run
from ..read.settings import ABSENT
from ..read.status import ROWS, UNENDED, status_of
from ..write.attempt import LOGS, RESERVE

SETTINGS = ("config.yaml", "overrides.txt")
USED = "used-"  # what nodes note of a job as it goes on, which makes no number
ARCHIVED = "archived.json"  # in a run from an archive: the files that the archive leaves out
# Files to which commands append lines, with the form of a line.
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
    return Part("settings", *listed_problems(run, SETTINGS))


def check_record(run: Run) -> Part:
    """The files that the manifest lists and no other part of a run looks at."""
    listed = [name for name in read_manifest(run.dir) if not is_of_other_part(name)]
    part = Part("record", *listed_problems(run, listed))
    part.problems.extend(lost_files(run))
    for path in record_files(run):
        name = str(path.relative_to(run.dir))
        if name not in listed:
            part.problems.append(f"{path} is not in the manifest: lab did not write it")
        elif problem := form_of_file_problem(path):
            part.problems.append(f"{path} was changed: {problem}")
    part.problems.extend(summary_problems(run))
    return part


def is_of_other_part(name: str) -> bool:
    """Whether a file is looked at with the settings, the code or the metrics."""
    return name in (*SETTINGS, *LOGS) or name.endswith(".bundle")


def record_files(run: Run) -> list[Path]:
    """The files that only `lab` writes; others in the directory may be the user's."""
    of_run = [run.dir / name for name in ("run.json", "summary.json", *LINES)]
    of_attempts = sorted(run.dir.glob("attempts/*/*.json"))
    noted = [path for path in of_attempts if not path.name.startswith(USED)]
    return [path for path in [*of_run, *noted] if os.path.lexists(path)]


def form_of_file_problem(path: Path) -> str | None:
    """What is wrong with a file of the record, whatever its hash says."""
    if path.name in LINES:
        lines = [line for line in raw_lines(path) if line]
        problems = [line_problem(line, LINES[path.name]) for line in lines]
        found = [f"line {n}: {each}" for n, each in enumerate(problems, start=1) if each]
        return found[0] if found else None
    try:
        read_record(path, FORMS.get(path.name, OBJECT))
    except Damaged as problem:
        return str(problem)
    return None


def line_problem(line: bytes, form: Any) -> str | None:
    try:
        return problem_in(parse_json(line), form)
    except Damaged as problem:
        return str(problem)


def listed_problems(run: Run, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """What is not as the manifest lists it, and what nobody can tell."""
    versions = read_manifest(run.dir)
    if not versions:
        return [f"{run.dir / MANIFEST} is missing"], []
    last = list(versions)[-1]
    missing: list[str] = []
    changed: list[str] = []
    unchecked: list[str] = []
    for name in names:
        listed = versions.get(name, [])
        path = run.dir / name
        if not listed:
            unchecked.append(f"{name} is not in the manifest")
        elif listed[-1].sha256 is None:
            continue
        elif not os.path.lexists(path):
            if name == last and path.suffix == ".json" and before(listed) is None:
                unchecked.append(f"{name} is not there: its write was killed, or it was deleted")
            else:
                missing.append(f"{path} is missing")
        elif path.is_symlink():
            changed.append(f"{path} was changed: a link is there in place of the file")
        elif not path.is_file():
            changed.append(f"{path} was changed: something else is there in place of the file")
        elif (found := hash_of_file(path)) != listed[-1].sha256:
            if found == before(listed) and name == last and path.suffix == ".json":
                unchecked.append(f"{name} is as it was before its last write, which was killed")
            elif found in [each.sha256 for each in listed]:
                changed.append(f"{path} was changed: it is as it was before its last write")
            else:
                changed.append(f"{path} was changed")
    return missing + changed, unchecked


def before(listed: list[Version]) -> str | None:
    """The hash of a file before its last line; None where there was no file."""
    return listed[-2].sha256 if len(listed) > 1 else None


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


def identity_problems(run: Run, roots: Sequence[Path]) -> list[str]:
    """Says, a line each, that the directory of a run was renamed, or that a root has a copy."""
    here = run.dir.resolve()
    paths = [Path(directory) for directory in run_directories(*roots)]
    others = [path for path in paths if path.name == run.id and path.resolve() != here]
    if run.dir.name == run.id:
        return [f"one of two is a copy; the other is {other}" for other in others]
    if others:
        return [f"this directory is a copy of {others[0]}"]
    return [
        f"the directory was renamed; it was {run.id}",
        f"type: mv {run.dir} {run.dir.with_name(run.id)}",
    ]
