"""Optuna's study of a sweep with its sampler, in one journal file on the shared file system."""

from __future__ import annotations

import json
import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna
from optuna import samplers
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, SuccessiveHalvingPruner
from optuna.samplers import BaseSampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.study import StudyDirection

from ..errors import Failed
from .definition import SweepDefinition


class SweepLock:
    """Optuna's lock of a journal, JOURNAL.lock. The process that has it may take it again.

    So several records are written as one. The lock of a process that was killed is removed after half
    a minute; each record is a sign of life.
    """

    def __init__(self, journal: Path) -> None:
        self.lock = JournalFileOpenLock(str(journal))
        self.path = journal.with_name(f"{journal.name}.lock")
        self.depth = 0

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> bool:
        if self.depth == 0:
            self.lock.acquire()
        else:
            with suppress(FileNotFoundError):
                os.utime(self.path)
        self.depth += 1
        return True

    def release(self) -> None:
        self.depth -= 1
        if self.depth == 0:
            # It is gone when others took this process for dead, because it was stopped for so long.
            with suppress(RuntimeError):
                self.lock.release()


def open_storage(journal: Path, lock: Any) -> JournalStorage:
    """Reads the whole journal. A damaged line is named, and nothing is repaired.

    Args:
        lock: a SweepLock, which has the methods that Optuna calls, and not its class. It is held.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if number := torn_line(journal):
        raise Failed(
            f"{journal} is damaged in line {number}, which is no record of Optuna's.\n"
            "Stop the workers, remove that line, and type the same command again."
        )
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
    """The study of a sweep, which is created when it does not exist; who asks sets its sampler."""
    warnings.simplefilter("ignore", ExperimentalWarning)
    tools: dict[str, Any] = {"pruner": pruner_of(definition.pruner)}
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


MOST_RANDOM = 10  # points that tpe and gp draw at random first, as in Optuna
LARGEST_POPULATION = 50  # of nsga2, as in Optuna


def sampler_of(definition: SweepDefinition, n_points: int) -> BaseSampler:
    """A new sampler of a sweep.

    Args:
        n_points: of the sweep. At most a quarter of them is drawn at random.
    """
    name = definition.sampler
    quarter = max(1, n_points // 4)
    n_random = min(MOST_RANDOM, quarter)
    if name == "tpe":
        # Without it, workers that ask at the same time get points next to each other.
        return samplers.TPESampler(constant_liar=True, n_startup_trials=n_random)
    if name == "gp":
        return samplers.GPSampler(n_startup_trials=n_random)
    if name == "cmaes":
        return samplers.CmaEsSampler()
    if name == "nsga2":
        return samplers.NSGAIISampler(
            population_size=max(2, min(LARGEST_POPULATION, quarter)),
            # Of each setting; as Optuna has it, but that one alone would always be drawn at random.
            mutation_prob=1 / max(2, len(definition.space)),
        )
    # The points of a grid are all known, and wait in the journal.
    return samplers.RandomSampler()
