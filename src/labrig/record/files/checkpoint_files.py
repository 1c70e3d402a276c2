"""A checkpoint is one file, or a directory into which each process wrote its part.

A directory lists its files as `sha256sum` does, and the sha256 of that list is that of the checkpoint.

The list of tensors in such a directory is a pickle, which is looked through before torch reads it.
"""

from __future__ import annotations

import os
import pickle
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

SUMS = "sha256.txt"
METADATA = ".metadata"  # torch's name: which tensor lies where
# Directories in it, with weights that the training does not continue from; see tested_weights.py.
TESTED = "tested"
END_OF_FIT = "end_of_fit"
OTHER_WEIGHTS = (TESTED, END_OF_FIT)  # the first that is there was tested
OLD = ".old"


def files_of(checkpoint: Path) -> list[Path]:
    """The file, or those of the directory. A link is none: it could lead anywhere."""
    if not checkpoint.is_dir():
        return [checkpoint]
    paths = sorted(checkpoint.rglob("*"))
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def n_bytes_of(checkpoint: Path) -> int:
    return sum(file.stat().st_size for file in files_of(checkpoint))


def sums_of(directory: Path, hash_file: Callable[[Path], str]) -> dict[str, str]:
    """The sha256 of each file by its path in the directory, without the list itself."""
    files = {path.relative_to(directory).as_posix(): path for path in files_of(directory)}
    files.pop(SUMS, None)
    return {name: hash_file(file) for name, file in files.items()}


def format_sums(sums: dict[str, str]) -> str:
    """The text of SUMS."""
    return "".join(f"{sums[name]}  {name}\n" for name in sorted(sums))


def take_place(temporary: Path, target: Path) -> None:
    """`temporary` gets the name of a checkpoint, in place of an older one.

    Nothing replaces a directory in one step. It is set aside before, and a crash in between leaves it
    to `put_back`.
    """
    old = target.with_name(f".{target.name}{OLD}")
    if target.exists() and (target.is_dir() or temporary.is_dir()):
        remove(old)
        os.replace(target, old)
    os.replace(temporary, target)
    remove(old)


def put_back(directory: Path) -> None:
    """Finishes or undoes what a crash has interrupted in a directory of checkpoints."""
    for old in directory.glob(f".*.ckpt{OLD}"):
        target = directory / old.name[1:].removesuffix(OLD)
        if target.exists():
            remove(old)
        else:
            os.replace(old, target)


def link_or_copy(source: Path, target: Path) -> None:
    """`target` gets the files of `source` as hard links, or as copies where there are none."""
    temporary = target.with_name(f".{target.name}.tmp")
    remove(temporary)
    if source.is_dir():
        shutil.copytree(source, temporary, symlinks=True, copy_function=link)
    else:
        link(source, temporary)
    take_place(temporary, target)


def link(source: Any, target: Any) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copy2(source, target)


def remove(checkpoint: Path) -> None:
    """Removes a checkpoint, which may not be there, on a disk that may be read-only."""
    with suppress(OSError):
        if checkpoint.is_dir() and not checkpoint.is_symlink():
            shutil.rmtree(checkpoint)
        else:
            checkpoint.unlink()


# What torch names in it: anything else could run as code.
NAMED_IN_METADATA = re.compile(
    r"pathlib(\._local)?\.PosixPath|torch\.Size|torch\.serialization\._get_layout"
    r"|torch\.(bool|(b?float|complex|u?int)\d+(_\w+)?)"
    r"|torch\.distributed\.checkpoint\.filesystem\._StorageInfo"
    r"|torch\.distributed\.checkpoint\.metadata\.(_MEM_FORMAT_ENCODING|MetadataIndex|StorageMeta"
    r"|TensorProperties|((Bytes|Chunk|Tensor)Storage)?Metadata)"
)


def metadata_problem(directory: Path) -> str | None:
    """Why torch must not read the METADATA of a directory; None when it may."""
    try:
        with open(directory / METADATA, "rb") as file:
            StandIns(file).load()
    except FileNotFoundError:
        return f"it has no {METADATA}"
    except pickle.UnpicklingError as error:
        return f"{METADATA} {error}"
    except Exception as error:  # bytes that are no pickle raise anything
        return f"{METADATA} cannot be read ({type(error).__name__})"
    return None


class StandIns(pickle.Unpickler):
    """Reads METADATA without torch, into objects without content."""

    def find_class(self, module: str, name: str) -> Any:
        if NAMED_IN_METADATA.fullmatch(f"{module}.{name}"):
            return StandIn
        raise pickle.UnpicklingError(f"names {module}.{name}, which is no part of a checkpoint")


class StandIn:
    def __init__(self, *_: Any, **__: Any) -> None:
        """Takes whatever there is."""

    __setstate__ = __init__
