"""`lab data append`: raw data become one more file of a data set; its other files stay as they are."""

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import Failed, LabError
from ...project import Project
from ..file.atomic_file import (
    explain_write_errors,
    one_at_a_time,
    publish,
    temporary_directory_next_to,
)
from ..file.checksum import fingerprint, sha256_of_arrays, sha256_of_hashes
from ..file.errors import DataFileError
from ..file.find import (
    config_file_of,
    data_files_in,
    find_data_file,
    find_data_files,
    names_one_file,
    read_data_config,
    writable_directory,
)
from ..file.groups import KnownGroups, known_groups
from ..file.info import print_content
from ..file.joined import FOLLOWS, join_layouts, read_layouts
from ..file.layout import GROUP, Layout, read_layout
from .command import config_of, end_cleanly, pack, print_reasons
from .data_yaml import code_version, config_directory, pack_command_line, write_whole
from .options import PackOptions, known_names, name_to_append_to, parse_options
from .samples import DamagedSamples
from .split import NAMES_SUFFIX

NUMBER = re.compile(r".*-(\d{4,})")  # the stem of a file
PACK = ["lab", "data", "pack"]


def append_command(project: Project, args: list[str]) -> None:
    """Packs raw data into one more file of a data set."""
    options = parse_options(args, first_command(project, name_to_append_to(args)))
    if not options.sources:
        raise LabError(f"name the raw data to add: lab data append {options.name} SOURCE")
    if options.directory:
        raise LabError(f"the new file of {options.name} lies next to the others. Leave --to out")
    end_cleanly()
    damaged = DamagedSamples(options.skip_damaged)
    with locked_place(project, options.name) as place:
        made = add_file(project, options, args, place, damaged)
    folder = place.folder
    layout = read_layouts(data_files_in(folder), is_whole=True)
    fingerprint(layout)
    print_content(layout)
    n_samples = read_layout(made).n_samples
    print(f"  added {made.name}: {n_samples} samples")
    names = folder.with_name(f"{folder.name}{NAMES_SUFFIX}")
    if names.exists():
        print(f"  {os.path.relpath(names)} has no lines for them")
    print_reasons(damaged, n_samples)


@dataclass(frozen=True)
class Place:
    """Where the files of a data set lie.

    Args:
        path: as the YAML says it.
        folder: with all files.
        single: the only file, which becomes the first of the folder when another one is added.
    """

    path: str
    folder: Path
    single: Path | None = None

    @property
    def first(self) -> Path:
        """The name of the single file in the folder."""
        return self.folder / f"{self.folder.name}-0001.h5"

    @property
    def path_of_folder(self) -> str:
        """As the YAML says it once the single file is in the folder."""
        return f"{Path(self.path).with_suffix('')}/"

    @property
    def locked(self) -> Path:
        """The directory in which one process at a time adds a file."""
        return self.single.parent if self.single else self.folder


def place_of(project: Project, name: str) -> Place:
    """Where the files of a data set lie, as its YAML says."""
    config = read_data_config(project, name)
    path = config.path
    if not isinstance(path, str) or any(letter in path for letter in "*?["):
        raise LabError(
            f"path: {path} of {name} is no folder, so that a new file may not be among its files. "
            f"Write a folder that holds them all, such as path: {name}/"
        )
    if names_one_file(path):
        file = find_data_file(path, project.paths.data, config.pack)
        return Place(path, file.with_suffix(""), file)
    with suppress(DataFileError):
        return Place(path, find_data_file(path, project.paths.data))
    return Place(path, writable_directory(project) / path)


@contextmanager
def locked_place(project: Project, name: str) -> Iterator[Place]:
    """`place_of` a data set, to which nobody else adds a file meanwhile."""
    while True:
        place = place_of(project, name)
        with explain_write_errors(place.folder):
            place.locked.mkdir(parents=True, exist_ok=True)
        told = f"another process adds a file to {place.folder}; this one waits"
        # A disk without locks: before it is published, the folder is compared.
        with one_at_a_time(place.locked, told):
            if place_of(project, name) == place:  # the other process may have made the folder
                yield place
                return


def files_of(place: Place) -> list[Path]:
    """The files of a data set; those of the folder, once it has the single one."""
    there = data_files_in(place.folder)
    if place.single is None or not there:
        return there or [*filter(None, [place.single])]
    content = sha256_of_hashes(read_layout(place.single))
    if there[0] != place.first or sha256_of_hashes(read_layout(place.first)) != content:
        raise LabError(
            f"{place.folder} holds other data files than {place.single}, which would be the first "
            f"there. Move it away; or write path: {place.path_of_folder} to read these instead"
        )
    return there


def make_first(place: Place) -> None:
    """Gives the single file a second name in the folder, so that its runs find it under both."""
    if place.single is None or data_files_in(place.folder):
        return
    first = place.first
    with temporary_directory_next_to(first) as directory, explain_write_errors(first):
        try:
            os.link(place.single.resolve(), directory / first.name)
        except OSError:  # a disk without hard links
            shutil.copyfile(place.single, directory / first.name)
        publish(directory / first.name, first)


