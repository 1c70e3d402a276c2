# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Rows of ended runs in SQLite on this machine's own disk, so that ten thousand are listed at once.

The key of a row is the time and size of its summary.json; keeping.append touches that file.
Disposable: missing, broken, older or on a read-only disk, it is built again or done without. Only listings
write it.
"""

import hashlib
import json
import os
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from .files import stamp

LAYOUT = 1  # of the rows in it; an older cache is thrown away


def remembered(runs: Path, directories: list[str], read: Callable[[str], dict]) -> list[dict]:
    """The row of every directory: from the cache where its key still holds, else by `read`."""
    try:
        path = location(runs)
        with closing(opened(path)) as connection, connection as database:
            known = {path: (key, text) for path, key, text in database.execute("SELECT path, key, row FROM rows")}
            texts, fresh, found = [], [], []
            for directory in directories:
                key = stamp(f"{directory}/summary.json")
                entry = known.pop(directory, None)
                if key and entry and entry[0] == key:
                    texts.append(entry[1])
                else:
                    found.append(read(directory))
                    if key and found[-1]["status"] not in ("queued", "running"):
                        fresh.append((directory, key, json.dumps(found[-1])))
            database.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?, ?)", fresh)
            database.executemany("DELETE FROM rows WHERE path = ?", [(path,) for path in known])
            return found + json.loads(f"[{','.join(texts)}]")
    except (sqlite3.OperationalError, OSError):  # locked, or a disk that cannot be written
        pass
    except (sqlite3.DatabaseError, ValueError):  # broken inside: the next listing builds it anew
        path.unlink(missing_ok=True)
    return [read(directory) for directory in directories]


def location(runs: Path) -> Path:
    """A file on the local disk that only this user can write.

    Raises:
        OSError: somebody else owns the place.
    """
    folder = Path(tempfile.gettempdir()) / f"lab-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.is_symlink():
        raise PermissionError(f"{folder} belongs to somebody else")
    return folder / f"{hashlib.sha256(str(runs.resolve()).encode()).hexdigest()[:16]}.sqlite"


def opened(path: Path) -> sqlite3.Connection:
    """The database in `path`, emptied when it has an older layout."""
    database = sqlite3.connect(path, timeout=1)
    if database.execute("PRAGMA user_version").fetchone()[0] != LAYOUT:
        database.execute("DROP TABLE IF EXISTS rows")
        database.execute(f"PRAGMA user_version = {LAYOUT}")
    database.execute("CREATE TABLE IF NOT EXISTS rows (path TEXT PRIMARY KEY, key TEXT, row TEXT)")
    return database
