"""One HDF5 file per data set: packed once, read through a memory map, exact after a resume.

Names are imported when they are first used, so that packing and verifying import neither torch nor
Lightning.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors, and for the check of a _target_, which reads this file only
    from .hdf5.file.checksum import fingerprint, verify_file
    from .hdf5.file.errors import DataFileError
    from .hdf5.file.hashes import FolderFingerprint, fingerprint_folder
    from .hdf5.file.layout import read_layout
    from .hdf5.file.parallel import map_in_order
    from .hdf5.file.tokens import Tokenizer
    from .hdf5.pack.fetch import fetch
    from .hdf5.pack.own_samples import reading
    from .hdf5.pack.writer import write_data_file
    from .hdf5.read.augmentation import (
        PairDataModule,
        center_crop,
        normalize,
        random_flip,
        random_resized_crop,
    )
    from .hdf5.read.datamodule import H5DataModule
    from .hdf5.read.dataset import H5Dataset, as_is
    from .hdf5.read.loader import Loader
    from .hdf5.read.order import Order

MODULES = {
    "DataFileError": "file.errors",
    "FolderFingerprint": "file.hashes",
    "H5DataModule": "read.datamodule",
    "H5Dataset": "read.dataset",
    "Loader": "read.loader",
    "Order": "read.order",
    "PairDataModule": "read.augmentation",
    "Tokenizer": "file.tokens",
    "as_is": "read.dataset",
    "center_crop": "read.augmentation",
    "fetch": "pack.fetch",
    "fingerprint": "file.checksum",
    "fingerprint_folder": "file.hashes",
    "map_in_order": "file.parallel",
    "normalize": "read.augmentation",
    "random_flip": "read.augmentation",
    "random_resized_crop": "read.augmentation",
    "read_layout": "file.layout",
    "reading": "pack.own_samples",
    "verify_file": "file.checksum",
    "write_data_file": "pack.writer",
}
__all__ = [
    "DataFileError",
    "FolderFingerprint",
    "H5DataModule",
    "H5Dataset",
    "Loader",
    "Order",
    "PairDataModule",
    "Tokenizer",
    "as_is",
    "center_crop",
    "fetch",
    "fingerprint",
    "fingerprint_folder",
    "map_in_order",
    "normalize",
    "random_flip",
    "random_resized_crop",
    "read_layout",
    "reading",
    "verify_file",
    "write_data_file",
]


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".hdf5.{MODULES[name]}", __package__), name)
