# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""A cache of rows, which makes it fast to list thousands of runs. It may be deleted at any time.

It is a SQLite file on this machine's own disk. A row counts as long as its run's summary.json has
the same time and size; a new note touches that file. When the cache is missing, broken, older,
locked or on a read-only disk, all rows are read from the runs. Only listings write it.

Most runs share most of their settings. So each section of settings (optimizer, data, ...) is stored
once for all runs that have it, and rows hold its number.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .schema import Row

if TYPE_CHECKING:
    import sqlite3

FORMAT = 2  # of the rows in the cache; an older cache is thrown away
LOCK_TIMEOUT_S = 1
NOT_STORED = ("queued", "running")  # these rows change while summary.json does not
TABLES = {
    "rows": "path TEXT PRIMARY KEY, stamp TEXT, row TEXT, sections TEXT",
    "sections": "number INTEGER PRIMARY KEY, json TEXT UNIQUE",
}


class Entry(NamedTuple):
    """One run in the cache."""

    directory: str
    stamp: str  # of summary.json
    row_json: str  # without the settings
    sections: str  # the numbers of their sections, separated by spaces


NO_ENTRY = Entry("", "", "", "")


def read_through_cache(
    runs: Path, directories: list[str], read_row: Callable[[str], Row]
) -> list[Row]:
    """The row of every directory, in any order.

    It comes from the cache where its run has not changed, else from `read_row`.
    """
    cache = RowCache(runs)
    entries, sections = cache.load()
    unchanged = []
    changed = {}  # stamps by directory
    for directory in directories:
        stamp = file_stamp(f"{directory}/summary.json")
        entry = entries.pop(directory, NO_ENTRY)
        if stamp and stamp == entry.stamp:
            unchanged.append(entry)
        else:
            changed[directory] = stamp
    try:
        rows = rows_of_entries(unchanged, sections)
    except (ValueError, KeyError):
        cache.delete()
        return [read_row(directory) for directory in directories]

    to_store = []
    for directory, stamp in changed.items():
        row = read_row(directory)
        rows.append(row)
        if stamp and row["status"] not in NOT_STORED:
            to_store.append((stamp, row))
    cache.store(to_store, deleted=list(entries))
    return rows


def rows_of_entries(entries: list[Entry], sections: dict[str, str]) -> list[Row]:
    """The rows of entries; equal sections of their settings are one object.

    Args:
        sections: JSON by number.

    Raises:
        ValueError: something is not JSON.
        KeyError: a section is missing.
    """
    # One call for all is several times as fast as one call for each.
    rows = json.loads(f"[{','.join([entry.row_json for entry in entries])}]")
    contents = json.loads(f"[{','.join(sections.values())}]")
    content_of = dict(zip(sections, contents, strict=True))
    joined: dict[str, dict] = {}  # settings by the numbers of their sections
    for row, entry in zip(rows, entries, strict=True):
        settings = joined.get(entry.sections)
        if settings is None:
            settings = {}
            for number in entry.sections.split():
                settings |= content_of[number]
            joined[entry.sections] = settings
        row["settings"] = settings
    return rows


def sections_of(row: Row) -> list[str]:
    """The settings of a row as JSON, section by section; those outside of sections are one."""
    outside = {}
    sections = []
    for key, value in row["settings"].items():
        if isinstance(value, dict):
            sections.append({key: value})
        else:
            outside[key] = value
    return [json.dumps(section) for section in (outside, *sections)]


class RowCache:
    """The cache of the runs below one directory. Nothing that happens to its file is an error."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs

    def load(self) -> tuple[dict[str, Entry], dict[str, str]]:
        """Entries by directory, and sections by number; nothing when they cannot be read."""
        import sqlite3  # slow, and needless for few runs

        try:
            with closing(self.connect()) as database:
                if database.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
                    return {}, {}
                rows = database.execute("SELECT path, stamp, row, sections FROM rows")
                entries = {row[0]: Entry(*row) for row in rows}
                sections = database.execute("SELECT CAST(number AS TEXT), json FROM sections")
                return entries, dict(sections.fetchall())
        except (sqlite3.OperationalError, OSError):  # no file yet, locked, or no place for it
            return {}, {}
        except (sqlite3.DatabaseError, TypeError):  # broken inside: `store` makes a new one
            self.delete()
            return {}, {}

    def store(self, rows: list[tuple[str, Row]], deleted: list[str]) -> None:
        """Adds or replaces rows, each with its stamp; removes those of the directories `deleted`."""
        if not rows and not deleted:
            return
        import sqlite3

        try:
            with closing(self.connect()) as connection, connection as database:
                make_tables(database)
                entries = list(make_entries(database, rows))
                database.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?)", entries)
                paths = [(directory,) for directory in deleted]
                database.executemany("DELETE FROM rows WHERE path = ?", paths)
        except (sqlite3.DatabaseError, OSError):  # the next listing tries again
            return

    def delete(self) -> None:
        self.path().unlink(missing_ok=True)

    def connect(self) -> sqlite3.Connection:
        import sqlite3

        return sqlite3.connect(self.path(), timeout=LOCK_TIMEOUT_S)

    def path(self) -> Path:
        """A file on the local disk that only this user can write.

        Raises:
            OSError: somebody else owns the place.
        """
        folder = Path(tempfile.gettempdir()) / f"lab-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid != os.getuid() or folder.is_symlink():
            raise PermissionError(f"{folder} belongs to somebody else")
        name = hashlib.sha256(str(self.runs.resolve()).encode()).hexdigest()[:16]
        return folder / f"{name}.sqlite"


def make_tables(database: sqlite3.Connection) -> None:
    """Makes the tables where they are missing or of another format."""
    is_current = database.execute("PRAGMA user_version").fetchone()[0] == FORMAT
    for name, columns in TABLES.items():
        if not is_current:
            database.execute(f"DROP TABLE IF EXISTS {name}")
        database.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns})")
    database.execute(f"PRAGMA user_version = {FORMAT}")


def make_entries(database: sqlite3.Connection, rows: list[tuple[str, Row]]) -> Iterator[Entry]:
    """The entries of rows, each with its stamp; adds the sections that are new."""
    texts_of_rows = [sections_of(row) for _, row in rows]
    texts = {text: None for row_texts in texts_of_rows for text in row_texts}
    database.executemany(
        "INSERT OR IGNORE INTO sections (json) VALUES (?)", [(text,) for text in texts]
    )
    numbers = dict(database.execute("SELECT json, number FROM sections"))
    for (stamp, row), row_texts in zip(rows, texts_of_rows, strict=True):
        without_settings = {key: value for key, value in row.items() if key != "settings"}
        sections = " ".join(str(numbers[text]) for text in row_texts)
        yield Entry(row["run_dir"], stamp, json.dumps(without_settings), sections)


def file_stamp(path: str) -> str | None:
    """What changes when a file changes: its time and size; None when it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return f"{status.st_mtime_ns} {status.st_size}"
