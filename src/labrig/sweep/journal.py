"""Optuna's study of a sweep, in one journal file on the shared file system."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, SuccessiveHalvingPruner
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection

from ..errors import Failed
from ..record.files.atomic import read_json
from ..record.read.status import alive
from ..record.write.claim import create_lock
from .definition import SweepDefinition
from .samplers import sampler_of

# A lock on a shared file system: a file that only one process can create, also on NFS.
#
# A lock whose owner has died is removed: at once when the owner ran on this machine, else when the
# file was not touched for half a minute. Nobody holds it for longer than a few writes take.

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


# A journal some of whose lines stand in it twice, as after two copies of it were joined.

CREATE_POINT = 4  # op_code of the record of a new point
NOTHING = {"op_code": 8, "worker_id": "", "trial_id": -1, "user_attr": {"": None}}  # of no point


class SweepJournal(JournalFileBackend):
    """Optuna's journal, in which a point that is created twice is one.

    Two records of new points are never equal: each has a time, or values that nobody else asked for.
    Records of other kinds have the same effect when they are read again. The second of two equal
    records is read as one without effect, because Optuna counts the lines.
    """

    def __init__(self, journal: Path, lock: Any) -> None:
        super().__init__(str(journal), lock)
        self.created: dict[str, int] = {}  # the line of each record of a new point

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        for line, record in enumerate(super().read_logs(log_number_from), start=log_number_from):
            if record["op_code"] == CREATE_POINT:
                first = self.created.setdefault(json.dumps(record, sort_keys=True), line)
                if first != line:
                    yield NOTHING
                    continue
            yield record


RECORD_BEGIN = b'{"op_code"'


def open_study(
    journal: Path, lock: JournalLock, name: str, definition: SweepDefinition
) -> optuna.Study:
    """The study of a sweep, which is created when it does not exist.

    Raises:
        Failed: the journal is damaged where it cannot be repaired.
        OSError: the disk is full or read-only.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    tools: dict[str, Any] = {
        "sampler": sampler_of(definition),
        "pruner": pruner_of(definition.pruner),
    }
    with lock:
        storage = open_storage(journal, lock)
        if optuna.get_all_study_names(storage):
            return optuna.load_study(study_name=name, storage=storage, **tools)
        directions = [StudyDirection[word.upper()] for word in definition.directions]
        study = optuna.create_study(
            study_name=name, storage=storage, directions=directions, **tools
        )
        study.set_metric_names(definition.metrics)
    return study


def open_storage(journal: Path, lock: Any) -> JournalStorage:
    """Reads the whole journal; lines that were glued together are repaired first.

    Args:
        lock: a JournalLock, which has the methods that Optuna calls, and not its class.
    """
    try:
        return JournalStorage(SweepJournal(journal, lock))
    except (KeyError, ValueError):  # a line that is not JSON, or not whole
        repair_glued_lines(journal)
    return JournalStorage(SweepJournal(journal, lock))


def repair_glued_lines(journal: Path) -> None:
    """Blanks half records to which a program without our lock has glued the next record.

    Every byte keeps its place, because running workers remember how far they have read.

    Raises:
        Failed: a line holds no whole record.
    """
    content = journal.read_bytes()
    with open(journal, "r+b") as file:
        for start, line in lines_with_places(content):
            if is_json(line):
                continue
            whole = line.rfind(RECORD_BEGIN)
            if whole <= 0 or not is_json(line[whole:]):
                number = content.count(b"\n", 0, start) + 1
                raise Failed(
                    f"{journal} is damaged in line {number}, which is no record of Optuna's.\n"
                    "Stop the workers, remove that line, and type the same command again."
                )
            file.seek(start)
            file.write(b" " * whole)


def lines_with_places(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Each line with the place of its first byte."""
    start = 0
    for line in content.splitlines(keepends=True):
        yield start, line
        start += len(line)


def is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def pruner_of(name: str | None) -> BasePruner:
    """The pruner of a name in `sweep.pruner`."""
    if name == "median":
        return MedianPruner()
    if name == "asha":
        return SuccessiveHalvingPruner()
    if name == "hyperband":
        return HyperbandPruner()
    return optuna.pruners.NopPruner()
