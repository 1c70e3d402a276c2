"""`lab data push`, `pull` and `list`: data files that a group shares by their content."""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from ...command_parser import CommandParser
from ...config.targets import signature_of
from ...errors import Failed, LabError, NotComparable, Refused
from ...hdf5.file.atomic_file import continue_at, open_part, read_blocks
from ...hdf5.file.errors import DataFileError
from ...hdf5.file.find import (
    config_file_of,
    data_files_in,
    find_data_file,
    find_data_files,
    names_one_file,
    place_of,
    read_data_section,
    writable_directory,
)
from ...machine.progress import byte_progress
from ...machine.text_formats import printable
from ...machine.text_table import TextColumn, text_table
from ...project import Project, read_yaml
from ...record.files.atomic import write_file
from ...record.files.forms import RelativePath, problem_in
from ...record.read.find import RUN_HELP, find_run
from ...record.read.run import Run, run_roots
from ...record.reproduce.recorded_inputs import (
    find_recorded_data,
    find_recorded_file,
    is_same_data,
    kept_path,
    recorded_files,
    relative_name,
    stored_place,
)
from .store import PLACE, FolderStore, Store, StoredData, StoredFile, StoredPart, files_by_content

PLACE_HELP = "a folder of the group, ssh://HOST/FOLDER, or s3://BUCKET/FOLDER"
RUN_WORD = re.compile(r"@.*|\d{8}-\d.*")  # how the word for a run begins
STORED_LINES = re.compile(r"^stored:.*\n?(?:[ \t]+\S.*\n?)*", re.MULTILINE)
SHOWN_DIGITS = 12


@contextmanager
def open_store(project: Project, place: str) -> Iterator[Store]:
    """The store at a place; a relative folder counts from the project."""
    problem = problem_in(place, Annotated[str, PLACE])
    if problem:
        raise LabError(f"the place of the data: {problem}. Write such as: /group/data")
    if place.startswith("ssh://"):
        from .store import ssh_store

        with ssh_store(place) as store:
            yield store
    elif place.startswith("s3://"):
        from .store import S3Store

        yield S3Store(place)
    else:
        yield FolderStore(project.root / Path(place).expanduser())


def push_command(project: Project, args: list[str]) -> None:
    """Copies the files of a data set to a place of the group, and notes the place in its YAML."""
    parser = CommandParser(
        "lab data push",
        description="Copies the files of a data set to a place of the group, each under the hash of "
        "its content, unless it is there. A push that was cut goes on where it was.",
    )
    parser.add_argument("name", help="a file of conf/data without .yaml, or a trial with data")
    parser.add_argument("place", nargs="?", help=f"{PLACE_HELP} (default: where it was last)")
    options = parser.parse_args(args)
    section = read_data_section(project, options.name)
    files = find_data_files(
        section["path"], project.paths.data, section.get("pack"), section.get("stored")
    )
    if files[0].is_dir():
        raise LabError(f"{files[0]} is a folder. Pack it into one file first: lab data pack --help")
    place = typed(options.place)
    if place is None and section.get("stored") is None:
        raise LabError(f"say where to: lab data push {options.name} PLACE. It is {PLACE_HELP}")
    place = place or stored_in(section, options.name)["place"]
    stored, hashes = content_to_store(project, options.name, section["path"], files, place)
    with open_store(project, place) as store:
        there = files_by_content(store)
        pushed: set[str] = set()
        for path, sha256 in zip(files, hashes, strict=True):
            if sha256 in there:
                if not store.holds(there[sha256], path):
                    raise Failed(
                        f"{there[sha256].file} is there with other bytes than its name says. "
                        "Delete it there, then type the same again"
                    )
                print(f"{place} has it already: {there[sha256].file}")
                continue
            if sha256 in pushed:
                continue
            pushed.add(sha256)
            file = f"{sha256}-{options.name}.h5"
            with byte_progress(f"pushing {path.name}", path.stat().st_size) as bar:
                store.push(path, file, bar.update)
            print(f"{place}: {file}")
    note_place(project, stored)


