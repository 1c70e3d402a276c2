"""Optuna's study of a sweep, in one journal file on the shared file system."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import optuna
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, SuccessiveHalvingPruner
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.study import StudyDirection

from ..errors import Failed
from .definition import SweepDefinition
from .samplers import sampler_of


@contextmanager
def one_process(path: Path) -> Iterator[None]:
    """Optuna's lock, PATH.lock: of the processes on all machines, one is inside at a time.

    The lock of a process that was killed is removed after half a minute.
    """
    lock = JournalFileOpenLock(str(path))
    lock.acquire()
    try:
        yield
    finally:
        # It is gone when others took this process for dead, because it was stopped for so long.
        with suppress(RuntimeError):
            lock.release()


def open_storage(journal: Path) -> JournalStorage:
    """Reads the whole journal. A damaged line is named, and nothing is repaired."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with one_process(journal):
        number = torn_line(journal)
    if number:
        raise Failed(
            f"{journal} is damaged in line {number}, which is no record of Optuna's.\n"
            "Stop the workers, remove that line, and type the same command again."
        )
    lock = JournalFileOpenLock(str(journal))
    return JournalStorage(JournalFileBackend(str(journal), lock))


def torn_line(journal: Path) -> int | None:
    """The number of the first line that is not JSON, or does not end."""
    if not journal.exists():
        return None
    for number, line in enumerate(journal.read_bytes().splitlines(keepends=True), start=1):
        try:
            json.loads(line)
        except ValueError:
            return number
        if not line.endswith(b"\n"):
            return number
    return None


def open_study(storage: JournalStorage, name: str, definition: SweepDefinition) -> optuna.Study:
    """The study of a sweep, which is created when it does not exist."""
    tools: dict[str, Any] = {
        "sampler": sampler_of(definition),
        "pruner": pruner_of(definition.pruner),
    }
    if optuna.get_all_study_names(storage):
        return optuna.load_study(study_name=name, storage=storage, **tools)
    directions = [StudyDirection[word.upper()] for word in definition.directions]
    study = optuna.create_study(study_name=name, storage=storage, directions=directions, **tools)
    study.set_metric_names(definition.metrics)
    return study


def pruner_of(name: str | None) -> BasePruner:
    """The pruner of a name in `sweep.pruner`."""
    if name == "median":
        return MedianPruner()
    if name == "asha":
        return SuccessiveHalvingPruner()
    if name == "hyperband":
        return HyperbandPruner()
    return optuna.pruners.NopPruner()
