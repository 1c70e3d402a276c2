"""`lab data append`: raw data become one more file of a data set; its other files stay as they are."""

import os
import re
import shlex
import shutil
from contextlib import suppress
from dataclasses import replace
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
    folder = folder_of(project, options.name)
    end_cleanly()
    damaged = DamagedSamples(options.skip_damaged)
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    told = f"another process adds a file to {folder}; this one waits"
    with one_at_a_time(folder, told):  # a disk without locks: below, the folder is compared
        made = add_file(project, options, args, folder, damaged)
    layout = read_layouts(data_files_in(folder), is_whole=True)
    fingerprint(layout)
    print_content(layout)
    n_samples = read_layout(made).n_samples
    print(f"  added {made.name}: {n_samples} samples")
    names = folder.with_name(f"{folder.name}{NAMES_SUFFIX}")
    if names.exists():
        print(f"  {os.path.relpath(names)} has no lines for them")
    print_reasons(damaged, n_samples)


def folder_of(project: Project, name: str) -> Path:
    """The folder with the files of a data set; one file becomes the first in a folder of its own."""
    path = read_data_config(project, name).path
    if not isinstance(path, str) or any(letter in path for letter in "*?["):
        raise LabError(
            f"path: {path} of {name} is no folder, so that a new file may not be among its files. "
            f"Write a folder that holds them all, such as path: {name}/"
        )
    if not names_one_file(path):
        with suppress(DataFileError):
            return find_data_file(path, project.paths.data)
        return writable_directory(project) / path
    return folder_for_file(project, name, path)


def folder_for_file(project: Project, name: str, path: str) -> Path:
    """A folder with the file at `path` as its first, under a second name, so that its runs find it;
    the YAML names the folder from now on.
    """
    file = find_data_file(path, project.paths.data, read_data_config(project, name).pack)
    folder = file.with_suffix("")
    first = folder / f"{folder.name}-0001.h5"
    content = sha256_of_hashes(read_layout(file))
    there = data_files_in(folder)
    if there and (there[0] != first or sha256_of_hashes(read_layout(first)) != content):
        raise LabError(
            f"{folder} holds other data files than {file}, which would be the first there. Move it "
            f"away; or write path: {Path(path).with_suffix('')}/ to read these instead"
        )
    if not there:
        with temporary_directory_next_to(first) as directory, explain_write_errors(first):
            try:
                os.link(file.resolve(), directory / first.name)
            except OSError:  # a disk without hard links
                shutil.copyfile(file, directory / first.name)
            publish(directory / first.name, first)
    name_folder(project, name, path, f"{Path(path).with_suffix('')}/")
    return folder


def name_folder(project: Project, name: str, path: str, folder: str) -> None:
    """Has the YAML of a data set name its folder."""
    file = config_directory(project) / f"{name}.yaml"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    line = re.compile(rf"^path: (['\"]?){re.escape(path)}\1(?=\s|$)", re.MULTILINE)
    if len(line.findall(text)) != 1:
        raise LabError(
            f"{path} becomes the first file of a folder. Write path: {folder} into "
            f"{config_file_of(project, name)}, then type the same again"
        )
    write_whole(file, line.sub(lambda _: f"path: {folder}", text))
    print(f"  {os.path.relpath(file)}: path: {folder}")


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
    project: Project, options: PackOptions, args: list[str], folder: Path, damaged: DamagedSamples
) -> Path:
    """The new file, which takes its name when all of it is on the disk and fits to the others."""
    files = data_files_in(folder)
    old = read_layouts(files, is_whole=True) if files else None
    target = folder / next_name(folder, files)
    command = pack_command_line(args, options, project.root, "append")
    origin = {"command": command} | code_version(project.root)
    if old:
        origin[FOLLOWS] = sha256_of_hashes(old)
        options = with_known_names(options, old)
    with temporary_directory_next_to(target) as directory:
        made = directory / target.name
        pack(config_of(project, options), made, options, damaged, origin)
        new = read_layout(made)
        if old:
            check_fits(old, new, target)
        if data_files_in(folder) != files:
            raise Failed(
                f"nothing was added: another process changed {folder} meanwhile. Type the same again"
            )
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
