"""Imports the template's package from its source under the name `hdf5_project`, without rendering it."""

import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "template" / "src" / "{{package_name}}"
NAME = "hdf5_project"


def make_importable(directory: Path) -> None:
    """Puts the package into `directory` as a link, and `directory` first on the path."""
    link = directory / NAME
    if not link.exists():
        link.symlink_to(SOURCE)
    sys.path.insert(0, str(directory))


_directory = tempfile.TemporaryDirectory(prefix="hdf5_project")
make_importable(Path(_directory.name))
