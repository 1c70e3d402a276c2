# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""One HDF5 file per data set: packed once, read through a memory map, verified, staged, exact after a resume.

Names are imported when first used, so that writing and verifying import neither torch nor Lightning. No
module has the name of a function here: importing it would take the function's place.
"""

from importlib import import_module
from typing import Any

HOME = {"H5DataModule": "datamodule", "H5Dataset": "dataset", "as_is": "dataset", "write": "writer"}
HOME |= {name: "file_layout" for name in ("DataFileError", "fingerprint", "layout", "verify")}
__all__ = ["DataFileError", "H5DataModule", "H5Dataset", "as_is", "fingerprint", "layout", "verify", "write"]


def __getattr__(name: str) -> Any:
    if name not in HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{HOME[name]}", __name__), name)
