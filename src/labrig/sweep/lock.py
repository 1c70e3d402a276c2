"""A lock on a shared file system: a file that only one process can create, also on NFS.

A lock whose owner has died is removed: at once when the owner ran on this machine, else when the
file was not touched for half a minute. Nobody holds it for longer than a few writes take.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from ..record.atomic import read_json
from ..record.claim import create_lock
from ..record.status import alive

SILENT_S = 30.0  # Optuna's own locks wait for as long
FIRST_PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.25


class JournalLock:
    """The lock of one journal, JOURNAL.lock, which also Optuna's own programs respect.

    The process that has it may take it again. Whoever takes it first removes the torn last line
    that a killed process or a full disk left: the next line would be glued to it.
    """

    def __init__(self, journal: Path) -> None:
        self.journal = journal
        self.path = journal.with_name(f"{journal.name}.lock")
        self.depth = 0

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> bool:
        """Waits for the lock.

        Raises:
            OSError: the disk is full or read-only.
        """
        if self.depth == 0:
            self.wait_and_create()
            remove_torn_line(self.journal)
        self.depth += 1
        return True

    def release(self) -> None:
        self.depth -= 1
        if self.depth == 0:
            # It is gone when others took this process for dead, because it was stopped for so long.
            with suppress(FileNotFoundError):
                self.path.unlink()

    def wait_and_create(self) -> None:
        pause_s = FIRST_PAUSE_S
        last_sign = None
        silent_since_s = time.monotonic()
        while True:
            with suppress(FileExistsError):
                create_lock(self.path)
                return
            sign = sign_of_life(self.path)
            if sign != last_sign:
                last_sign = sign
                silent_since_s = time.monotonic()
            is_silent = time.monotonic() - silent_since_s > SILENT_S
            if sign and (is_silent or alive(read_json(self.path) or {}) is False):
                remove_lock(self.path, sign)
                continue
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def sign_of_life(path: Path) -> tuple[int, int] | None:
    """What tells one lock from a later one; None when there is none."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def remove_lock(path: Path, sign: tuple[int, int]) -> None:
    """Removes the lock of a dead owner, unless another process has just replaced it."""
    moved = path.with_name(f"{path.name}.{os.urandom(4).hex()}")
    with suppress(FileNotFoundError):
        os.rename(path, moved)
        if sign_of_life(moved) != sign:
            # Another process was faster, and this is the lock of a third one: it gets it back.
            with suppress(FileExistsError):
                os.link(moved, path, follow_symlinks=False)
        moved.unlink()


def remove_torn_line(journal: Path) -> None:
    """Cuts off what follows the last newline: the writer died, and its record was never whole."""
    with suppress(FileNotFoundError), open(journal, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        if size == 0:
            return
        file.seek(size - 1)
        if file.read(1) == b"\n":
            return
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
