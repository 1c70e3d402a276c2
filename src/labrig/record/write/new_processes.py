"""Has worker processes that are started anew load the frozen code; forked ones have it already."""

from __future__ import annotations

from importlib import import_module
from typing import Any

WORKERS = "labrig.record.write.workers"  # loads the frozen code when it is imported


class ImportsWorkers:
    """Where it is unpickled, WORKERS is imported."""

    def __reduce__(self) -> Any:
        return import_module, (WORKERS,)


def tell_new_processes() -> None:
    """Has each process that multiprocessing starts anew (spawn, forkserver) import WORKERS first.

    The preparation of a process is the first thing that it unpickles, before anything of the project.
    It passes over keys that it does not know.
    """
    from multiprocessing import spawn  # only a training starts processes

    prepare = spawn.get_preparation_data
    if prepare.__module__ == __name__:
        return

    def prepare_with_workers(name: str) -> dict[str, Any]:
        return {"labrig": ImportsWorkers(), **prepare(name)}

    spawn.get_preparation_data = prepare_with_workers
