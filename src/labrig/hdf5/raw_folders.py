"""Raw data in a folder: one file for each sample, one sub-directory for each class."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .file_errors import DataFileError
from .parallel import map_in_order
from .raw_samples import DamagedSamples, UnchangedFiles
from .raw_sources import Source, hint


@dataclass(frozen=True)
class RawFile:
    """One sample: a file, its `key` (the path below its source), class and split, if it has them."""

    path: Path
    key: str
    label: str | None
    split: str | None


@dataclass(frozen=True)
class RawFiles:
    """All samples; `classes` is empty when there are no sub-directories."""

    files: list[RawFile]
    classes: list[str]


def open_class_folders(sources: Sequence[Source], kind: str, suffixes: Sequence[str]) -> RawFiles:
    """The files of a kind, such as images, that lie in the sources; their classes are numbered
    together.

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
    without_class = [file for file in files if file.label is None]
    if classes and without_class:
        raise DataFileError(
            f"{without_class[0].path} is in no sub-directory, but other files are: "
            "expected one sub-directory per class."
        )
    return RawFiles(files, classes)


def _open_class_folder(source: Source, kind: str, suffixes: Sequence[str]) -> list[RawFile]:
    root = source.path
    if not root.is_dir():
        raise DataFileError(
            f"{root} is not a directory; expected one with {kind} in a sub-directory per class."
            f"{hint(root, kind)}"
        )
    paths = sorted(
        path.relative_to(root) for path in root.rglob("*") if path.suffix.lower() in suffixes
    )
    if not paths:
        raise DataFileError(
            f"{root} has no {kind} in it; expected files with {', '.join(suffixes)}.{hint(root, kind)}"
        )
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


def read_class_folders(
    raw: RawFiles, field: str, read: Callable[[Path], np.ndarray], damaged: DamagedSamples
) -> Iterator[dict[str, Any]]:
    """Samples {`field`: what `read` returns, "y": class}, read ahead in threads."""
    class_numbers = {name: np.int64(number) for number, name in enumerate(raw.classes)}

    def read_sample(file: RawFile) -> dict[str, Any] | None:
        source = UnchangedFiles([file.path])
        value = None
        with damaged.handle(file.path, file.key):
            value = read(file.path)
        source.check()
        if value is None:
            return None
        sample = {"key": file.key, field: value}
        if file.label is not None:
            sample["y"] = class_numbers[file.label]
        if file.split is not None:
            sample["split"] = file.split
        return sample

    for sample in map_in_order(read_sample, raw.files):
        if sample is not None:
            yield sample


def class_attrs(classes: Sequence[str]) -> dict[str, dict[str, str]]:
    """The attributes of field y: the names of the classes, when there are names."""
    if not classes:
        return {}
    return {"y": {"classes": json.dumps(classes, ensure_ascii=False)}}
