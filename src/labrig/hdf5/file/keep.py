"""What lies under the name of a new data file: kept when recorded runs read it, never lost when it is foreign."""

import os
import shutil
import sys
from pathlib import Path

from ...errors import LabError
from ...machine.counted import counted
from ...project import Project, this_project
from .checksum import sha256_of_hashes
from .errors import DataFileError, ForeignFileError
from .layout import Layout, read_layout


def refuse_foreign(path: Path) -> None:
    """Makes sure that `path` is no HDF5 file of others, such as raw data."""
    if not path.exists():
        return
    try:
        read_layout(path)
    except ForeignFileError as error:
        raise DataFileError(
            f"{path} was not written by `lab data pack`, so it is not replaced. Move it, or write "
            "elsewhere: --to DIRECTORY"
        ) from error
    except DataFileError:
        pass  # damaged: to pack again is the remedy


def keep_if_used(path: Path, new: Layout, directory: Path) -> None:
    """Gives the file at `path` a second name, with its hash, when runs of this project read it and
    `new` holds other data; says so. `lab runs verify`, `eval`, `reproduce` and `resume` find it there.

    Args:
        new: what will take the name.
        directory: for temporary files, on the same disk.
    """
    old = _data_at(path)
    if old is None or sha256_of_hashes(old) == sha256_of_hashes(new):
        return
    from ...record.reproduce.recorded_data import kept_path  # here: a new name needs no records

    run_ids = _runs_with(old)
    if not run_ids:
        return
    kept = kept_path(path, sha256_of_hashes(old))
    link = directory / kept.name
    try:
        os.link(path, link)
    except OSError:  # a disk without hard links
        shutil.copyfile(path, link)
    os.replace(link, kept)
    print(
        f"lab: {counted(len(run_ids), 'run')} read the data that {path} held until now, such as "
        f"{run_ids[-1]}: they stay as {kept}",
        file=sys.stderr,
    )


def _data_at(path: Path) -> Layout | None:
    """The data file that would be lost; behind a link it stays where it is."""
    if not path.exists() or path.is_symlink():
        return None
    try:
        return read_layout(path)
    except DataFileError:
        return None


def _runs_with(old: Layout) -> list[str]:
    from ...record.reproduce.recorded_data import runs_with_data

    project = _project()
    if project is None:
        return []
    return runs_with_data(project, {sha256_of_hashes(old)})


def _project() -> Project | None:
    try:
        return this_project()
    except LabError:
        return None
