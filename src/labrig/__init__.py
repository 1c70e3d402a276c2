"""labrig: trains, records, submits and compares the trials of a research project. Its command is `lab`.

In a notebook: `from labrig import load, logs, queue, runs, submit, trials`. What a project may
import is here and in labrig.train, labrig.task, labrig.data, labrig.callbacks and labrig.program;
everything else may change with any release.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .trials import trial_table as trials  # now: an import of the folder would take the name later
from .version import __version__

if TYPE_CHECKING:
    from .cluster.submit.submit import submit
    from .cluster.watch.logs import logs
    from .cluster.watch.queue import queue
    from .errors import LabError
    from .hdf5.read.datamodule import H5DataModule
    from .hdf5.read.dataset import H5Dataset
    from .project import Project
    from .record.list.columns import runs
    from .training.parts.schedule import scheduled
    from .training.trained.load import load

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
    "H5DataModule": ".hdf5.read.datamodule",
    "H5Dataset": ".hdf5.read.dataset",
    "LabError": ".errors",
    "Project": ".project",
    "load": ".training.trained.load",
    "logs": ".cluster.watch.logs",
    "queue": ".cluster.watch.queue",
    "runs": ".record.list.columns",
    "scheduled": ".training.parts.schedule",
    "submit": ".cluster.submit.submit",
}
PACKAGES_OF_TRAINING = ("h5py", "lightning", "numpy", "torch")


def __getattr__(name: str) -> Any:
    """Imports a name when it is first used: torch takes seconds."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(MODULES[name], __name__), name)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in PACKAGES_OF_TRAINING:
            raise
        raise ImportError(
            f'labrig.{name} needs the package {package}. Type: pip install "labrig[train]"'
        ) from error
