"""Finds the files of a data set by name: its YAML in conf/data or in a trial, then the directories of paths.data."""

import argparse
import glob
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...command_parser import CommandParser
from ...config.check_target import absolute_target, is_a
from ...errors import LabError, nearest
from ...project import Project, read_yaml, resolve_paths, this_project
from ...record.write.inputs import file_of_run, names_file_of_run
from .errors import DataFileError

KEPT = re.compile(r".+-[0-9a-f]{12}")  # the stem of a file whose name another one took


@dataclass(frozen=True)
class DataConfig:
    """What the commands need of a data set's YAML: the data module's class, and the file."""

    target: str
    path: str | list[str]
    pack: str | None  # the command that makes the file
    stored: Any = None  # where `lab data push` has put it


def config_file_of(project: Project, name: str) -> Path:
    """conf/data/NAME.yaml; else the config.yaml of the trial NAME, if it has data of its own."""
    file = project.source / "conf" / "data" / f"{name}.yaml"
    of_trial = project.source / "trials" / name / "config.yaml"
    if not file.exists() and "_target_" in section_of_trial(of_trial):
        return of_trial
    return file


def section_of_trial(file: Path) -> dict[str, Any]:
    """The section `data` of a trial's config.yaml; empty where there is none."""
    section = read_yaml(file).get("data") if file.exists() else None
    return section if isinstance(section, dict) else {}


def read_data_section(project: Project, name: str) -> dict[str, Any]:
    """The settings of a data set by its name; its class is named in full."""
    file = config_file_of(project, name)
    of_trial = file.name == "config.yaml" and file.parent.name == name
    if not file.exists():
        names = sorted(path.stem for path in file.parent.glob("*.yaml"))
        listed = ", ".join(names) or "none"
        raise LabError(f"no data set {name!r}{nearest(name, names)}. {file.parent} has: {listed}")
    section = section_of_trial(file) if of_trial else read_yaml(file)
    examples = {"_target_": "${package}.data.Digits", "path": "digits.h5"}
    for key, example in examples.items():
        value = section.get(key)
        texts = value if key == "path" and isinstance(value, list) and value else [value]
        if not all(isinstance(text, str) for text in texts):
            raise LabError(f"{file} has no line for {key}. Add one such as: {key}: {example}")
    target = section["_target_"].replace("${package}", project.package)
    return section | {"_target_": absolute_target(target, name) if of_trial else target}


def read_data_config(project: Project, name: str) -> DataConfig:
    """What the commands need of a data set, read before anything slow is imported."""
    section = read_data_section(project, name)
    return DataConfig(
        section["_target_"], section["path"], section.get("pack"), section.get("stored")
    )


def find_data_file(
    path: str | Path,
    search: Sequence[str | Path],
    command: str | None = None,
    stored: Any = None,
) -> Path:
    """`path` in the first directory of `search` that has it; an absolute path is taken as it is.

    RUN:FILE is a file of a run.

    Args:
        command: what makes the file, for the message when it is missing.
        stored: where `lab data push` has put it, for that message.

    Raises:
        DataFileError: no directory has it; lists them and the nearest name there is.
        LabError: RUN:FILE, and there is no such run or file.
    """
    path = Path(os.path.expandvars(path)).expanduser()
    advice = f"Make it with: {command or f'lab data pack {path.stem}'}"
    if isinstance(stored, Mapping):
        advice = f"Fetch it: lab data pull {stored.get('name', path.stem)}"
    if path.is_absolute():
        if not path.exists():
            raise DataFileError(f"{path}: No such file. {advice}")
        return path
    directories = _resolve_search(search)
    for directory in directories:
        if (directory / path).exists():
            return directory / path
    if names_file_of_run(str(path)):
        return file_of_run(str(path), this_project())
    names = [file.name for directory in directories for file in directory.glob("*.h5")]
    listed = ", ".join(map(str, directories)) or "an empty search path"
    suggestion = nearest(path.name, names)
    if not suggestion and not isinstance(stored, Mapping):
        advice += choice_of_other_data(names)
    raise DataFileError(f"no data file {path} in {listed}{suggestion}. {advice}")


def choice_of_other_data(files: Sequence[str]) -> str:
    """The end of that message, when another data set of conf/data has its file."""
    with suppress(LabError):  # outside of a project
        options = this_project().source / "conf" / "data"
        for name in sorted({Path(file).stem for file in files}):
            if (options / f"{name}.yaml").exists():
                return f". Or choose other data: data={name}"
    return ""


