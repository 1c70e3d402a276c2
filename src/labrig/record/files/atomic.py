"""Files that are complete or not there: written under a temporary name, flushed, renamed.

What is read may come from somebody else: no link is followed, and the size and the form are checked.
"""

import errno
import json
import math
import os
import stat
import time
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Any

import msgspec

from ...machine.secrets import hide_secrets, secret_hider
from .checkpoint_files import format_sums, sums_of
from .forms import MAX_DEPTH, form_problem, problem_in

# Of run.json, summary.json and what else has the key `format`. From the first release on, a change of
# what such a file says raises it, and a bridge here makes the new form of the old.
FORMAT = 1
MAX_JSON_BYTES = 256_000_000
OBJECT = dict[str, Any]


def write_file(path: Path, text: str, before: Callable[[], None] = lambda: None) -> None:
    """Puts `text` at `path` in one step, without known secrets.

    A crash at any moment leaves the old file or the new one.

    Args:
        before: is called once the disk has all of the text, which then only gets its name.

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
        before()
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
    write_plain_json(path, plain_json(value))


def write_plain_json(path: Path, value: Any) -> None:
    """As `write_json`, for what `plain_json` gave."""
    write_file(path, json_text(value))


def json_text(value: Any) -> str:
    """What `write_json` writes, of what `plain_json` gave."""
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    return text.encode("utf-8", errors="backslashreplace").decode("utf-8")


class Damaged(ValueError):
    """A file of the record does not hold what it should; the text says why."""


def read_record(path: Path, form: Any = OBJECT) -> Any:
    """The object in a file of the record; None when the file is missing.

    A network file system may show a stale or vanished file for a moment after a rename, so a bad read is
    repeated once.

    Args:
        form: what the object must be, see forms.py.

    Raises:
        Damaged: it is another, or one of a later format.
    """
    for pause_s in (0.05, 0):
        try:
            content = read_bytes(path)
            value = parse_json(content)
        except FileNotFoundError:
            return None
        except OSError as error:
            is_link = error.errno == errno.ELOOP
            problem = "a link is there in place of the file"
            if not is_link:
                problem = f"the file cannot be read: {error.strerror}"
        except Damaged as error:
            problem = str(error)
        else:
            problem = problem_of(value, form, content)
            if problem:
                raise Damaged(problem)
            return value
        time.sleep(pause_s)
    raise Damaged(problem)


def read_advisory(path: Path, form: Any = OBJECT) -> Any:
    """As `read_record` for a file that only helps: None too where it is damaged, or of a later format."""
    try:
        return read_record(path, form)
    except Damaged:
        return None


def problem_of(value: Any, form: Any, content: bytes) -> str | None:
    """Why an object is not of its form, or of a later format."""
    found = value.get("format") if isinstance(value, dict) else None
    if isinstance(found, int) and found > FORMAT:
        return f"it has format {found}, and this labrig reads up to {FORMAT}. For a later: copier update"
    # To look how deep it is takes longer than anything else.
    is_flat = content.count(b"{") + content.count(b"[") < MAX_DEPTH
    problem = form_problem(value, form) if is_flat else problem_in(value, form)
    if problem == "it has no 'format'":
        return "a labrig from before its first release wrote it, and this one does not read that"
    return problem


def parse_json(content: bytes) -> Any:
    """The value of a JSON text.

    Raises:
        Damaged: it is none.
    """
    try:
        return msgspec.json.decode(content)
    except RecursionError:
        raise Damaged("it is nested too deep") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        if "surrogate" not in str(error):
            raise Damaged("there is no JSON any more") from None
    try:  # a file name that is not UTF-8, see `write_json`
        return json.loads(content)
    except (ValueError, RecursionError):
        raise Damaged("there is no JSON any more") from None


def read_bytes(path: Path, most_bytes: int = MAX_JSON_BYTES, below: Path | None = None) -> bytes:
    """The content of a file of a record.

    Raises:
        OSError: as `open_file`, or it has more than `most_bytes`.
    """
    with open_file(path, below=below) as file:
        if os.fstat(file.fileno()).st_size > most_bytes:
            raise OSError(errno.EFBIG, f"it has more than {most_bytes:,} bytes", str(path))
        return file.read(most_bytes)


def read_text(path: Path) -> str:
    """The text of a file, which may hold names that are not UTF-8.

    Raises:
        OSError: it is missing, a link, no file, or too large.
    """
    return read_bytes(path).decode("utf-8", errors="surrogateescape")


def open_file(path: Path, follow_links: bool = False, below: Path | None = None) -> FileIO:
    """Opens a file to read it: no link to a file of the reader's, and no pipe that never ends.

    Every file of a record is opened here, since another person may have put it there.

    Args:
        below: the directory that must hold it, also when a directory on the way is a link.

    Raises:
        OSError: it is missing, no file, elsewhere, or a link unless `follow_links`.
    """
    if below and not is_below(path, below):
        raise OSError(errno.ELOOP, "a link leads out of the run", str(path))
    no_link = 0 if follow_links else os.O_NOFOLLOW
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | no_link)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no file", str(path))
    return FileIO(descriptor)


def is_below(path: Path, directory: Path) -> bool:
    """Whether a file lies below a directory, and no link on the way leads out of it."""
    return os.path.realpath(path).startswith(os.path.join(os.path.realpath(directory), ""))


def plain_json(value: Any) -> Any:
    """`value` in JSON's own types, without known secrets.

    Dataclasses become objects, scalars of NumPy and torch numbers; paths, NaN and infinities text.
    """
    # Only a text needs the secrets, and a row of metrics has none.
    return _plain(value, cache(secret_hider))


def _plain(value: Any, hider: Callable[[], Callable[[str], str]]) -> Any:
    if isinstance(value, str):
        return hider()(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): _plain(entry, hider) for key, entry in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(entry, hider) for entry in value]
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value), hider)
    scalar: Any = value
    return _plain(scalar.item(), hider) if hasattr(value, "item") else hider()(str(value))


def number(value: Any) -> Any:
    """NaN and infinities, which JSON cannot hold, back from their text."""
    return float(value) if value in ("nan", "inf", "-inf") else value


def sha256(path: Path) -> str:
    """The sha256 of a file; of a checkpoint that is a directory, that of the list of its files."""
    import hashlib  # OpenSSL takes 5 ms, and lists hash nothing

    if path.suffix == ".ckpt" and path.is_dir():
        return hashlib.sha256(format_sums(sums_of(path, sha256)).encode()).hexdigest()
    with open_file(path, follow_links=True) as file:  # of weights there may be links
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_of_file(path: Path) -> str | None:
    """As `sha256`; None of a pipe or a device that lies in place of a file."""
    try:
        return sha256(path)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENXIO):
            return None
        raise
