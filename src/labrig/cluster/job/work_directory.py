"""The directory in which `lab submit -- COMMAND` runs its command: a copy of the frozen code, kept in the run.

A program finds its modules and settings next to it, and what it writes beside them stays. It is a
copy and not the frozen tree itself, which every node has in memory and deletes with the job; and not
links into that tree, through which a program would change it. When the command has ended, only what
it wrote is left: the code is in the record.
"""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ... import env
from ...project import LABEL, Project
from ...record.files.atomic import sha256
from ...record.files.schema import OutputFile, Outputs
from ...record.freeze.frozen import frozen_directory
from ...record.freeze.frozen_files import FILE_LIST
from ...record.read.attempt_files import MAX_LISTED, WORK

DATA = "data"  # of the project: large, and often not frozen
BYTECODE = "__pycache__"
NOT_COPIED = {env.FROZEN_LIBRARY, LABEL, FILE_LIST, BYTECODE}
HASHED_BYTES = 1_000_000_000  # that are read at the end, the smallest files first: some seconds


@dataclass(frozen=True)
class WorkDirectory:
    """Where a command runs.

    Args:
        frozen: the frozen code of this node.
        top: its copy in the directory of the run.
        project: the project in that copy, which may lie deeper in its repository.
    """

    frozen: Path
    top: Path
    project: Path

    @classmethod
    def of(cls, run_dir: Path, project: Project) -> WorkDirectory | None:
        """That of a run; None where no frozen code runs, and the command stays where it is."""
        frozen = frozen_directory()
        if frozen is None or project.frozen is None:
            return None
        inside = project.frozen.resolve().relative_to(frozen)
        return cls(frozen, run_dir / WORK, run_dir / WORK / inside)


def fill(work: WorkDirectory, project: Project) -> None:
    """Copies what of the frozen code is not there; a file that an earlier attempt changed stays.

    Raises:
        OSError: the disk is full.
    """
    for source in frozen_paths(work.frozen):
        target = work.top / source.relative_to(work.frozen)
        if os.path.lexists(target):
            continue
        if source.is_symlink():
            target.symlink_to(os.readlink(source))
        elif source.is_dir():
            target.mkdir(parents=True)
        else:
            shutil.copy2(source, target)
    link_data(project.root / DATA, work.project / DATA)


def frozen_paths(frozen: Path) -> Iterator[Path]:
    """The frozen directories, files and links, each directory before what lies in it."""
    for folder, names, files in os.walk(frozen):
        names[:] = [name for name in names if name not in NOT_COPIED]
        yield Path(folder)
        links = [name for name in names if os.path.islink(os.path.join(folder, name))]
        for name in [*links, *files]:
            if name not in NOT_COPIED:
                yield Path(folder, name)


def link_data(source: Path, target: Path) -> None:
    """Links what git ignores in `data`, where other files of it are frozen."""
    if target.is_symlink() or not target.is_dir() or not source.is_dir():
        return
    for entry in source.iterdir():
        inner = target / entry.name
        if not os.path.lexists(inner):
            inner.symlink_to(entry)
        elif entry.is_dir():
            link_data(entry, inner)


def own_files(work: WorkDirectory) -> list[Path]:
    """The regular files that the command wrote or changed, sorted; no link is followed."""
    written = []
    for folder, names, files in os.walk(work.top):
        names[:] = [name for name in names if name != BYTECODE]
        for name in files:
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink() and not is_copy(path, work):
                written.append(path)
    return sorted(written)


def is_copy(path: Path, work: WorkDirectory) -> bool:
    """Whether a file or link is still as `fill` made it."""
    source = work.frozen / path.relative_to(work.top)
    if path.is_symlink():
        return source.is_symlink() and os.readlink(source) == os.readlink(path)
    if source.is_symlink() or not source.is_file():
        return False
    try:
        return filecmp.cmp(source, path, shallow=False)
    except OSError:  # it cannot be read, or is gone
        return False


def list_outputs(work: WorkDirectory, may_read: bool) -> Outputs:
    """What the command wrote, for the record.

    Args:
        may_read: whether there is time to hash it.
    """
    sizes = {}
    for path in own_files(work):
        with suppress(OSError):  # a process that the command left behind removed it
            sizes[path] = path.stat().st_size
    hashes = {}
    left_bytes = HASHED_BYTES if may_read else 0
    for path in sorted(sizes, key=lambda path: sizes[path]):
        left_bytes -= sizes[path]
        if left_bytes >= 0:
            with suppress(OSError):  # it cannot be read
                hashes[path] = sha256(path)
    files: dict[str, OutputFile] = {
        str(path.relative_to(work.top.parent)): {"bytes": size, "sha256": hashes.get(path)}
        for path, size in list(sizes.items())[:MAX_LISTED]
    }
    return {"n": len(sizes), "bytes": sum(sizes.values()), "files": files}


def remove_copies(work: WorkDirectory, project: Project) -> None:
    """Removes what `fill` made and the command left as it was, and bytecode; links are not followed."""
    for folder, names, files in os.walk(work.top, topdown=False):
        for name in [*names, *files]:
            path = Path(folder, name)
            if name == BYTECODE and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.is_symlink() or path.is_file():
                remove_copy(path, work, project)
        source = work.frozen / Path(folder).relative_to(work.top)
        if source.is_dir():
            with suppress(OSError):  # it is not empty
                os.rmdir(folder)


def remove_copy(path: Path, work: WorkDirectory, project: Project) -> None:
    """Removes one file or link, if `fill` made it."""
    is_link_to_data = (
        path.is_symlink()
        and path.is_relative_to(work.project / DATA)
        and os.readlink(path) == str(project.root / path.relative_to(work.project))
    )
    if is_link_to_data or is_copy(path, work):
        with suppress(OSError):
            path.unlink()