def find_data_files(
    path: str | Path | Sequence[str | Path],
    search: Sequence[str | Path],
    command: str | None = None,
    stored: Any = None,
) -> list[Path]:
    """The files of a data set: `path` is a file, a folder of them, a pattern such as `climate-*.h5`, or a
    list of these. Those of a folder or pattern come in the order of their names.

    Args:
        command, stored: as in `find_data_file`.

    Raises:
        DataFileError: one is not there, or is named twice.
    """
    if isinstance(path, str | Path):
        return _files_at(path, search, command, stored)
    files = [file for part in path for file in _files_at(part, search, command, stored)]
    twice = [file for number, file in enumerate(files) if file in files[:number]]
    if twice:
        raise DataFileError(f"data.path names {twice[0]} twice; write each file once")
    if not files:
        raise DataFileError("data.path names no file; write such as data.path=digits.h5")
    return files


def require_data_files(section: Mapping[str, Any]) -> None:
    """Makes sure that the files of a composed section `data` are there, before anything slow is imported."""
    if section.get("path") is not None and is_a(str(section.get("_target_")), "H5DataModule"):
        files_of_section(section)


def files_of_section(section: Mapping[str, Any]) -> list[Path]:
    """The files that a composed section `data` names, all of them."""
    search, stored = section.get("search") or ["data"], section.get("stored")
    search = [search] if isinstance(search, str) else search
    files = find_data_files(section["path"], search, section.get("pack"), stored)
    require_pushed(section["path"], files, stored)
    return files


def _files_at(
    path: str | Path, search: Sequence[str | Path], command: str | None, stored: Any
) -> list[Path]:
    if glob.has_magic(str(path)):
        pattern = Path(os.path.expandvars(path)).expanduser()
        for directory in _resolve_search(search):
            found = sorted(map(Path, glob.glob(str(directory / pattern))))
            if found:
                return without_kept(found)
    found = find_data_file(path, search, command, stored)
    return data_files_in(found) or [found]


def require_pushed(path: Any, files: Sequence[Path], stored: Any) -> None:
    """Makes sure that no file of a folder or pattern is missing which `lab data push` has put away.

    Args:
        path: as it is configured; a list names its files itself.
        stored: what `lab data push` wrote, if anything.
    """
    if not isinstance(path, str) or names_one_file(path) or not isinstance(stored, Mapping):
        return
    pushed = [str(file["path"]) for file in stored.get("files") or [] if "path" in file]
    names = {file.name for file in files}
    missing = [file for file in pushed if Path(file).name not in names]
    if missing:
        folder = files[0] if files[0].is_dir() else files[0].parent
        raise DataFileError(
            f"{folder} lacks {len(missing)} of the {len(pushed)} files that were pushed, such as "
            f"{Path(missing[0]).name}. Fetch it: lab data pull {stored.get('name', path)}"
        )


def names_one_file(path: Any) -> bool:
    """Whether a value of data.path is one file by its form: no folder, pattern or list."""
    return isinstance(path, str) and Path(path).suffix != "" and not glob.has_magic(path)


def data_files_in(folder: Path) -> list[Path]:
    """The .h5 files in a folder, in the order of their names."""
    return without_kept(sorted(folder.glob("[!.]*.h5")))


def place_of(files: Sequence[Path]) -> Path:
    """What several files are called together: their folder; the first where it holds others too."""
    is_whole = len(files) > 1 and data_files_in(files[0].parent) == list(files)
    return files[0].parent if is_whole else files[0]


def without_kept(files: list[Path]) -> list[Path]:
    """Without those that were kept for runs when another file took their name."""
    stems = {file.stem for file in files}
    kept = {file for file in files if KEPT.fullmatch(file.stem) and file.stem[:-13] in stems}
    return [file for file in files if file not in kept]


def _resolve_search(search: Sequence[str | Path]) -> list[Path]:
    root, package = Path.cwd(), ""
    with suppress(LabError):  # outside of a project, relative directories lie here
        project = this_project()
        root, package = project.root, project.package
    entries = [str(entry) for entry in search]
    return resolve_paths({"runs": ".", "data": entries}, root, package).data


def parser_for_one_file(command: str, description: str) -> argparse.ArgumentParser:
    """The parser of `lab data COMMAND NAME`."""
    parser = CommandParser(f"lab data {command}", description=description)
    parser.add_argument(
        "name", help="a file of conf/data without .yaml, a trial with data, or a data file"
    )
    return parser


def data_files_of(project: Project, name: str) -> list[Path]:
    """The files of a data set by its name, along paths.data; a path is taken as it is."""
    path = Path(name)
    if path.exists() or path.suffix:
        return data_files_in(path) or [path]
    config = read_data_config(project, name)
    files = find_data_files(config.path, project.paths.data, config.pack, config.stored)
    require_pushed(config.path, files, config.stored)
    return files


def writable_directory(project: Project) -> Path:
    """The first directory of paths.data that can be written to, or made."""
    directories = project.paths.data
    for directory in directories:
        existing = next(path for path in (directory, *directory.parents) if path.exists())
        if os.access(existing, os.W_OK | os.X_OK):
            return directory
    listed = ", ".join(map(str, directories))
    raise LabError(
        f"no directory of paths.data can be written to: {listed}. Name one with --to DIRECTORY."
    )
