"""Remembers, in the user's cache directory, the hash of each version of a file."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

MAX_KEPT = 1000  # versions; the older half is forgotten beyond


def version_key(file: Path | int) -> str:
    """Names this version of a file (a path, or an open descriptor).

    Two files may have one size and one time, after `rsync` or `tar`; so the place on the disk
    counts, and the time of the last change of any kind, which nobody can set back.
    """
    stat = os.stat(file)
    numbers = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    return "-".join(f"{number:x}" for number in numbers)


def read_hash(key: str) -> str | None:
    """What `keep_hash` stored for `key`; None when it has nothing."""
    with suppress(OSError, UnicodeDecodeError):
        return (_directory() / key).read_text(encoding="ascii")
    return None


def keep_hash(key: str, sha256: str) -> None:
    """Stores a hash. A full or read-only home costs the next run a second reading, nothing else."""
    path = _directory() / key
    temporary = path.with_name(f".{key}.{secrets.token_hex(4)}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(sha256, encoding="ascii")
        os.replace(temporary, path)
        _forget_old(path.parent)


def _forget_old(directory: Path) -> None:
    paths = list(directory.iterdir())
    if len(paths) > MAX_KEPT:
        paths.sort(key=lambda path: path.stat().st_mtime_ns)
        for path in paths[: len(paths) // 2]:
            path.unlink(missing_ok=True)


def _directory() -> Path:
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "lab" / "verified"
