"""What the attempts of a run have left: in attempts/<n>/, and a command in its directory."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..files.atomic import Damaged, read_advisory, read_record, read_text
from ..files.schema import EndRecord, Outputs, ProcessFacts, StartRecord

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
