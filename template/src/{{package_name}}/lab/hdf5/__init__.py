# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""One HDF5 file per data set: packed once, read through a memory map, verified, staged, exact after a resume.

Names are imported when first used, so that writing and verifying import neither torch nor Lightning.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .datamodule import H5DataModule
    from .dataset import H5Dataset, as_is
    from .layout import DataFileError, layout
    from .verify import fingerprint, verify
    from .write import write

HOME = {
    "DataFileError": "layout",
    "H5DataModule": "datamodule",
    "H5Dataset": "dataset",
    "as_is": "dataset",
    "fingerprint": "verify",
    "layout": "layout",
    "verify": "verify",
    "write": "write",
}
__all__ = ["DataFileError", "H5DataModule", "H5Dataset", "as_is", "fingerprint", "layout", "verify", "write"]


def __getattr__(name: str) -> Any:
    if name not in HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{HOME[name]}", __name__), name)