def content_to_store(
    project: Project, name: str, path: Any, files: Sequence[Path], place: str
) -> tuple[StoredData, list[str]]:
    """What is noted of a data set, all of it verified, and the hash of each file."""
    from ...hdf5.file.checksum import fingerprint  # needs NumPy, which a list does without
    from ...hdf5.file.joined import read_layouts

    content = fingerprint(read_layouts(files, is_whole=isinstance(path, str)))
    hashes = [part["sha256"] for part in content.get("files", [content])]
    stored = StoredData(name=name, place=place, sha256=content["sha256"])
    if not names_one_file(path):
        names = [name_below(project, file, name) for file in files]
        stored["files"] = [
            StoredPart(path=name, sha256=sha256) for name, sha256 in zip(names, hashes, strict=True)
        ]
    return stored, hashes


def name_below(project: Project, file: Path, name: str) -> str:
    """The path of a file from its directory of paths.data on."""
    below = [file.relative_to(each) for each in project.paths.data if file.is_relative_to(each)]
    if not below or problem_in(below[0].as_posix(), RelativePath):
        raise LabError(
            f"{file} lies in no directory of paths.data, so that nobody knows where pull should put it. "
            f"Write the path of {name} as seen from one, such as path: {name}/"
        )
    return below[0].as_posix()


def typed(place: str | None) -> Any:
    """A place as it was typed, or None; a folder counts from the current directory."""
    return place if place is None or "://" in place else os.path.abspath(place)


def note_place(project: Project, stored: StoredData) -> None:
    """Writes the line `stored` into the YAML of a data set; where that cannot be, prints it."""
    name = stored["name"]
    section = read_data_section(project, name)
    before = section.get("stored")
    if before == stored:
        return
    gone = listed_files(before) - listed_files(stored)
    if gone:
        print(f"no longer among the files of {name}: {', '.join(sorted(gone))}")
    line = yaml_line(stored)
    file = config_file_of(project, name)
    shown = os.path.relpath(file)
    signature = signature_of(section["_target_"])
    if not (signature.takes_any or "stored" in signature.names):
        print(
            f"{section['_target_']} takes no argument `stored`: pass **kwargs on to H5DataModule."
        )
        print(f"Then write into {shown}: {line.strip()}")
    elif file.stem != name:  # the data of a trial are a part of its YAML
        print(f"write into the section data of {shown}:\n{textwrap.indent(line, '  ').rstrip()}")
    else:
        text = STORED_LINES.sub("", file.read_text(encoding="utf-8")).rstrip("\n")
        write_file(file, f"{text}\n{line}")
        print(f"{shown} names the place. Commit it: others then type lab data pull {name}")


def listed_files(stored: Any) -> set[str]:
    """The paths that a setting `stored` lists, which may be of any form."""
    if problem_in(stored, StoredData):
        return set()
    return {file["path"] for file in stored.get("files", [])}


def yaml_line(stored: StoredData) -> str:
    """The setting `stored` as YAML; of several files each has a line of its own."""
    items = [f"{key}: {json.dumps(value)}" for key, value in stored.items() if key != "files"]
    files = [
        f'\n  {{path: {json.dumps(file["path"], ensure_ascii=False)}, sha256: "{file["sha256"]}"}}'
        for file in stored.get("files", [])
    ]
    if files:
        items.append(f"files: [{','.join(files)}]")
    return f"stored: {{{', '.join(items)}}}\n"


