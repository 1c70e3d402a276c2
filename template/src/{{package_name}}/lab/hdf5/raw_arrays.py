# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Opens .npy and .npz files as memory maps."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .file_errors import DataFileError


def open_arrays(sources: Sequence[Path], directory: Path) -> dict[str, np.ndarray]:
    """Memory maps of .npy files by their stems; .npz files are unpacked into `directory`.

    Raises:
        DataFileError: a file is damaged, or holds something else than numbers.
    """
    arrays: dict[str, np.ndarray] = {}
    for source in sources:
        try:
            if source.suffix == ".npz":
                with zipfile.ZipFile(source) as archive:
                    members = [
                        Path(archive.extract(name, directory)) for name in archive.namelist()
                    ]
                arrays |= open_arrays(members, directory)
            else:
                arrays[source.stem] = np.load(source, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise DataFileError(
                f"{source} cannot be read as .npy or .npz of numbers: {error}"
            ) from error
    return arrays
