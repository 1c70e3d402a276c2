"""The data that the points of a sweep read: their values compare only when it is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ..config.compose import compose
from ..errors import LabError
from ..hdf5.file.checksum import sha256_of_hashes
from ..hdf5.file.find import find_data_files, place_of
from ..hdf5.file.joined import read_layouts
from ..project import Project
from ..record.read.run import Run
from .folder import Sweep

HASH_CHARACTERS = 12


def data_files_of(config: DictConfig) -> list[Path]:
    """The packed files that a configuration names; none where it names none, or they are not here."""
    section: Any = config.get("data") or {}
    path, search = section.get("path"), section.get("search")
    if not path or not search:
        return []
    names = path if isinstance(path, str) else list(path)
    try:
        return find_data_files(names, [search] if isinstance(search, str) else list(search))
    except LabError:
        return []


def hash_of_data(config: DictConfig) -> str | None:
    """The content hash of these files, as a run records it; None without one.

    It is made from the hashes in the files: a run checks its bytes.
    """
    files = data_files_of(config)
    try:
        return sha256_of_hashes(read_layouts(files)) if files else None
    except (LabError, OSError):
        return None


def recorded_hash(run_dir: Path) -> str | None:
    """The content hash of the data that a run has read; None where it was not recorded."""
    return Run.open(run_dir).data.get("sha256")


def refuse_other_data(project: Project, sweep: Sweep) -> None:
    """Makes sure that the data file is the one with which a sweep began."""
    before = sweep.record.get("data_sha256")
    config = compose(project, sweep.overrides).config
    now = hash_of_data(config)
    if before and now and before != now:
        raise LabError(
            f"sweep {sweep.id} began with other data: {place_of(data_files_of(config))} had sha256 "
            f"{before[:HASH_CHARACTERS]}… then, and has {now[:HASH_CHARACTERS]}… now. Values of both "
            "do not compare. Bring the file back, or type the same lab sweep: it begins another search"
        )