def stored_in(section: dict[str, Any], name: str) -> StoredData:
    """The setting `stored` of a data set, which may be a stranger's."""
    stored = section.get("stored")
    if stored is None:
        raise LabError(
            f"the YAML of {name} names no place. Where the file is, type: lab data push {name} PLACE"
        )
    problem = problem_in(stored, StoredData)
    if problem is None and names_one_file(section["path"]) == ("files" in stored):
        problem = f"it is of another path than {section['path']}"
    if problem is None and "files" in stored:
        from ...hdf5.file.checksum import sha256_of_files

        if sha256_of_files([file["sha256"] for file in stored["files"]]) != stored["sha256"]:
            problem = "its hash is not that of its files"
    if problem:
        raise LabError(
            f"the setting stored of {name}: {problem}. Write it again, where the data are: "
            f"lab data push {name} PLACE"
        )
    return stored


def pull_command(project: Project, args: list[str]) -> None:
    """Fetches the files of a data set, or those that a run read, and checks every byte."""
    parser = CommandParser(
        "lab data pull",
        description="Fetches the files of a data set that was pushed, or those that a run read. A "
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
    stored = stored_in(section, options.name)
    if "files" in stored:
        wanted = targets_of(project, section["path"], stored["files"], options.name)
    else:
        wanted = target_of(project, section["path"], stored["sha256"], options.name)
    if wanted:
        pull(project, typed(options.place) or stored["place"], wanted)


def targets_of(
    project: Project, path: Any, files: Sequence[StoredPart], name: str
) -> dict[Path, str]:
    """Where those of several files of a data set go that are not here, and their hashes."""
    directories = [
        each for each in project.paths.data if any((each / file["path"]).exists() for file in files)
    ]
    directory = directories[0] if directories else writable_directory(project)
    targets = {directory / file["path"]: file["sha256"] for file in files}
    for target, sha256 in targets.items():
        if target.exists():
            require_content(target, sha256, name)
    missing = {target: sha256 for target, sha256 in targets.items() if not target.exists()}
    if not missing:
        print(f"{place_of([*targets])} is what was pushed; there is nothing to fetch")
        return {}
    with suppress(DataFileError):
        for other in find_data_files(path, [directory]):
            if other not in targets and not other.is_dir():
                raise Refused(
                    f"{other} was not pushed, and would be read with the others. Move it away, then "
                    f"again: lab data pull {name}"
                )
    return missing


def target_of(project: Project, path: str, sha256: str, name: str) -> dict[Path, str]:
    """Where the file of a data set goes, and its hash; nothing when it is here."""
    problem = problem_in(path, RelativePath)
    if problem:
        raise LabError(
            f"the path of {name}: {problem}. It counts from a directory of paths.data. "
            f"Write such as: path: {name}.h5"
        )
    try:
        found = find_data_file(path, project.paths.data)
    except DataFileError:
        return {writable_directory(project) / path: sha256}
    require_content(found, sha256, name)
    print(f"{found} is what was pushed; there is nothing to fetch")
    return {}


def require_content(found: Path, sha256: str, name: str) -> None:
    """Makes sure that a file holds what was pushed under its name."""
    from ...hdf5.file.checksum import fingerprint

    if fingerprint(found)["sha256"] != sha256:
        raise Refused(
            f"{found} holds other data than were pushed. Move it away, then again: lab data pull {name}"
        )


def pull_for_run(project: Project, run: Run, place: str | None) -> None:
    """Fetches the data files that a run read, see `missing_files`."""
    if "size_bytes" not in run.data:
        raise LabError(f"{run.id} recorded no data file. See: lab runs show {run.id}")
    found = data_that_are_there(project, run)
    if found:
        print(f"{found} is what {run.id} read; there is nothing to fetch")
        return
    if place is None:
        raise LabError(
            f"neither {run.id} nor a file of conf/data says where its data lie. "
            f"Type it: lab data pull {run.id} PLACE"
        )
    pull(project, place, missing_files(project, run))
    print(f"next: lab runs reproduce {run.id}")


def data_that_are_there(project: Project, run: Run) -> Path | None:
    """The data of a run, wherever they lie; None when they are gone or damaged."""
    from ...hdf5.file.checksum import fingerprint
    from ...hdf5.file.joined import read_layouts

    with suppress(NotComparable, DataFileError):
        paths = find_recorded_data(project, run)
        if paths and is_same_data(run.data, fingerprint(read_layouts(paths))):
            return place_of(paths)
    return None


def missing_files(project: Project, run: Run) -> dict[Path, str]:
    """Where each data file of a run goes that is not here, and its hash.

    It has its name where no file has it, else its hash in it; in a folder of other files it would
    become one of theirs, so that it goes next to it.
    """
    from ...hdf5.file.checksum import fingerprint

    directory = writable_directory(project)
    if "files" not in run.data:
        path = directory / Path(run.data["path"]).name
        sha256 = run.data["sha256"]
        return {kept_path(path, sha256) if path.exists() else path: sha256}
    missing = {}
    for file in recorded_files(run.data):
        with suppress(NotComparable, DataFileError):
            if is_same_data(file, fingerprint(find_recorded_file(project, run, file))):
                continue
        name = relative_name(run, file)
        problem = problem_in(name, RelativePath)
        if problem:
            raise LabError(f"a data file of {run.id}: {problem}. Its record is not to be trusted")
        path = directory / name
        if path.exists():
            path = kept_path(path, file["sha256"])
        elif path.parent != directory and data_files_in(path.parent):
            path = kept_path(directory / path.name, file["sha256"])
        missing[path] = file["sha256"]
    return missing


def pull(project: Project, place: str, wanted: Mapping[Path, str]) -> None:
    """Fetches files by their hashes. None appears under its name before all of them are verified."""
    from ...hdf5.file.atomic_file import publish
    from ...hdf5.file.checksum import fingerprint
    from ...hdf5.file.layout import read_layout

    with open_store(project, place) as store, ExitStack() as opened:
        there = files_by_content(store)
        for sha256 in wanted.values():
            if sha256 not in there:
                raise Failed(
                    f"{place} has no file of the hash {sha256[:SHOWN_DIGITS]}…. "
                    f"See what it has: lab data list {place}"
                )
        parts = {
            target: fetch(store, there[sha256], target, opened) for target, sha256 in wanted.items()
        }
        for target, part in parts.items():
            publish(part, target)
    for target, sha256 in wanted.items():
        fingerprint(read_layout(target), verified=True)  # so that the first training need not
        print(f"{target}: verified, sha256 {sha256}")


def fetch(store: Store, found: StoredFile, target: Path, opened: ExitStack) -> Path:
    """Copies a file from a store to a hidden file next to `target`, verified, which it returns.

    Args:
        opened: keeps it locked.

    Raises:
        Failed: the copy was cut, or its content is not what its name says.
    """
    from ...hdf5.file.atomic_file import explain_write_errors
    from ...hdf5.file.checksum import fingerprint
    from ...machine.disk import require_free_space

    with explain_write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{found.sha256[:SHOWN_DIGITS]}.part")
    copy = opened.enter_context(open_part(part))
    start = continue_at(copy, found.size_bytes)
    require_free_space(target.parent, found.size_bytes - start)
    with byte_progress(f"fetching {target.name}", found.size_bytes) as bar:
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
    return part


def list_command(project: Project, args: list[str]) -> None:
    """Prints the data sets of the project, and where they are; or the files of a place."""
    parser = CommandParser(
        "lab data list",
        description="The data sets of the project, and where their files are; or what a place holds.",
    )
    parser.add_argument("place", nargs="?", help=PLACE_HELP)
    place = parser.parse_args(args).place
    if place is None:
        columns = data_sets(project)
    else:
        with open_store(project, typed(place)) as store:
            files = store.files()
        if not files:
            shown = printable(place)
            print(f"{shown} holds no data. To put some there: lab data push NAME {shown}")
            return
        columns = columns_of(files)
    for line in text_table(columns):
        print(line)


def columns_of(files: list[StoredFile]) -> list[TextColumn]:
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