def name_folder(project: Project, name: str, place: Place) -> None:
    """Has the YAML of a data set name its folder."""
    file = config_directory(project) / f"{name}.yaml"
    write_whole(file, text_with_folder(project, name, place))
    print(f"  {os.path.relpath(file)}: path: {place.path_of_folder}")


def text_with_folder(project: Project, name: str, place: Place) -> str:
    """The text of the YAML of a data set, with the folder in place of the single file."""
    file = config_directory(project) / f"{name}.yaml"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    line = re.compile(rf"^path: (['\"]?){re.escape(place.path)}\1(?=\s|$)", re.MULTILINE)
    if len(line.findall(text)) != 1:
        make_first(place)
        raise LabError(
            f"{place.path} becomes the first file of a folder. Write path: {place.path_of_folder} into "
            f"{config_file_of(project, name)}, then type the same again"
        )
    return line.sub(lambda _: f"path: {place.path_of_folder}", text)


def first_command(project: Project, name: str) -> list[str]:
    """The words behind `lab data pack` of the command that made the first file; none of others."""
    path = read_data_config(project, name).path
    with suppress(DataFileError, ValueError):  # no file yet; a quote without its end
        first = find_data_files(path, project.paths.data)[0]
        words = shlex.split(str(read_layout(first).attrs.get("command", "")))
        if words[: len(PACK)] == PACK:
            return words[len(PACK) :]
    return []


def add_file(
    project: Project, options: PackOptions, args: list[str], place: Place, damaged: DamagedSamples
) -> Path:
    """The new file, which takes its name when all of it is on the disk and fits to the others.

    Before that nothing changes: a single file stays one when nothing can be added to it.
    """
    folder, there = place.folder, data_files_in(place.folder)
    files = files_of(place)
    if place.single:
        text_with_folder(project, options.name, place)  # or refuse, before all is packed
    old = read_layouts(files, is_whole=True) if files else None
    target = folder / next_name(folder, [place.first] if place.single in files else files)
    command = pack_command_line(args, options, project.root, "append")
    origin = {"command": command} | code_version(project.root)
    if old:
        origin[FOLLOWS] = sha256_of_hashes(old)
        options = with_known_names(options, old)
    beside = target if folder.is_dir() else folder.with_name(target.name)
    with temporary_directory_next_to(beside) as directory:
        made = directory / target.name
        pack(config_of(project, options), made, options, damaged, origin)
        new = read_layout(made)
        if old:
            check_fits(old, new, target)
        if data_files_in(folder) != there:
            raise Failed(
                f"nothing was added: another process changed {folder} meanwhile. Type the same again"
            )
        if place.single:
            make_first(place)
            name_folder(project, options.name, place)
        with explain_write_errors(target):
            publish(made, target)
    new_classes = known_names(new)[0].classes[len(options.known.classes) :] if old else []
    if new_classes:
        told = ", ".join(new_classes)
        print(f"  new classes: {told}. Not meant? Remove {os.path.relpath(target)}")
    return target


def next_name(folder: Path, files: list[Path]) -> str:
    """A name behind those that are there, such as climate-0002.h5."""
    numbers = [int(match[1]) for file in files if (match := NUMBER.fullmatch(file.stem))]
    stem = NUMBER.sub(lambda match: match[0][: -len(match[1]) - 1], files[-1].stem) if files else ""
    name = f"{stem or folder.name}-{max([len(files), *numbers]) + 1:04d}.h5"
    if files and name <= files[-1].name:
        raise DataFileError(
            f"{folder} holds {files[-1].name}, behind which a new file {name} would not come in the "
            "order of names. Rename the files: NAME-0001.h5, NAME-0002.h5 …"
        )
    return name


def with_known_names(options: PackOptions, old: Layout) -> PackOptions:
    """The options, with what numbers mean in the files that are there."""
    groups: KnownGroups | None = KnownGroups()
    if GROUP in old.fields:
        fingerprint(old)  # groups decide, so that each byte of them must be right
        groups = known_groups(old)
    if groups is None:
        raise LabError(
            f"{options.name} keeps groups together, and its files do not say which they hold, or number "
            "them differently: a group of the new data may be in another split. Pack all of it again: "
            "lab data pack NEW_NAME …"
        )
    known, columns = known_names(old)
    columns = options.columns or (columns if options.kind == "table" else [])
    return replace(options, known=replace(known, groups=groups), columns=columns)


def check_fits(old: Layout, new: Layout, target: Path) -> None:
    """Makes sure that a new file can be read with the others, and is none of them."""
    try:
        join_layouts([*old.parts, new])
    except DataFileError as error:
        message = str(error).replace(str(new.path), str(target.name))
        raise DataFileError(f"nothing was added. {message}") from error
    content = sha256_of_arrays(new)
    same = [part.path for part in old.parts if sha256_of_arrays(part) == content]
    if same:
        raise DataFileError(
            f"nothing was added: {same[0]} holds these samples already. Name other raw data"
        )
