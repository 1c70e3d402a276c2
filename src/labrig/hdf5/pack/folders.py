"""Raw data in a folder or in tar archives: one file for each sample, one directory for each class."""

import json
import os
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..file.errors import DataFileError
from ..file.names import OTHER_NAMES
from ..file.parallel import map_in_order
from .options import PackOptions
from .samples import DamagedSamples, FilesSeen, RawFile, UnchangedFiles
from .sources import Source, hint, source_labels

TAR = ".tar"
# What folders and archives of one split are called, and the split
SPLIT_OF_WORD = {name: name for name in ("train", "val", "test")} | OTHER_NAMES


@dataclass(frozen=True)
class RawFiles:
    """All samples; `classes` is empty when there are no sub-directories."""

    files: list[RawFile]
    classes: list[str]


def open_class_folders(
    options: PackOptions, kind: str, suffixes: Sequence[str], damaged: DamagedSamples
) -> RawFiles:
    """The files of a kind, such as images, that lie in the sources; their classes are numbered
    together. What else lies there is counted in `damaged`.
    """
    files: list[RawFile] = []
    for source, label in zip(options.sources, source_labels(options.sources), strict=True):
        root = source.path
        if not root.is_dir() and root.suffix != TAR:
            raise DataFileError(
                f"{root} is not a directory, and no .tar; expected one with {kind} in a sub-directory "
                f"per class.{hint(root, kind)}"
            )
        of_source = _open_class_folder(source, kind, suffixes, damaged)
        if not of_source:
            raise DataFileError(
                f"{root} has no {kind} in it; expected files with {', '.join(suffixes)}.{hint(root, kind)}"
            )
        files += [replace(file, key=f"{label}{file.key}") for file in of_source]
    names = Counter(file.label for file in files if file.label is not None)
    spelling_of = options.spellings.choose("classes", names, options.known.classes)
    files = [replace(file, label=spelling_of.get(file.label or "", file.label)) for file in files]
    found = {file.label for file in files if file.label is not None}
    classes = options.known.and_new("classes", options.known.classes, found) if found else []
    without_class = [file for file in files if file.label is None]
    if classes and without_class:
        raise DataFileError(
            f"{without_class[0].path} is in no sub-directory, but other files are: "
            "expected one sub-directory per class."
        )
    return RawFiles(files, classes)


def _open_class_folder(
    source: Source, kind: str, suffixes: Sequence[str], damaged: DamagedSamples
) -> list[RawFile]:
    root = source.path
    if root.is_file():
        return open_tars(source, [root], suffixes, damaged)
    found = walk(root, suffixes)
    if not found.paths:
        tars = sorted(path for path in root.iterdir() if path.suffix == TAR)
        return open_tars(source, tars, suffixes, damaged)
    damaged.files.add(found.seen)
    n_around = n_directories_around([path.parts for path in found.paths])
    if n_around:
        around = root.joinpath(*found.paths[0].parts[:n_around])
        damaged.counts[f"directory lies around all classes: they are those in {around}"] = 1
    files = []
    for path in found.paths:
        parts = path.parts[n_around:]
        label = parts[0] if len(parts) > 1 else None
        files.append(RawFile(root / path, path.as_posix(), label, source.split))
    labels = {file.label for file in files}
    empty = sorted(found.directories - labels) if labels != {None} and not n_around else []
    if empty:
        raise DataFileError(
            f"{root} has classes without {kind}: {', '.join(empty)}. Remove them, or fill them."
        )
    return files


@dataclass
class Walk:
    """What lies below a directory: `paths` of a kind, relative to it and sorted, and all files."""

    paths: list[Path]
    directories: set[str]  # at the top, not hidden
    seen: FilesSeen


def is_hidden(name: str) -> bool:
    """Whether a tool made it, such as .DS_Store, ._1.png, .ipynb_checkpoints, __MACOSX, __pycache__."""
    return name.startswith((".", "__"))


