"""Raw data in a folder or in tar archives: one file for each sample, one directory for each class."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..file.errors import DataFileError
from ..file.parallel import map_in_order
from .merge import ROW
from .options import PartOfFiles
from .samples import DamagedSamples, RawFile, UnchangedFiles
from .sources import Source, hint
from .tars import SUFFIX as TAR
from .tars import open_tars


@dataclass(frozen=True)
class RawFiles:
    """All samples; `classes` is empty when there are no sub-directories."""

    files: list[RawFile]
    classes: list[str]


def open_class_folders(
    sources: Sequence[Source], kind: str, suffixes: Sequence[str], known: Sequence[str] = ()
) -> RawFiles:
    """The files of a kind, such as images, that lie in the sources; their classes are numbered
    together.

    Args:
        known: classes that have the numbers 0, 1, 2 … already.

    Raises:
        DataFileError: no directory, no files, a file outside the classes, or an empty class.
    """
    files = []
    for source in sources:
        class_files = _open_class_folder(source, kind, suffixes)
        if len(sources) > 1:
            class_files = [
                replace(file, key=f"{source.path.name}/{file.key}") for file in class_files
            ]
        files += class_files
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


def _open_class_folder(source: Source, kind: str, suffixes: Sequence[str]) -> list[RawFile]:
    root = source.path
    if not root.is_dir() and root.suffix != TAR:
        raise DataFileError(
            f"{root} is not a directory, and no .tar; expected one with {kind} in a sub-directory "
            f"per class.{hint(root, kind)}"
        )
    if root.is_file():
        return _not_empty(open_tars(source, [root], suffixes), root, kind, suffixes)
    paths = sorted(
        path.relative_to(root) for path in root.rglob("*") if path.suffix.lower() in suffixes
    )
    if not paths:
        tars = sorted(path for path in root.iterdir() if path.suffix == TAR)
        return _not_empty(open_tars(source, tars, suffixes), root, kind, suffixes)
    files = []
    for path in paths:
        label = path.parts[0] if len(path.parts) > 1 else None
        files.append(RawFile(root / path, path.as_posix(), label, source.split))
    directories = {path.name for path in root.iterdir() if path.is_dir()}
    empty = sorted(directories - {file.label for file in files})
    if empty:
        raise DataFileError(
            f"{root} has classes without {kind}: {', '.join(empty)}. Remove them, or fill them."
        )
    return files


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
        source = UnchangedFiles([file.tar or file.path])
        value = None
        with damaged.handle(file.path, file.key):
            value = read(file)
        source.check()
        if value is None:
            return None
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
