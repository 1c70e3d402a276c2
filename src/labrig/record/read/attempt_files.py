"""What the attempts of a run have left, and a command in its directory; what they had different."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..files.atomic import Damaged, read_advisory, read_record, read_text
from ..files.code_section import library_difference, library_name
from ..files.schema import Code, EndRecord, Outputs, ProcessFacts, RunRecord, StartRecord

PROGRAM = "program.json"  # of an attempt of a script


@dataclass(frozen=True)
class AttemptFiles:
    """The files of one attempt; what is missing is empty."""

    n: int
    start: StartRecord
    end: EndRecord
    nodes: list[dict[str, Any]]
    until_now: dict[str, float]  # seconds and gpu_seconds up to the last heartbeat, without an end
    problems: tuple[str, ...] = ()  # files that are there and count as missing, and why


def read_attempts(run_dir: Path) -> list[AttemptFiles]:
    """Every attempt of a run, in order."""
    return [read_attempt(run_dir, n) for n in attempt_numbers(run_dir)]


def last_attempt(run_dir: Path) -> AttemptFiles | None:
    """The newest attempt of a run; None when it never began."""
    numbers = attempt_numbers(run_dir)
    return read_attempt(run_dir, numbers[-1]) if numbers else None


def attempt_numbers(run_dir: Path) -> list[int]:
    """The numbers of the attempts that began; one that is only claimed has no start.json yet."""
    names = [path.parent.name for path in (run_dir / "attempts").glob("*/start.json")]
    return sorted(int(name) for name in names if name.isdigit())


def further_nodes(attempt_dir: Path) -> list[Any]:
    """What each node but the first has written of itself, in their order."""
    files = sorted(attempt_dir.glob("node-*.json"), key=lambda file: (len(file.name), file.name))
    return [facts for file in files if (facts := read_advisory(file, ProcessFacts))]


def read_attempt(run_dir: Path, n: int) -> AttemptFiles:
    folder = run_dir / "attempts" / str(n)
    problems: list[str] = []
    start: StartRecord = read_or_note(folder / "start.json", StartRecord, problems)
    end: EndRecord = read_or_note(folder / "end.json", EndRecord, problems)
    until_now = {}
    if start and not end and (folder / "heartbeat").exists():
        seconds = seconds_until_now(folder)
        until_now = {"seconds": seconds, "gpu_seconds": seconds * n_gpus(start)}
    return AttemptFiles(n, start, end, further_nodes(folder), until_now, tuple(problems))


def program_report(run_dir: Path, n: int) -> dict[str, Any]:
    """What the first process of a script has written: its words, `parsed`, its end. {} without one."""
    return read_advisory(run_dir / "attempts" / str(n) / PROGRAM) or {}


def read_or_note(path: Path, form: Any, problems: list[str]) -> Any:
    """A file of an attempt; empty when it is missing, or damaged, which is noted."""
    try:
        return read_record(path, form) or {}
    except Damaged as problem:
        problems.append(f"{path} is damaged: {problem}")
        return {}


def seconds_until_now(folder: Path) -> float:
    """How long an attempt without an end has run, up to its last heartbeat.

    The heartbeat says it by a clock that never jumps.
    """
    try:
        return min(max(0.0, float(read_text(folder / "heartbeat"))), time.time())
    except (OSError, ValueError):
        return 0.0


def n_gpus(start: Mapping[str, Any]) -> int:
    """How many GPUs an attempt uses, over all its nodes."""
    if start.get("accelerator") in ("gpu", "cuda"):
        return start.get("world_size", 1)
    return 0


WORK = "work"  # in the directory of a run: where its command runs
MAX_LISTED = 1000  # files; of more only number and size are recorded
MAX_SHOWN = 10


def outputs_of(attempts: list[AttemptFiles]) -> Outputs | None:
    """What lay there when the last attempt ended; None of a run that is no command."""
    listed = [attempt.end["outputs"] for attempt in attempts if "outputs" in attempt.end]
    return listed[-1] if listed else None


def describe_outputs(run_dir: Path) -> list[str]:
    """A line for each file, the newest list; a last line for those that are not named."""
    outputs = outputs_of(read_attempts(run_dir))
    if outputs is None:
        return []
    if not outputs["n"]:
        return [f"nothing into {WORK}/"]
    shown = list(outputs["files"].items())[:MAX_SHOWN]
    lines = [f"{path}, {file['bytes']:,} bytes" for path, file in shown]
    n_more = outputs["n"] - len(shown)
    if n_more:
        lines.append(f"and {n_more} more in {WORK}/, {outputs['bytes']:,} bytes in all")
    return lines


NO_RESULT = "job."  # settings that change no number begin so
HASH_CHARACTERS = 12  # of a commit or a hash, in a line


def list_changes(record: RunRecord, attempts: list[AttemptFiles]) -> list[str]:
    """Why the numbers of a run do not come from one code, data file and configuration.

    Returns:
        A line each, such as "2 codes; attempt 2 has c92b74fd4dd3"; empty when they do.
    """
    lines = []
    codes = other_codes(record.get("code") or {}, attempts)
    if codes:
        lines.append(format_others("codes", codes))
    data = other_data(attempts)
    if data:
        lines.append(format_others("data files", data))
    for attempt in attempts:
        overrides = attempt.start.get("overrides", [])
        changing = [word for word in overrides if not word.startswith(NO_RESULT)]
        if changing:
            lines.append(f"attempt {attempt.n} has {' '.join(changing)}")
    return lines


def other_codes(recorded: Code, attempts: list[AttemptFiles]) -> dict[int, str]:
    """The commits of the attempts that ran other files than those in run.json, by attempt."""
    others = {}
    for attempt in attempts:
        code = attempt.start.get("code") or {"same": True}
        if code.get("same"):
            continue
        if not code.get("commit"):
            others[attempt.n] = "code that was not recorded"
        elif code.get("tree") != recorded.get("tree"):
            others[attempt.n] = code["commit"][:HASH_CHARACTERS]
        elif library_difference(recorded, code):
            others[attempt.n] = library_name(code)
    return others


def other_data(attempts: list[AttemptFiles]) -> dict[int, str]:
    """The hashes of the data of the attempts that read other data than the first, by attempt."""
    hashes = {}
    for attempt in attempts:
        fingerprint = attempt.start.get("data") or {}
        if "sha256" in fingerprint:
            hashes[attempt.n] = fingerprint["sha256"][:HASH_CHARACTERS]
    first = hashes[min(hashes)] if hashes else None
    return {n: data_hash for n, data_hash in hashes.items() if data_hash != first}


def format_others(name: str, others: dict[int, str]) -> str:
    """One line: how many there are with the first, and which attempt has which."""
    n_values = len(set(others.values())) + 1
    which = ", ".join(f"attempt {n} has {value}" for n, value in others.items())
    return f"{n_values} {name}; {which}"
