"""The checkpoint from which a run continues: the newest one that is whole. It needs no torch."""

from __future__ import annotations

import os
import sys
import zipfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from ..errors import LabError
from ..record.index import RUN_ID

CANDIDATES = ("last.ckpt", "previous.ckpt")  # newest first
OTHERS = ("finished.ckpt", "best.ckpt")  # from which one may choose to continue


def last_checkpoint(directory: Path) -> Path | None:
    """The checkpoint to continue from; None before the first one.

    It is previous.ckpt when a kill came between two renames, or when last.ckpt is damaged. A
    damaged file gets the name damaged.ckpt: else the next checkpoint would replace previous.ckpt
    by it.

    Raises:
        LabError: none of them is whole; the message says what to type.
    """
    whole = whole_checkpoint(directory)
    if whole is None or whole.name == CANDIDATES[0]:
        return whole
    # One process of several succeeds.
    with suppress(FileNotFoundError):
        last = directory / CANDIDATES[0]
        os.replace(last, directory / "damaged.ckpt")
        print(
            f"lab: {last} is damaged and is now damaged.ckpt; continuing from {whole.name}, "
            "which was saved before it",
            file=sys.stderr,
        )
    return whole


def whole_checkpoint(directory: Path) -> Path | None:
    """The newest checkpoint that is whole; None before the first one.

    Raises:
        LabError: there are some, and all are damaged.
    """
    damaged = []
    for name in CANDIDATES:
        path = directory / name
        if not path.is_file():
            continue
        damage = damage_of(path)
        if damage is None:
            return path
        damaged.append(f"{path} is damaged: {damage}.")
    if not damaged:
        return None
    raise LabError("\n".join([*damaged, advice(directory)]))


def refuse_damaged(path: Path) -> None:
    """Makes sure that a checkpoint is whole.

    Raises:
        LabError: it is damaged.
    """
    damage = damage_of(path)
    if damage:
        raise LabError(f"{path} is damaged: {damage}.\n{advice(path.parent)}")


def advice(directory: Path) -> str:
    """What to type when no checkpoint is there to continue from."""
    run_ids = [part for part in directory.parts if RUN_ID.fullmatch(part)]
    run_id = run_ids[-1] if run_ids else "RUN"
    for name in OTHERS:
        path = directory / name
        if path.is_file() and damage_of(path) is None:
            return f"To continue from {name}: cp {path} {directory}/last.ckpt, then: lab resume {run_id}"
    return f"Restore it from a copy, or train again with: lab runs reproduce {run_id}"


def damage_of(path: Path) -> str | None:
    """What is wrong with a checkpoint; None when every byte is as it was written."""
    status = path.stat()
    return _damage(path, status.st_mtime_ns, status.st_size)


@cache  # reads the whole file, and a process asks several times
def _damage(path: Path, mtime_ns: int, n_bytes: int) -> str | None:
    try:
        with zipfile.ZipFile(path) as archive:
            part = archive.testzip()
    except (zipfile.BadZipFile, EOFError) as error:
        return f"its {n_bytes:,} bytes are no whole checkpoint ({error})"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    return f"its part {part} has other bytes than were written" if part else None
