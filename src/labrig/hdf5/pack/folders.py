"""Raw data in a folder or in tar archives: one file for each sample, one directory for each class.

Of images it takes the pixels, or the bytes of their files.
"""

from __future__ import annotations

import json
import os
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import require_package
from ..file.errors import DataFileError
from ..file.images import decode_image
from ..file.names import OTHER_NAMES
from ..file.parallel import map_in_order
from .options import PackOptions
from .samples import DamagedSamples, FilesSeen, RawFile, RawSamples, UnchangedFiles
from .sources import SUFFIXES_OF_KIND, Source, hint, source_labels

TAR = ".tar"
# What folders and archives of one split are called, and the split
SPLIT_OF_WORD = {name: name for name in ("train", "val", "test")} | OTHER_NAMES
PART = re.compile(rf"({'|'.join(SPLIT_OF_WORD)})([-_]?\d.*)?")  # also train-0001, train2017
CHECKED_SIZE = (8, 8)  # decoding to this small size is quick, and finds damage


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
    depths: dict[Path, int] = {}
    for source, label in zip(options.sources, source_labels(options.sources), strict=True):
        of_source, around = _with_classes(_files_of(source, kind, suffixes, damaged))
        _check_classes(source, of_source, around, options)
        depths[source.path] = len(around.parts)
        if around.parts and source.path.is_dir():
            place = source.path / around
            damaged.counts[f"directory lies around all classes: they are those in {place}"] = 1
        files += [replace(file, key=f"{label}{file.key}") for file in of_source]
    if len({*depths.values()}) > 1:
        listed = ", ".join(f"{n} in {path}" for path, n in depths.items())
        raise DataFileError(
            f"directories that lie around all others: {listed}. Expected as many in each: name the one "
            "that holds the classes; what lies in directories of a class, move into its own."
        )
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


def _files_of(
    source: Source, kind: str, suffixes: Sequence[str], damaged: DamagedSamples
) -> list[RawFile]:
    """The files of a kind in a source; those of several archives have their class already."""
    root = source.path
    if not root.is_dir() and root.suffix != TAR:
        raise DataFileError(
            f"{root} is not a directory, and no .tar; expected one with {kind} in a sub-directory "
            f"per class.{hint(root, kind)}"
        )
    paths, seen = walk(root, suffixes)
    if paths:
        damaged.files.add(seen)
        return [RawFile(root / path, path.as_posix(), None, source.split) for path in paths]
    tars = [root] if root.is_file() else sorted(root.glob(f"*{TAR}"))
    files = []
    for tar in tars:
        around, label = (f"{tar.name}/", tar.stem) if len(tars) > 1 else ("", None)
        for name, offset, n_bytes in _members_of(tar, suffixes, damaged):
            key = f"{around}{name}"
            files.append(RawFile(tar / name, key, label, source.split, tar, offset, n_bytes))
    if not files:
        raise DataFileError(
            f"{root} has no {kind} in it; expected files with {', '.join(suffixes)}.{hint(root, kind)}"
        )
    return files


def _with_classes(files: Sequence[RawFile]) -> tuple[list[RawFile], Path]:
    """The files with their classes; and the directories around those, as in train/cat/1.jpg."""
    if files[0].label:
        return [*files], Path()
    around = Path(os.path.commonpath([os.path.dirname(os.path.dirname(of.key)) for of in files]))
    classified = []
    for file in files:
        parts = file.key.split("/")[len(around.parts) :]
        key = "/".join(parts) if file.tar else file.key
        classified.append(replace(file, key=key, label=parts[0] if len(parts) > 1 else None))
    return classified, around


def _check_classes(
    source: Source, files: Sequence[RawFile], around: Path, options: PackOptions
) -> None:
    """Raises DataFileError when classes of a source are called as splits are, or have no files."""
    root = source.path
    words = []
    file_of = {file.label: file for file in files if file.label}
    for label, file in sorted(file_of.items()):
        if part := PART.fullmatch(label.lower()):
            inside = Path("" if file.tar else root, around, label)
            place = inside if file.tar in (None, root) else file.tar
            words.append(f"{SPLIT_OF_WORD[part[1]]}={place}")
    if words and not source.split:
        unpack = f"Unpack it: tar -xf {root}\n" if root.is_file() else ""
        raise DataFileError(
            f"{root} has splits in place of classes.\n{unpack}Type: lab data pack {options.name} "
            f"{' '.join(words)} --as {options.kind}\nIf these are classes, rename them."
        )
    if not file_of or around.parts or files[0].tar:
        return
    found = {path.name for path in root.iterdir() if path.is_dir() and not is_hidden(path.name)}
    empty = ", ".join(sorted(found - file_of.keys()))
    if empty:
        raise DataFileError(
            f"{root} has classes without {options.kind}: {empty}. Remove them, or fill them."
        )