def walk(root: Path, suffixes: Sequence[str]) -> Walk:
    """What lies below `root`; links are followed, each directory once."""
    found = Walk([], set(), FilesSeen())
    seen = {os.path.realpath(root)}
    for folder, directories, names in os.walk(root, followlinks=True):
        relative = Path(folder).relative_to(root)
        if any(map(is_hidden, relative.parts)):
            found.seen.hidden += [(relative / name).as_posix() for name in names]
            continue
        for name in [name for name in directories if not is_hidden(name)]:
            if relative == Path():
                found.directories.add(name)
            place = os.path.realpath(os.path.join(folder, name))
            if place in seen and os.path.islink(os.path.join(folder, name)):
                directories.remove(name)
                found.seen.links.append((relative / name).as_posix())
            seen.add(place)
        for name in names:
            suffix = os.path.splitext(name)[1].lower()
            if is_hidden(name):
                found.seen.hidden.append((relative / name).as_posix())
            elif suffix in suffixes:
                found.paths.append(relative / name)
            else:
                found.seen.others[suffix or "(none)"] += 1
    found.paths.sort()
    found.seen.n_of_kind = len(found.paths)
    return found


# Archives, which are read where they lie, without unpacking


def open_tars(
    source: Source, tars: Sequence[Path], suffixes: Sequence[str], damaged: DamagedSamples
) -> list[RawFile]:
    """The files of a kind in the archives of a source.

    In one archive the directories are the classes, without one around all of them; of several, each
    is a class.
    """
    splits = {path.stem.lower(): path for path in tars}
    if len(tars) > 1 and splits.keys() <= SPLIT_OF_WORD.keys():
        words = [f"{SPLIT_OF_WORD[word]}={path}" for word, path in splits.items()]
        raise DataFileError(
            f"{source.path} holds an archive for each split. Type: {' '.join(words)}"
        )
    files = []
    for tar in tars:
        members = _members_of(tar, suffixes, damaged)
        n_around = 0 if len(tars) > 1 else n_directories_around([Path(m[0]).parts for m in members])
        for name, offset, n_bytes in members:
            parts = Path(name).parts[n_around:]
            label = parts[0] if len(parts) > 1 else None
            key = "/".join(parts)
            if len(tars) > 1:
                label, key = tar.stem, f"{tar.name}/{key}"
            files.append(RawFile(tar / name, key, label, source.split, tar, offset, n_bytes))
    return files


def _members_of(
    tar: Path, suffixes: Sequence[str], damaged: DamagedSamples
) -> list[tuple[str, int, int]]:
    """Name, first byte and number of bytes of each file of a kind, in the order of their names."""
    members = []
    seen = damaged.files
    try:
        with tarfile.open(tar, "r:") as archive:
            for member in archive:
                path = Path(member.name)
                if member.isdir():
                    continue
                if any(is_hidden(part) for part in path.parts if part != "."):
                    seen.hidden.append(member.name)
                elif not member.isreg() or member.issparse():
                    seen.links.append(member.name)
                elif path.suffix.lower() not in suffixes:
                    seen.others[path.suffix.lower() or "(none)"] += 1
                else:
                    members.append((member.name, member.offset_data, member.size))
    except (tarfile.TarError, EOFError) as error:
        raise DataFileError(
            f"{tar} cannot be read as a tar archive: {error}. A compressed one is unpacked first: "
            f"gunzip {tar}"
        ) from error
    seen.n_of_kind += len(members)
    return sorted(members)


def n_directories_around(paths: Sequence[Sequence[str]]) -> int:
    """How many directories lie around those of the classes, as in train/cat/1.jpg."""
    n_around = 0
    while paths and all(len(parts) > n_around + 2 for parts in paths):
        if len({parts[n_around] for parts in paths}) > 1:
            break
        n_around += 1
    return n_around


# What the files hold


def read_class_folders(
    raw: RawFiles,
    field: str,
    read: Callable[[RawFile], np.ndarray],
    damaged: DamagedSamples,
) -> Iterator[dict[str, Any]]:
    """Samples {`field`: what `read` returns, "y": class}, read ahead in threads."""
    class_numbers = {name: np.int64(number) for number, name in enumerate(raw.classes)}

    def read_sample(file: RawFile) -> dict[str, Any] | None:
        value = source = None
        with damaged.handle(file.path, file.key):  # a link may lead nowhere
            source = UnchangedFiles([file.tar or file.path])
            value = read(file)
        if value is None or source is None:
            return None
        source.check()
        label = {} if file.label is None else {"y": class_numbers[file.label]}
        return {"key": file.key, field: value, **label, **file.placement}

    return filter(None, map_in_order(read_sample, raw.files))


def class_attrs(classes: Sequence[str]) -> dict[str, dict[str, str]]:
    """The attributes of field y: the names of the classes, when there are names."""
    if not classes:
        return {}
    return {"y": {"classes": json.dumps(classes, ensure_ascii=False)}}
