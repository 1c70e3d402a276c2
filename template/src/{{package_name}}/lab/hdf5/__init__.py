# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""One HDF5 file per data set: packed once, read through a memory map, verified, staged, exact after a resume.

Names are imported when first used, so that writing and verifying import neither torch nor Lightning. No
module has the name of a function here: importing it would take the function's place.
"""

from importlib import import_module
from typing import Any

COMMANDS = [
    ("data pack", "pack raw data into one .h5 file", "pack:pack_command"),
    ("data info", "what a data file holds, and where it fits", "info:info_command"),
    ("data verify", "check every byte of a data file", "checksum:verify_command"),
    ("data stage", "copy a data file to this node's memory or disk", "stage:stage_command"),
    ("data bench", "measure how fast each disk gives the data", "disks:disks_command"),
]
HOME = {
    "H5DataModule": "datamodule",
    "H5Dataset": "dataset",
    "as_is": "dataset",
    "write_data_file": "writer",
}
HOME |= {"DataFileError": "file_layout", "read_layout": "file_layout"}
HOME |= {"fingerprint": "checksum", "verify_file": "checksum"}
__all__ = [
    "DataFileError",
    "H5DataModule",
    "H5Dataset",
    "as_is",
    "fingerprint",
    "read_layout",
    "verify_file",
    "write_data_file",
]


def __getattr__(name: str) -> Any:
    if name not in HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{HOME[name]}", __name__), name)
