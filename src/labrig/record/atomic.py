"""Files that are complete or not there: written under a temporary name, flushed, renamed."""

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..machine.known_secrets import hide_secrets, secret_hider


def write_file(path: Path, text: str) -> None:
    """Puts `text` at `path` in one step, without known secrets.

    A crash at any moment leaves the old file or the new one.

    Raises:
        OSError: the disk is full or read-only; it names `path`.
    """
    text = hide_secrets(text)
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        with open(temporary, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Puts `value` at `path` in one step.

    A file name that is not UTF-8 holds halves of characters, which become \\udcff: valid JSON.
    """
    text = json.dumps(plain_json(value), indent=1, ensure_ascii=False) + "\n"
    write_file(path, text.encode("utf-8", errors="backslashreplace").decode("utf-8"))


def read_json(path: Path) -> Any:
    """The object in `path`; None when the file is missing or is not JSON.

    A network file system may show a stale or vanished file for a moment after a rename, so a bad read is
    repeated once.
    """
    for pause_s in (0.05, 0):
        try:
            # Older records hold bytes that are not UTF-8, from file names.
            value = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
            return value if isinstance(value, dict) else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError):
            time.sleep(pause_s)
    return None


def plain_json(value: Any) -> Any:
    """`value` in JSON's own types, without known secrets.

    Dataclasses become objects, scalars of NumPy and torch numbers; paths, NaN and infinities text.
    """
    # Only a text needs the secrets, and a row of metrics has none.
    return _plain(value, cache(secret_hider))


def _plain(value: Any, hider: Callable[[], Callable[[str], str]]) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value), hider)
    if isinstance(value, dict):
        return {str(key): _plain(entry, hider) for key, entry in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(entry, hider) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, str):
        return hider()(value)
    scalar: Any = value
    return _plain(scalar.item(), hider) if hasattr(value, "item") else hider()(str(value))


def number(value: Any) -> Any:
    """NaN and infinities, which JSON cannot hold, back from their text."""
    return float(value) if value in ("nan", "inf", "-inf") else value


def sha256(path: Path) -> str:
    import hashlib  # OpenSSL takes 5 ms, and lists hash nothing

    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
