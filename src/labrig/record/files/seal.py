"""Seals: a JSON object of the record holds its own hash, so that `lab runs verify` notices an edit.

They find accidents and careless edits. Whoever computes a hash again after an edit is not found. The
hash lies in the file itself, so a process that is killed at any moment leaves no file without it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from .atomic import plain_json, read_advisory, write_plain_json
from .json_lines import JsonLines, read_lines

KEY = "sha256"  # of all other entries of the object
AFTER = "after"  # in a file of lines: the hash of the line before, so that a removed line shows
LINE = "line"  # which line it is, counted from 1
# Next to files of lines: how many each has, and the hash of the last, so that a cut one shows.
ENDS = "lines.json"


def write_sealed(path: Path, value: Any) -> Any:
    """Writes a JSON object with its hash; returns the object that the file says."""
    sealed = seal(value)
    write_plain_json(path, sealed)
    return sealed


class EndOfLines(TypedDict):
    """How a file of lines ended when `lab` last wrote to it."""

    n: int
    last: str  # the hash of the last line


def append_sealed(path: Path, entry: Mapping[str, Any]) -> None:
    """Adds a line with its hash and that of the line before it to a file of JSON objects."""
    rows = read_lines(path)
    last_hash = rows[-1].get(KEY) if rows else None
    lines = JsonLines(path)
    n = len(rows) + 1
    line = seal({**entry, AFTER: last_hash, LINE: n})
    try:
        lines.add(line)
    finally:
        lines.close()
    note_end(path, n, line[KEY])


def note_end(path: Path, n: int, last_hash: str) -> None:
    """Notes how many lines a file has. Of two processes that do this at once, one may be forgotten."""
    ends = read_ends(path.parent)
    if path.name not in ends or ends[path.name]["n"] < n:
        ends[path.name] = {"n": n, "last": last_hash}
        write_sealed(path.with_name(ENDS), ends)


def read_ends(folder: Path) -> dict[str, EndOfLines]:
    """How the files of lines in a directory ended, by their names; of an older record nothing."""
    ends = read_advisory(folder / ENDS, dict[str, EndOfLines | str]) or {}
    ends.pop(KEY, None)
    return ends


def seal(value: Any) -> dict[str, Any]:
    """The object in JSON's types, with its hash in place of an earlier one."""
    entries = plain_json(value)
    entries.pop(KEY, None)
    return entries | {KEY: hash_entries(entries)}


def is_sealed(entries: Mapping[str, Any]) -> bool | None:
    """Whether an object has the hash that it holds; None when it holds none."""
    if KEY not in entries:
        return None
    others = {name: entry for name, entry in entries.items() if name != KEY}
    return entries[KEY] == hash_entries(others)


def hash_entries(entries: Mapping[str, Any]) -> str:
    """The sha256 of an object, whatever the order of its keys and the spaces in its file."""
    import hashlib  # OpenSSL takes 5 ms, and lists hash nothing

    return hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()
