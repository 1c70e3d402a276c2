"""What a listing needs of a run, and a cache of it, which makes it fast to list thousands.

The cache may be deleted at any time. It is a file on this machine's own disk. A row counts as long
as its run's summary.json has the same time and size; a new note or evaluation touches that file.
When the cache is missing, damaged, older or on a read-only disk, all rows are read from the runs.
Only listings write it.

The rows are written by `marshal`, as Python writes its own .pyc files: they are read in a quarter
of the time that JSON or SQLite takes. What many rows share, such as a section of their settings, is
stored once, and is one object again when it is read.
"""

from __future__ import annotations

import marshal
import os
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..files.atomic import FORMAT
from ..files.schema import Row, RunRecord
from .attempt_files import read_attempts
from .fields import FIELDS, FIELDS_HASH, Field, RecordedRun
from .status import may_run_again

OF_CODE = ("commit", "tree", "branch", "dirty", "package_tree", "trial_tree")


def header_of(fields: Sequence[Field]) -> bytes:
    """How a cache of rows with these fields begins; one that begins otherwise is thrown away."""
    names_and_types = repr([(field.name, field.type) for field in fields])
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"lab rows {zlib.crc32(names_and_types.encode()):08x}, Python {python}\n".encode()


HEADER = header_of(FIELDS)
CHECKSUM_BYTES = 4
OFTEN_EQUAL = ("code_files", "data")  # between runs

Entries = dict[str, tuple[str | None, Row]]  # stamp of summary.json and row, by directory


def read_through_cache(
    runs: Path, directories: list[str], read_row: Callable[[str], Row]
) -> list[Row]:
    """The row of every directory, in any order.

    It comes from the cache where its run has not changed, else from `read_row`.
    """
    stored = load_entries(runs)
    entries: Entries = {}
    for directory in directories:
        stamp = file_stamp(f"{directory}/summary.json")
        entry = stored.get(directory)
        if entry is None or entry[0] != stamp:
            entry = (stamp, read_row(directory))
        entries[directory] = entry
    lasting = [
        directory
        for directory, (stamp, row) in entries.items()
        if stamp and not may_run_again(Path(directory), row)
    ]
    if {directory: entries[directory] for directory in lasting} != stored:
        entries = shared(entries)  # which also makes the rest of a first listing fast
        store_entries(runs, {directory: entries[directory] for directory in lasting})
    return [row for _, row in entries.values()]


def load_entries(runs: Path) -> Entries:
    """What the cache holds; nothing when it cannot be read."""
    try:
        return load_marshalled(cache_file(runs), HEADER) or {}
    except OSError:
        return {}


def load_marshalled(file: Path, header: bytes) -> Any:
    """What `store_marshalled` wrote; None when the file is damaged, or begins otherwise.

    Raises:
        OSError: it cannot be read.
    """
    content = file.read_bytes()
    head, body = content[: len(header)], content[len(header) + CHECKSUM_BYTES :]
    if head != header or content[len(header) :][:CHECKSUM_BYTES] != checksum(body):
        return None
    return marshal.loads(body)


def shared(entries: Entries) -> Entries:
    """Copies of the entries in which equal parts are one object."""
    sharing = Sharing()
    return {sharing.text(path): (stamp, sharing.row(row)) for path, (stamp, row) in entries.items()}


def store_entries(runs: Path, entries: Entries) -> None:
    """Writes the cache again; a listing at the same time reads the old one or the new one."""
    with suppress(OSError):  # the next listing tries again
        store_marshalled(cache_file(runs), HEADER, entries)


def store_marshalled(file: Path, header: bytes, content: Any) -> None:
    """Writes plain data; who reads the file at the same time gets the old or the new.

    Raises:
        OSError: it cannot be written.
    """
    body = marshal.dumps(content)
    temporary = file.with_suffix(f".{os.getpid()}")
    temporary.write_bytes(header + checksum(body) + body)
    temporary.replace(file)


class Sharing:
    """Copies rows so that equal parts of them are one object."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.sections: dict[bytes, Any] = {}  # by content
        self.settings: dict[tuple[int, ...], dict[str, Any]] = {}  # by the identity of sections

    def text(self, text: str) -> str:
        return self.texts.setdefault(text, text)

    def row(self, row: Row) -> Row:
        copied: Any = {self.text(key): value for key, value in row.items()}
        for key, value in copied.items():
            if isinstance(value, str):
                copied[key] = self.text(value)
        copied["metrics"] = {self.text(name): value for name, value in row["metrics"].items()}
        copied["settings"] = self.settings_of(row)
        for key in OFTEN_EQUAL:
            copied[key] = self.section(row[key])
        return copied

    def settings_of(self, row: Row) -> dict[str, Any]:
        sections = {self.text(key): self.section(part) for key, part in row["settings"].items()}
        identity = tuple(map(id, (*sections, *sections.values())))
        return self.settings.setdefault(identity, sections)

    def section(self, content: Any) -> Any:
        return self.sections.setdefault(marshal.dumps(content, 2), content)


def checksum(content: bytes) -> bytes:
    """Guards against a file that was cut or damaged, not against an enemy."""
    return zlib.crc32(content).to_bytes(CHECKSUM_BYTES, "big")


def cache_file(runs: Path) -> Path:
    """Where the rows of a root of runs are kept.

    Raises:
        OSError: see `cache_folder`.
    """
    return cache_folder() / f"{zlib.crc32(os.fsencode(runs.resolve())):08x}.rows"


def cache_folder() -> Path:
    """A directory on the local disk that only this user can write."""
    folder = Path(tempfile.gettempdir()) / f"lab-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or stat.S_ISLNK(status.st_mode) or status.st_mode & 0o022:
        raise PermissionError(f"{folder} can be written by somebody else")
    return folder


def outdate_row(run_dir: Path) -> None:
    """Has the cache read a run again, of which more is known now than summary.json says."""
    with suppress(FileNotFoundError):
        os.utime(run_dir / "summary.json")


def file_stamp(path: str) -> str | None:
    """What changes when a file changes: its time and size; None when it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return f"{status.st_mtime_ns} {status.st_size}"


def summarise(record: RunRecord, run_dir: Path) -> dict[str, Any]:
    """The summary of a run on which nobody works."""
    run = RecordedRun(record, run_dir, read_attempts(run_dir))
    code: dict[str, Any] = dict(record.get("code") or {})
    return {
        "format": FORMAT,
        "fields": FIELDS_HASH,
        **{field.name: field.source(run, field.name) for field in FIELDS if field.source},
        "code": {key: code.get(key) for key in OF_CODE},
        "config_sha256": record.get("config_sha256"),
    }
