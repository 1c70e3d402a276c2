# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""One HDF5 file per data set: packed once, read through a memory map, exact after a resume.

Names are imported when they are first used, so that packing and verifying import neither torch nor
Lightning. No file here has the name of a public function: importing the file would put it in the
function's place.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors, and for the check of a _target_, which reads this file only
    from .checksum import fingerprint, verify_file
    from .datamodule import H5DataModule
    from .dataset import H5Dataset, as_is
    from .file_errors import DataFileError
    from .file_layout import read_layout
    from .folder_fingerprint import FolderFingerprint, fingerprint_folder
    from .writer import write_data_file

COMMANDS = [
    ("data pack", "pack raw data into one .h5 file", "pack:pack_command"),
    ("data info", "what a data file holds, and where it fits", "info:info_command"),
    ("data verify", "check every byte of a data file", "checksum:verify_command"),
    ("data stage", "copy a data file to this node's memory or disk", "stage:stage_command"),
    ("data bench", "measure how fast each disk reads a data file", "disks:disks_command"),
]
FILE_OF_NAME = {
    "DataFileError": "file_errors",
    "FolderFingerprint": "folder_fingerprint",
    "H5DataModule": "datamodule",
    "H5Dataset": "dataset",
    "as_is": "dataset",
    "fingerprint": "checksum",
    "fingerprint_folder": "folder_fingerprint",
    "read_layout": "file_layout",
    "verify_file": "checksum",
    "write_data_file": "writer",
}
__all__ = [
    "DataFileError",
    "FolderFingerprint",
    "H5DataModule",
    "H5Dataset",
    "as_is",
    "fingerprint",
    "fingerprint_folder",
    "read_layout",
    "verify_file",
    "write_data_file",
]


def __getattr__(name: str) -> Any:
    if name not in FILE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{FILE_OF_NAME[name]}", __name__), name)
