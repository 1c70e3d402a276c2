"""Installed files that were edited: `record.package_files=true` compares them with RECORD."""

from __future__ import annotations

import base64
import csv
import hashlib
from importlib.metadata import Distribution
from pathlib import Path

MAX_NAMES = 3  # files that a line of env.txt names


def edited_state(distribution: Distribution) -> str:
    """` (edited a.py, b.py: 1a2b3c4d)` with a hash of the edits, or an empty string.

    A package without RECORD cannot be checked.
    """
    record = distribution.read_text("RECORD")
    if not record:
        return ""
    edited = edited_files(Path(str(distribution.locate_file(""))), record)
    if not edited:
        return ""
    digest = hashlib.sha256("\n".join(edited).encode()).hexdigest()[:8]
    names = [line.partition(" ")[2] for line in edited]
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f" (edited {', '.join(names[:MAX_NAMES])}{more}: {digest})"


def edited_files(directory: Path, record: str) -> list[str]:
    """`HASH NAME` for every file of `directory` that has another hash than its RECORD says.

    Commands lie elsewhere and hold the path of the environment, so they are not compared.
    """
    edited = []
    for name, recorded, *_ in csv.reader(record.splitlines()):
        algorithm, _, expected = recorded.partition("=")
        if algorithm != "sha256" or name.startswith(("..", "/")):
            continue
        actual = file_hash(directory / name)
        if actual != expected:
            edited.append(f"{actual} {name}")
    return edited


def file_hash(path: Path) -> str:
    """The sha256 of a file as RECORD writes it, or `missing`."""
    try:
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return "missing"
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
