# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Raw data in a folder: one file for each sample, one sub-directory for each class."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .file_errors import DataFileError
from .parallel import map_in_order
from .raw_samples import DamagedSamples, UnchangedFiles


@dataclass(frozen=True)
class ClassFolder:
    """The files below `root`; `classes` is empty when there are no sub-directories."""

    root: Path
    files: list[Path]
    classes: list[str]


def open_class_folder(root: Path, kind: str, suffixes: Sequence[str]) -> ClassFolder:
    """The files of a kind, such as images, that lie in `root`.

    Raises:
        DataFileError: no directory, no files, a file outside the classes, or an empty class.
    """
    if not root.is_dir():
        raise DataFileError(
            f"{root} is not a directory; expected one with {kind} in a sub-directory per class."
        )
    files = sorted(
        path.relative_to(root) for path in root.rglob("*") if path.suffix.lower() in suffixes
    )
    if not files:
        raise DataFileError(f"{root} has no {kind} ({', '.join(suffixes)}) in it.")
    classes = sorted({file.parts[0] for file in files if len(file.parts) > 1})
    loose_files = [file for file in files if len(file.parts) == 1]
    if classes and loose_files:
        raise DataFileError(
            f"{root / loose_files[0]} is in no sub-directory, but other files are: "
            "expected one sub-directory per class."
        )
    directories = {path.name for path in root.iterdir() if path.is_dir()}
    empty = sorted(directories - set(classes))
    if empty:
        raise DataFileError(
            f"{root} has classes without {kind}: {', '.join(empty)}. Remove them, or fill them."
        )
    return ClassFolder(root, files, classes)


def read_class_folder(
    folder: ClassFolder, field: str, read: Callable[[Path], np.ndarray], damaged: DamagedSamples
) -> Iterator[dict[str, Any]]:
    """Samples {`field`: what `read` returns, "y": class}, read ahead in threads."""
    class_numbers = {name: np.int64(number) for number, name in enumerate(folder.classes)}

    def read_sample(file: Path) -> dict[str, Any] | None:
        path = folder.root / file
        source = UnchangedFiles([path])
        value = None
        with damaged.handle(f"{path} cannot be read: ", file.as_posix()):
            value = read(path)
        source.check()
        if value is None:
            return None
        sample = {"key": file.as_posix(), field: value}
        if folder.classes:
            sample["y"] = class_numbers[file.parts[0]]
        return sample

    for sample in map_in_order(read_sample, folder.files):
        if sample is not None:
            yield sample


def class_attrs(classes: Sequence[str]) -> dict[str, dict[str, str]]:
    """The attributes of field y: the names of the classes, when there are names."""
    if not classes:
        return {}
    return {"y": {"classes": json.dumps(classes, ensure_ascii=False)}}
