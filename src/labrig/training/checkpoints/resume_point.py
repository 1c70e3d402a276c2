"""The checkpoint from which a run continues: the newest one that is whole. It needs no torch."""

from __future__ import annotations

import sys
import zipfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from ...errors import LabError
from ...record.files.atomic import is_below, open_file, sha256
from ...record.files.checkpoint_files import OTHER_WEIGHTS, files_of, metadata_problem, take_place
from ...record.files.checkpoint_hashes import read_sums
from ...record.read.attempt_files import last_attempt
from ...record.read.rows import RUN_ID
from ...record.write.weights_place import refuse_other_weights

CANDIDATES = ("last.ckpt", "previous.ckpt")  # newest first
OTHERS = ("finished.ckpt", "best.ckpt")  # from which one may choose to continue


def last_checkpoint(directory: Path) -> Path | None:
    """The checkpoint to continue from; None before the first one.

    It is previous.ckpt when a kill came between two renames, or when last.ckpt is damaged. A
    damaged file gets the name damaged.ckpt: else the next checkpoint would replace previous.ckpt
    by it.
    """
    whole = whole_checkpoint(directory)
    if whole is None or whole.name == CANDIDATES[0]:
        return whole
    # One process of several succeeds.
    with suppress(FileNotFoundError):
        last = directory / CANDIDATES[0]
        take_place(last, directory / "damaged.ckpt")
        print(
            f"lab: {last} is damaged and is now damaged.ckpt; continuing from {whole.name}, "
            "which was saved before it",
            file=sys.stderr,
        )
    return whole


def whole_checkpoint(directory: Path) -> Path | None:
    """The newest checkpoint that is whole; None before the first one."""
    damaged = []
    for name in CANDIDATES:
        path = directory / name
        if not path.exists():
            continue
        if not is_below(path, directory):
            raise LabError(f"{path} is a link out of the run. Put the file itself there")
        damage = damage_of(path)
        if damage is None:
            refuse_other_weights(path, under_any_name=True)
            return path
        damaged.append(f"{path} is damaged: {damage}.")
    if not damaged:
        return None
    raise LabError("\n".join([*damaged, advice(directory)]))


def is_complete(run_dir: Path, checkpoint: Path | None) -> bool:
    """Whether nothing of a run is left to do: its last attempt finished, with the newest checkpoint.

    A checkpoint that somebody has put there since is another one to continue from.

    Args:
        checkpoint: the newest that is whole; None if there is none.
    """
    attempt = last_attempt(run_dir)
    if attempt is None or attempt.end.get("status") != "finished":
        return False
    if checkpoint is None:
        return True
    ended_ns = (run_dir / "attempts" / str(attempt.n) / "end.json").stat().st_mtime_ns
    return checkpoint.name == CANDIDATES[0] and checkpoint.stat().st_mtime_ns <= ended_ns


def refuse_damaged(path: Path) -> None:
    """Makes sure that a checkpoint is whole."""
    damage = damage_of(path)
    if damage:
        raise LabError(f"{path} is damaged: {damage}.\n{advice(path.parent)}")


def advice(directory: Path) -> str:
    """What to type when no checkpoint is there to continue from."""
    run_ids = [part for part in directory.parts if RUN_ID.fullmatch(part)]
    run_id = run_ids[-1] if run_ids else "RUN"
    for name in OTHERS:
        path = directory / name
        if path.exists() and damage_of(path) is None:
            copy = "cp -rT" if path.is_dir() else "cp"
            return f"To continue from {name}: {copy} {path} {directory}/last.ckpt, then: lab resume {run_id}"
    return f"Restore it from a copy, or train again with: lab runs reproduce {run_id}"


def damage_of(path: Path) -> str | None:
    """What is wrong with a checkpoint; None when every byte is as it was written."""
    versions = [file.stat() for file in files_of(path)]
    return _damage(path, tuple((status.st_mtime_ns, status.st_size) for status in versions))


@cache  # reads every byte, and a process asks several times
def _damage(path: Path, versions: tuple[tuple[int, int], ...]) -> str | None:
    if path.is_dir():
        return damage_of_directory(path)
    try:
        with open_file(path, follow_links=True) as file, zipfile.ZipFile(file) as archive:
            part = archive.testzip()
    except (zipfile.BadZipFile, EOFError) as error:
        return f"its {versions[0][1]:,} bytes are no whole checkpoint ({error})"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    return f"its part {part} has other bytes than were written" if part else None


def damage_of_directory(directory: Path) -> str | None:
    """What is wrong with a checkpoint that is a directory; None when it is as it was written."""
    for name, digest in read_sums(directory).items():
        file = directory / name
        if not file.is_file():
            return f"its part {name} is missing"
        if sha256(file) != digest:
            return f"its part {name} has other bytes than were written"
    inner = [directory / name for name in OTHER_WEIGHTS if (directory / name).is_dir()]
    problems = (metadata_problem(each) for each in (directory, *inner))
    return next((problem for problem in problems if problem), None)
