"""Raw data in a folder or in tar archives: one file for each sample, one directory for each class."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..file.errors import DataFileError
from ..file.parallel import map_in_order
from .merge import ROW
from .options import PackOptions, PartOfFiles
from .samples import DamagedSamples, RawFile, UnchangedFiles
from .sources import Source, hint, source_labels
from .tars import SUFFIX as TAR
from .tars import n_directories_around, open_tars

MAX_SUFFIXES = 6  # of other files, shown


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

    Raises:
        DataFileError: no directory, no files, a file outside the classes, an empty class, or names of
            classes that are spellings of one.
    """
    if options.part:  # whoever joins the parts counts
        damaged = DamagedSamples()
    files: list[RawFile] = []
    for source, label in zip(options.sources, source_labels(options.sources), strict=True):
        class_files = _open_class_folder(source, kind, suffixes, damaged)
        files += [replace(file, key=f"{label}{file.key}") for file in class_files]
    names = Counter(file.label for file in files if file.label is not None)
    known = options.known.classes
    spelling_of = options.spellings.choose("classes", names, known)
    files = [replace(file, label=spelling_of.get(file.label, file.label)) for file in files]
    classes = sorted({file.label for file in files if file.label is not None})
    if classes:
        classes = [*known, *(name for name in classes if name not in known)]
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
    if not root.is_dir() and root.suffix != TAR:
        raise DataFileError(
            f"{root} is not a directory, and no .tar; expected one with {kind} in a sub-directory "
            f"per class.{hint(root, kind)}"
        )
    if root.is_file():
        return _not_empty(open_tars(source, [root], suffixes, damaged), root, kind, suffixes)
    found = walk(root, suffixes)
    if not found.paths:
        tars = sorted(path for path in root.iterdir() if path.suffix == TAR)
        files = open_tars(source, tars, suffixes, damaged)
        return _not_empty(files, root, kind, suffixes)
    damaged.counts.update(found.describe())
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
    """What lies below a directory: `paths` of a kind, relative to it and sorted, and what else."""

    paths: list[Path]
    directories: set[str]  # at the top, not hidden
    others: Counter[str]  # files of other suffixes
    hidden: list[str]  # files that begin with a dot, or lie in a directory of a tool
    loops: list[str]  # links to a directory that was seen already

    def describe(self) -> dict[str, int]:
        """A line for each kind of things that are left out, and their number."""
        lines = {}
        if self.others:
            listed = ", ".join(f"{name} {n}" for name, n in self.others.most_common(MAX_SUFFIXES))
            lines[f"files of other kinds left out: {listed}"] = self.others.total()
        if self.hidden:
            lines[f"hidden files left out, such as {self.hidden[0]}"] = len(self.hidden)
        if self.loops:
            lines[f"links not followed, such as {self.loops[0]}: seen already"] = len(self.loops)
        return lines


def is_hidden(name: str) -> bool:
    """Whether a tool made it, such as .DS_Store, ._1.png, .ipynb_checkpoints, __MACOSX, __pycache__."""
    return name.startswith((".", "__"))


def walk(root: Path, suffixes: Sequence[str]) -> Walk:
    """What lies below `root`; links are followed, each directory once."""
    found = Walk([], set(), Counter(), [], [])
    seen = {os.path.realpath(root)}
    for folder, directories, names in os.walk(root, followlinks=True):
        relative = Path(folder).relative_to(root)
        if any(map(is_hidden, relative.parts)):
            found.hidden += [(relative / name).as_posix() for name in names]
            continue
        for name in [name for name in directories if not is_hidden(name)]:
            if relative == Path():
                found.directories.add(name)
            place = os.path.realpath(os.path.join(folder, name))
            if place in seen and os.path.islink(os.path.join(folder, name)):
                directories.remove(name)
                found.loops.append((relative / name).as_posix())
            seen.add(place)
        for name in names:
            suffix = os.path.splitext(name)[1].lower()
            if is_hidden(name):
                found.hidden.append((relative / name).as_posix())
            elif suffix in suffixes:
                found.paths.append(relative / name)
            else:
                found.others[suffix or "(none)"] += 1
    found.paths.sort()
    found.hidden.sort()
    return found


def _not_empty(
    files: list[RawFile], root: Path, kind: str, suffixes: Sequence[str]
) -> list[RawFile]:
    if not files:
        raise DataFileError(
            f"{root} has no {kind} in it; expected files with {', '.join(suffixes)}.{hint(root, kind)}"
        )
    return files


def read_class_folders(
    raw: RawFiles,
    field: str,
    read: Callable[[RawFile], np.ndarray],
    damaged: DamagedSamples,
    part: PartOfFiles | None,
) -> Iterator[dict[str, Any]]:
    """Samples {`field`: what `read` returns, "y": class}, read ahead in threads.

    Args:
        part: None: all files; else those of this part, each with its number as the field `row`.
    """
    class_numbers = {name: np.int64(number) for number, name in enumerate(raw.classes)}

    def read_sample(file: RawFile) -> dict[str, Any] | None:
        value = source = None
        with damaged.handle(file.path, file.key):  # a link may lead nowhere
            source = UnchangedFiles([file.tar or file.path])
            value = read(file)
        if value is None or source is None:
            return None
        source.check()
        sample = {"key": file.key, field: value}
        if file.label is not None:
            sample["y"] = class_numbers[file.label]
        if file.split is not None:
            sample["split"] = file.split
        return sample

    files = part.of(raw.files) if part else raw.files
    rows = part.of(range(len(raw.files))) if part else []
    for number, sample in enumerate(map_in_order(read_sample, files)):
        if sample is not None:
            yield sample | {ROW: np.int64(rows[number])} if part else sample


def class_attrs(classes: Sequence[str]) -> dict[str, dict[str, str]]:
    """The attributes of field y: the names of the classes, when there are names."""
    if not classes:
        return {}
    return {"y": {"classes": json.dumps(classes, ensure_ascii=False)}}
