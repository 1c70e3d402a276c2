"""`lab data push`, `pull` and `list`: data files that a group shares by their content."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from ...config.signature import signature_of
from ...errors import Failed, LabError, Refused
from ...hdf5.file.errors import DataFileError
from ...hdf5.file.find import (
    config_file_of,
    data_files_of,
    find_data_file,
    find_data_files,
    names_one_file,
    place_of,
    read_data_section,
    writable_directory,
)
from ...hdf5.file.part import continue_at, open_part, read_blocks
from ...machine.terminal import printable
from ...machine.text_table import TextColumn, text_table
from ...project import Project, read_yaml
from ...record.files.atomic import write_file
from ...record.files.forms import RELATIVE_PATH, problem_in
from ...record.list.find import RUN_HELP, find_run
from ...record.read.roots import run_roots
from ...record.read.run import Run
from ...record.reproduce.recorded_data import stored_place
from .folder import FolderStore
from .store import PLACE, Store, StoredData, StoredFile, find_stored

PLACE_HELP = "a folder of the group, ssh://HOST/FOLDER, or s3://BUCKET/FOLDER"
RUN_WORD = re.compile(r"@.*|\d{8}-\d.*")  # how the word for a run begins
STORED_LINE = re.compile(r"^stored:.*\n?", re.MULTILINE)
SHOWN_DIGITS = 12


@contextmanager
def open_store(project: Project, place: str) -> Iterator[Store]:
    """The store at a place; a relative folder counts from the project.

    Raises:
        LabError: it is no such place, or its host does not answer.
    """
    problem = problem_in(place, Annotated[str, PLACE])
    if problem:
        raise LabError(f"the place of the data {problem}. Write such as: /group/data")
    if place.startswith("ssh://"):
        from .ssh import ssh_store

        with ssh_store(place) as store:
            yield store
    elif place.startswith("s3://"):
        from .s3 import S3Store

        yield S3Store(place)
    else:
        yield FolderStore(project.root / Path(place).expanduser())


def push_command(project: Project, args: list[str]) -> None:
    """Copies the file of a data set to a place of the group, and notes the place in its YAML.

    Raises:
        LabError: no such data set or place, or the file is damaged.
        Failed: the copy was cut; the next one goes on there.
    """
    parser = argparse.ArgumentParser(
        "lab data push",
        description="Copies the file of a data set to a place of the group, under the hash of its "
        "content, unless it is there. A push that was cut goes on where it was.",
    )
    parser.add_argument("name", help="a file of conf/data without .yaml, or a trial with data")
    parser.add_argument("place", nargs="?", help=f"{PLACE_HELP} (default: where it was last)")
    options = parser.parse_args(args)
    section = read_data_section(project, options.name)
    files = data_files_of(project, options.name)
    path = files[0]
    if len(files) > 1:
        raise LabError(
            f"{options.name} is {len(files)} files, and push shares one. Copy their folder: "
            f"rsync -a {path.parent} PLACE"
        )
    if path.is_dir():
        raise LabError(f"{path} is a folder. Pack it into one file first: lab data pack --help")
    place = typed(options.place)
    if place is None and section.get("stored") is None:
        raise LabError(f"say where to: lab data push {options.name} PLACE. It is {PLACE_HELP}")
    place = place or stored_in(section, options.name)["place"]
    sha256 = content_of(path)
    with open_store(project, place) as store:
        found = find_stored(store, sha256)
        if found is None:
            file = f"{sha256}-{options.name}.h5"
            with byte_bar(f"pushing {path.name}", path.stat().st_size) as bar:
                store.push(path, file, bar.update)
            print(f"{place}: {file}")
        else:
            print(f"{place} has it already: {found.file}")
    note_place(project, StoredData(name=options.name, place=place, sha256=sha256))


def typed(place: str | None) -> Any:
    """A place as it was typed, or None; a folder counts from the current directory."""
    return place if place is None or "://" in place else os.path.abspath(place)


def content_of(path: Path) -> str:
    """The hash of a data file's content, all of it verified.

    Raises:
        DataFileError: it is damaged, or none of `lab data pack`.
    """
    from ...hdf5.file.checksum import fingerprint  # needs NumPy, which a list does without

    return fingerprint(path)["sha256"]


def byte_bar(description: str, n_bytes: int) -> Any:
    from ...hdf5.file.progress import byte_progress

    return byte_progress(description, n_bytes)


def note_place(project: Project, stored: StoredData) -> None:
    """Writes the line `stored` into the YAML of a data set; where that cannot be, prints it."""
    name = stored["name"]
    section = read_data_section(project, name)
    if section.get("stored") == stored:
        return
    items = ", ".join(f"{key}: {json.dumps(value)}" for key, value in stored.items())
    line = f"stored: {{{items}}}\n"
    file = config_file_of(project, name)
    shown = os.path.relpath(file)
    signature = signature_of(section["_target_"])
    if not (signature.takes_any or "stored" in signature.names):
        print(
            f"{section['_target_']} takes no argument `stored`: pass **kwargs on to H5DataModule."
        )
        print(f"Then write into {shown}: {line.strip()}")
    elif file.stem != name:  # the data of a trial are a part of its YAML
        print(f"write into the section data of {shown}:\n  {line.strip()}")
    else:
        text = STORED_LINE.sub("", file.read_text(encoding="utf-8")).rstrip("\n")
        write_file(file, f"{text}\n{line}")
        print(f"{shown} names the place. Commit it: others then type lab data pull {name}")


def stored_in(section: dict[str, Any], name: str) -> StoredData:
    """The setting `stored` of a data set, which may be a stranger's.

    Raises:
        LabError: it is missing, or has not its form.
    """
    stored = section.get("stored")
    if stored is None:
        raise LabError(
            f"the YAML of {name} names no place. Where the file is, type: lab data push {name} PLACE"
        )
    problem = problem_in(stored, StoredData)
    if problem:
        raise LabError(
            f"the setting stored of {name}: {problem}. Write it again: lab data push {name} PLACE"
        )
    return stored


def pull_command(project: Project, args: list[str]) -> None:
    """Fetches the file of a data set, or the one that a run read, and checks every byte.

    Raises:
        LabError: nobody says where it lies.
        Refused: another file has its name.
        Failed: it is not there, the copy was cut, or its content is not what its hash says.
    """
    parser = argparse.ArgumentParser(
        "lab data pull",
        description="Fetches the file of a data set that was pushed, or the one that a run read. A "
        "pull that was cut goes on where it was.",
    )
    parser.add_argument("name", help=f"a file of conf/data without .yaml; or a run: {RUN_HELP}")
    parser.add_argument("place", nargs="?", help=f"{PLACE_HELP} (default: as the YAML says)")
    options = parser.parse_args(args)
    is_set = config_file_of(project, options.name).exists()
    if RUN_WORD.fullmatch(options.name) and not is_set:
        run = find_run(run_roots(project), options.name)
        pull_for_run(project, run, typed(options.place) or stored_place(project, run))
        return
    section = read_data_section(project, options.name)
    if not names_one_file(section["path"]):
        raise LabError(
            f"{options.name} is a data set of several files, and pull fetches one. Copy their folder"
        )
    stored = stored_in(section, options.name)
    target = target_of(project, section["path"], stored["sha256"], options.name)
    if target is not None:
        pull(project, typed(options.place) or stored["place"], stored["sha256"], target)


def target_of(project: Project, path: str, sha256: str, name: str) -> Path | None:
    """Where the file of a data set goes; None when it is here.

    Raises:
        LabError: it leads out of paths.data, or no directory of paths.data can be written to.
        Refused: another file has its name.
    """
    problem = RELATIVE_PATH.problem(path)
    if problem:
        raise LabError(
            f"the path of {name}{problem}, below a directory of paths.data. "
            f"Write such as: path: {name}.h5"
        )
    try:
        found = find_data_file(path, project.paths.data)
    except DataFileError:
        return writable_directory(project) / path
    if content_of(found) != sha256:
        raise Refused(
            f"{found} holds other data than were pushed. Move it away, then again: lab data pull {name}"
        )
    print(f"{found} is what was pushed; there is nothing to fetch")
    return None


def pull_for_run(project: Project, run: Run, place: str | None) -> None:
    """Fetches the data file that a run read, under its name where no file has it, else with its hash.

    Raises:
        LabError: nobody says where it lies, or the run recorded none.
    """
    from ...hdf5.pack.recover import data_that_are_there, free_path

    if "size_bytes" not in run.data:
        raise LabError(f"{run.id} recorded no data file. See: lab runs show {run.id}")
    if "files" in run.data:
        raise LabError(
            f"{run.id} read {len(run.data['files'])} files, and pull fetches one. Copy the folder "
            f"{run.data['path']}"
        )
    found = data_that_are_there(project, run)
    if found:
        print(f"{found} is what {run.id} read; there is nothing to fetch")
        return
    if place is None:
        raise LabError(
            f"neither {run.id} nor a file of conf/data says where its data lie. "
            f"Type it: lab data pull {run.id} PLACE"
        )
    pull(project, place, run.data["sha256"], free_path(project, run))
    print(f"next: lab runs reproduce {run.id}")


def pull(project: Project, place: str, sha256: str, target: Path) -> None:
    """Fetches the file of this content to `target`, where it appears when all of it is verified.

    Raises:
        Failed: it is not there, the copy was cut, or its content is not what its hash says.
    """
    with open_store(project, place) as store:
        found = find_stored(store, sha256)
        if found is None:
            raise Failed(
                f"{place} has no file of the hash {sha256[:SHOWN_DIGITS]}…. "
                f"See what it has: lab data list {place}"
            )
        fetch(store, found, target)
    print(f"{target}: verified, sha256 {sha256}")


def fetch(store: Store, found: StoredFile, target: Path) -> None:
    """Copies a file from a store to `target`, by a hidden file next to it.

    Raises:
        Failed: the copy was cut, or its content is not what its name says.
    """
    from ...hdf5.file.atomic_file import explain_write_errors, publish
    from ...hdf5.file.checksum import fingerprint
    from ...hdf5.file.layout import read_layout
    from ...machine.disk import require_free_space

    with explain_write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{found.sha256[:SHOWN_DIGITS]}.part")
    with open_part(part) as copy:
        start = continue_at(copy, found.size_bytes)
        require_free_space(target.parent, found.size_bytes - start)
        with byte_bar(f"fetching {target.name}", found.size_bytes) as bar:
            bar.update(start)
            with store.open(found.file, start) as stream:
                for block in read_blocks(stream):
                    copy.write(block)
                    bar.update(len(block))
                    if copy.tell() > found.size_bytes:
                        break  # a stream may have no end
        copy.flush()
        n_bytes = os.fstat(copy.fileno()).st_size
        if n_bytes < found.size_bytes:
            raise Failed(
                f"{found.file} was cut: {n_bytes} of {found.size_bytes} bytes. Type the same again"
            )
        try:
            is_right = fingerprint(part)["sha256"] == found.sha256
            reason = "its content has another hash than its name"
        except DataFileError as error:
            is_right, reason = False, str(error).replace(str(part), found.file)
        if not is_right:
            part.unlink()
            raise Failed(
                f"{found.file} is refused: {reason}\nNothing of it was kept. Try again; if that "
                "fails, delete it there, and push the file again where it is whole"
            )
        publish(part, target)
    fingerprint(read_layout(target), verified=True)  # so that the first training need not


def list_command(project: Project, args: list[str]) -> None:
    """Prints the data sets of the project, and where they are; or the files of a place.

    Raises:
        LabError: no such place.
    """
    parser = argparse.ArgumentParser(
        "lab data list",
        description="The data sets of the project, and where their files are; or what a place holds.",
    )
    parser.add_argument("place", nargs="?", help=PLACE_HELP)
    place = parser.parse_args(args).place
    if place is None:
        columns = data_sets(project)
    else:
        with open_store(project, typed(place)) as store:
            columns = files_of(store)
    for line in text_table(columns):
        print(line)


def files_of(store: Store) -> list[TextColumn]:
    files = store.files()
    days = [datetime.fromtimestamp(file.changed_s, UTC).strftime("%Y-%m-%d") for file in files]
    return [
        TextColumn("data", [file.name for file in files]),
        TextColumn("MB", [f"{file.size_bytes / 1e6:.1f}" for file in files], on_right=True),
        TextColumn("since", days),
        TextColumn("sha256", [file.sha256[:SHOWN_DIGITS] for file in files]),
    ]


def data_sets(project: Project) -> list[TextColumn]:
    """The files of conf/data: their names, where their data lie, where these were pushed to."""
    names, here, pushed = [], [], []
    for file in sorted((project.source / "conf" / "data").glob("*.yaml")):
        section = read_yaml(file)
        stored = section.get("stored")
        names.append(file.stem)
        pushed.append(printable(stored.get("place")) if isinstance(stored, dict) else "-")
        try:
            here.append(
                str(place_of(find_data_files(section.get("path") or [], project.paths.data)))
            )
        except DataFileError:
            here.append("-")
    return [
        TextColumn("data", names),
        TextColumn("file here", here),
        TextColumn("pushed to", pushed),
    ]
