"""What the attempts of a run had different: other code, other data, other settings."""

from __future__ import annotations

from ..files.code_section import library_difference, library_name
from ..files.schema import Code, RunRecord
from .attempt_files import AttemptFiles

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
