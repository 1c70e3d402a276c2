"""Optuna's study of a sweep, in one journal file on the shared file system."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, SuccessiveHalvingPruner
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection

from ..errors import Failed
from .definition import Definition
from .lock import JournalLock
from .samplers import sampler_of

RECORD_BEGIN = b'{"op_code"'


def open_study(journal: Path, lock: JournalLock, name: str, definition: Definition) -> optuna.Study:
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
        return JournalStorage(JournalFileBackend(str(journal), lock))
    except (KeyError, ValueError):  # a line that is not JSON, or not whole
        repair_glued_lines(journal)
    return JournalStorage(JournalFileBackend(str(journal), lock))


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
