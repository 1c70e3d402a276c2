"""One HDF5 file per data set: packed once, read through a memory map, exact after a resume.

Names are imported when they are first used, so that packing and verifying import neither torch nor
Lightning.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors, and for the check of a _target_, which reads this file only
    from .hdf5.checksum import fingerprint, verify_file
    from .hdf5.datamodule import H5DataModule
    from .hdf5.dataset import H5Dataset, as_is
    from .hdf5.file_errors import DataFileError
    from .hdf5.file_layout import read_layout
    from .hdf5.folder_fingerprint import FolderFingerprint, fingerprint_folder
    from .hdf5.loader import Loader
    from .hdf5.order import Order
    from .hdf5.parallel import map_in_order
    from .hdf5.writer import write_data_file

MODULES = {
    "DataFileError": "file_errors",
    "FolderFingerprint": "folder_fingerprint",
    "H5DataModule": "datamodule",
    "H5Dataset": "dataset",
    "Loader": "loader",
    "Order": "order",
    "as_is": "dataset",
    "fingerprint": "checksum",
    "fingerprint_folder": "folder_fingerprint",
    "map_in_order": "parallel",
    "read_layout": "file_layout",
    "verify_file": "checksum",
    "write_data_file": "writer",
}
__all__ = [
    "DataFileError",
    "FolderFingerprint",
    "H5DataModule",
    "H5Dataset",
    "Loader",
    "Order",
    "as_is",
    "fingerprint",
    "fingerprint_folder",
    "map_in_order",
    "read_layout",
    "verify_file",
    "write_data_file",
]


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".hdf5.{MODULES[name]}", __package__), name)
