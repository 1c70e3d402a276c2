"""The data of a submission: the host must have the files that this machine has, by their content."""

from __future__ import annotations

import hashlib
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from ..config.compose import Composition
from ..errors import LabError, Refused
from ..hdf5.file.errors import DataFileError
from ..hdf5.file.find import find_data_file
from ..hdf5.file.folder_fingerprint import fingerprint_folder
from ..hdf5.file.version_cache import keep_hash, read_hash, version_key
from ..project import Project


@dataclass(frozen=True)
class LocalData:
    """A data file or folder of the machine that submits.

    Args:
        path: where it lies there; None when it has none of this name.
        sha256: of its content; None when it has none.
    """

    path: str | None
    sha256: str | None


def local_data(points: list[Composition]) -> dict[str, LocalData]:
    """What this machine has of the data of some points, by `data.path` as it is configured."""
    data_by_name = {}
    for name, search in names_of(points).items():
        try:
            path = find_data_file(name, search).resolve()
        except LabError:  # also RUN:FILE of a run that only the host has
            data_by_name[name] = LocalData(None, None)
        else:
            data_by_name[name] = LocalData(str(path), content_hash(path))
    return data_by_name


def names_of(points: list[Composition]) -> dict[str, list[str]]:
    """Each `data.path` with its search path; data without a path is the user's own affair."""
    names = {}
    for point in points:
        section = point.config.get("data")
        path = section.get("path") if hasattr(section, "get") else None
        for name in [path] if isinstance(path, str) else path or []:
            names[name] = list(section.get("search") or point.config.paths.data)
    return names


def content_hash(path: Path) -> str:
    """The hash of a file of `lab data pack`, of a folder, or of any other file; remembered."""
    if path.is_dir():
        return fingerprint_folder(path)["sha256"]
    if path.suffix == ".h5":
        from ..hdf5.file.checksum import fingerprint  # needs NumPy, which the light labrig lacks

        return fingerprint(path)["sha256"]
    key = version_key(path)
    sha256 = read_hash(key)
    if sha256 is None:
        with open(path, "rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        keep_hash(key, sha256)
    return sha256


def check_data(
    project: Project, points: list[Composition], local: dict[str, LocalData], address: str
) -> None:
    """Makes sure, on the host, that its data is that of the machine that submits.

    Args:
        address: the host as `ssh` calls it, for the command that copies a file.
    """
    for name, search in names_of(points).items():
        at_sender = local.get(name, LocalData(None, None))
        try:
            path = find_data_file(name, search).resolve()
        except DataFileError as error:
            raise Refused(missing(project, name, at_sender, address)) from error
        sha256 = content_hash(path)
        if at_sender.sha256 is None:
            print(
                f"lab: {name} is only on the host, so it is compared with nothing: "
                f"sha256 {sha256[:12]}",
                file=sys.stderr,
            )
        elif sha256 != at_sender.sha256:
            raise Refused(
                f"{path} on the host has other content than yours: "
                f"sha256 {sha256[:12]} there, {at_sender.sha256[:12]} here.\n"
                f"To copy yours over it:\n  {copy_command(at_sender, address, path.parent)}"
            )


def missing(project: Project, name: str, there: LocalData, address: str) -> str:
    """What to type when the host has no data of a name."""
    folder = project.paths.data[0] if project.paths.data else project.root / "data"
    if there.path is None:
        return (
            f"the data {name} is neither here nor on the host, whose first place for it is "
            f"{folder}.\nMake it there, for example: lab submit on=HOST job.gpus=0 -- "
            f"lab data pack {Path(name).stem}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    return (
        f"the data {name} is not on the host. Copy it, then type the same again:\n"
        f"  {copy_command(there, address, folder)}"
    )


def copy_command(there: LocalData, address: str, folder: Path) -> str:
    """The command that copies the data of the machine that submits into a folder of the host."""
    source = str(there.path)
    return shlex.join(["rsync", "-avP", "--", source, f"{address}:{folder}/"])
