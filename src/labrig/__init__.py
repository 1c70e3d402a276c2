"""labrig: trains, records, submits and compares the trials of a research project. Its command is `lab`.

In a notebook: `from labrig import load, logs, queue, runs, submit, trials`. What a project may
import is here and in labrig.train, labrig.task, labrig.data, labrig.callbacks and labrig.program;
everything else may change with any release.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .cluster.logs import logs
    from .cluster.queue import queue
    from .cluster.runs import runs
    from .cluster.submit import submit
    from .errors import LabError
    from .hdf5.datamodule import H5DataModule
    from .hdf5.dataset import H5Dataset
    from .project import Project
    from .training.load import load
    from .training.schedule import scheduled
    from .trials.trial import trials

__all__ = [
    "H5DataModule",
    "H5Dataset",
    "LabError",
    "Project",
    "__version__",
    "load",
    "logs",
    "queue",
    "runs",
    "scheduled",
    "submit",
    "trials",
]
MODULES = {
    "H5DataModule": ".hdf5.datamodule",
    "H5Dataset": ".hdf5.dataset",
    "LabError": ".errors",
    "Project": ".project",
    "load": ".training.load",
    "logs": ".cluster.logs",
    "queue": ".cluster.queue",
    "runs": ".cluster.runs",
    "scheduled": ".training.schedule",
    "submit": ".cluster.submit",
}


def __getattr__(name: str) -> Any:
    """Imports a name when it is first used: torch takes seconds."""
    if name == "trials":
        return import_module(".trials", __name__)  # a folder that can be called
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(MODULES[name], __name__), name)