def is_hidden(name: str) -> bool:
    """Whether a tool made it, such as .DS_Store, ._1.png, .ipynb_checkpoints, __MACOSX, __pycache__."""
    return name.startswith((".", "__"))


def walk(root: Path, suffixes: Sequence[str]) -> tuple[list[Path], FilesSeen]:
    """The files of a kind below `root`, relative to it, sorted; and all that lies there, each directory once."""
    paths: list[Path] = []
    found = FilesSeen()
    seen = set()
    waiting = [str(root)]
    for start in waiting:  # links, which come last
        for folder, directories, names in os.walk(start):
            relative = Path(folder).relative_to(root)
            if any(map(is_hidden, relative.parts)):
                found.hidden += [(relative / name).as_posix() for name in names]
                continue
            place = os.path.realpath(folder)
            if place in seen:
                found.links.append(relative.as_posix())
                directories.clear()
                continue
            seen.add(place)
            directories.sort()
            below = [os.path.join(folder, name) for name in directories if not is_hidden(name)]
            waiting += filter(os.path.islink, below)
            for name in names:
                suffix = os.path.splitext(name)[1].lower()
                if is_hidden(name):
                    found.hidden.append((relative / name).as_posix())
                elif suffix in suffixes:
                    paths.append(relative / name)
                else:
                    found.others[suffix or "(none)"] += 1
    found.n_of_kind = len(paths)
    return sorted(paths), found


# Archives, which are read where they lie, without unpacking


def _members_of(
    tar: Path, suffixes: Sequence[str], damaged: DamagedSamples
) -> list[tuple[str, int, int]]:
    """Name, first byte and number of bytes of each file of a kind, in the order of their names."""
    members: dict[str, tuple[int, int]] = {}
    seen = damaged.files
    try:
        with tarfile.open(tar, "r:") as archive:
            for member in archive:
                path = Path(member.name.lstrip("/"))
                name = path.as_posix()
                if member.isdir():
                    continue
                if any(is_hidden(part) for part in path.parts if part != "."):
                    seen.hidden.append(member.name)
                elif not member.isreg() or member.issparse():
                    seen.links.append(member.name)
                elif path.suffix.lower() not in suffixes:
                    seen.others[path.suffix.lower() or "(none)"] += 1
                elif name in members:
                    raise DataFileError(
                        f"{tar} holds {name} twice, since files were added to it. Unpack it, which keeps "
                        f"the last of each: tar -xf {tar}"
                    )
                else:
                    members[name] = (member.offset_data, member.size)
    except (tarfile.TarError, EOFError) as error:
        raise DataFileError(
            f"{tar} cannot be read as a tar archive: {error}. A compressed one is unpacked first: "
            f"gunzip {tar}"
        ) from error
    seen.n_of_kind += len(members)
    return [(name, *members[name]) for name in sorted(members)]


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
    return {"y": {"classes": json.dumps(classes, ensure_ascii=False)}} if classes else {}


def read_images(options: PackOptions, damaged: DamagedSamples) -> RawSamples:
    """Samples {"x": RGB uint8 (3, height, width), "y": class}, scaled and cropped to the size of the
    options; without one, all images must have one size. Of the kind `encoded` x are the bytes of the
    file, uint8, checked by decoding.
    """
    require_package("PIL", "reading images", "pillow")
    raw = open_class_folders(options, "images", SUFFIXES_OF_KIND["images"], damaged)
    is_encoded = options.kind == "encoded"
    size = CHECKED_SIZE if is_encoded else options.size

    def read(file: RawFile) -> np.ndarray:
        content = file.content()
        image_HWC = decode_image(content, size, background=options.background)
        return np.frombuffer(content, np.uint8) if is_encoded else image_HWC.transpose(2, 0, 1)

    attrs: dict[str, dict[str, Any]] = class_attrs(raw.classes)
    if is_encoded:
        background = {"background": options.background} if options.background else {}
        attrs["x"] = {"encoding": "image", "ragged": 1} | background
    return RawSamples(read_class_folders(raw, "x", read, damaged), attrs)
