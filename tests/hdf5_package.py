"""Imports the template's package from its source under the name `hdf5_project`, without rendering it."""

import os
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "template" / "src" / "{{package_name}}"
NAME = "hdf5_project"

if (
    NAME not in os.environ
):  # the processes that a test starts, and kills, find the link of that test
    _directory = tempfile.TemporaryDirectory(prefix=NAME)
    os.environ[NAME] = _directory.name
    Path(_directory.name, NAME).symlink_to(SOURCE)
sys.path.insert(0, os.environ[NAME])
