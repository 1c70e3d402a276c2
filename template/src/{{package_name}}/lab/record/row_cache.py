# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""A cache of rows, which makes it fast to list thousands of runs. It may be deleted at any time.

It is a SQLite file on this machine's own disk. A row counts as long as its run's summary.json has
the same time and size; a new note touches that file. When the cache is missing, broken, older,
locked or on a read-only disk, all rows are read from the runs. Only listings write it.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from .schema import Row

if TYPE_CHECKING:
    import sqlite3

FORMAT = 2  # of the rows in the cache; an older cache is thrown away
LOCK_TIMEOUT_S = 1
NOT_STORED = ("queued", "running")  # these rows change while summary.json does not


def read_through_cache(
    runs: Path, directories: list[str], read_row: Callable[[str], Row]
) -> list[Row]:
    """The row of every directory, in any order.

    It comes from the cache where its run has not changed, else from `read_row`.
    """
    cache = RowCache(runs)
    entries = cache.load()
    unchanged = []  # rows as JSON
    changed = {}  # stamps by directory
    for directory in directories:
        stamp = file_stamp(f"{directory}/summary.json")
        cached_stamp, row_json = entries.pop(directory, (None, None))
        if stamp and stamp == cached_stamp:
            unchanged.append(row_json)
        else:
            changed[directory] = stamp
    try:
        # One call for all rows is several times as fast as one call for each.
        rows = json.loads(f"[{','.join(unchanged)}]")
    except ValueError:
        cache.delete()
        return [read_row(directory) for directory in directories]

    new_entries = []
    for directory, stamp in changed.items():
        row = read_row(directory)
        rows.append(row)
        if stamp and row["status"] not in NOT_STORED:
            new_entries.append((directory, stamp, json.dumps(row)))
    cache.store(new_entries, deleted=list(entries))
    return rows


class RowCache:
    """The cache of the runs below one directory. Nothing that happens to its file is an error."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs

    def load(self) -> dict[str, tuple[str, str]]:
        """Stamp and row (as JSON) by directory; nothing when they cannot be read."""
        import sqlite3  # slow, and needless for few runs

        try:
            with closing(self.connect()) as database:
                if database.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
                    return {}
                entries = database.execute("SELECT path, key, row FROM rows")
                return {path: (stamp, row_json) for path, stamp, row_json in entries}
        except (sqlite3.OperationalError, OSError):  # no file yet, locked, or no place for it
            return {}
        except sqlite3.DatabaseError:  # broken inside: `store` makes a new one
            self.delete()
            return {}

    def store(self, entries: list[tuple[str, str, str]], deleted: list[str]) -> None:
        """Adds or replaces entries (directory, stamp, row as JSON); removes those of `deleted`."""
        if not entries and not deleted:
            return
        import sqlite3

        try:
            with closing(self.connect()) as connection, connection as database:
                if database.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
                    database.execute("DROP TABLE IF EXISTS rows")
                    database.execute(f"PRAGMA user_version = {FORMAT}")
                database.execute(
                    "CREATE TABLE IF NOT EXISTS rows (path TEXT PRIMARY KEY, key TEXT, row TEXT)"
                )
                database.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?, ?)", entries)
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


def file_stamp(path: str) -> str | None:
    """What changes when a file changes: its time and size; None when it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return f"{status.st_mtime_ns} {status.st_size}"
