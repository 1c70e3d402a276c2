"""The files in tar archives, which are read where they lie, without unpacking."""

import tarfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ..file.errors import DataFileError
from .samples import DamagedSamples, RawFile
from .sources import Source

SUFFIX = ".tar"
SPLIT_OF_WORD = {
    "train": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
}


def open_tars(
    source: Source, tars: Sequence[Path], suffixes: Sequence[str], damaged: DamagedSamples
) -> list[RawFile]:
    """The files of a kind in the archives of a source.

    In one archive the directories are the classes, without one around all of them; of several, each
    is a class.

    Raises:
        DataFileError: an archive that is compressed or damaged, or archives of splits.
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
    others: Counter[str] = Counter()
    try:
        with tarfile.open(tar, "r:") as archive:
            for member in archive:
                path = Path(member.name)
                if member.isdir():
                    continue
                if any(part.startswith(("._", ".", "__")) for part in path.parts if part != "."):
                    others["hidden"] += 1
                elif not member.isreg() or member.issparse():
                    others["links or sparse"] += 1
                elif path.suffix.lower() not in suffixes:
                    others[path.suffix.lower() or "(none)"] += 1
                else:
                    members.append((member.name, member.offset_data, member.size))
    except (tarfile.TarError, EOFError) as error:
        raise DataFileError(
            f"{tar} cannot be read as a tar archive: {error}. A compressed one is unpacked first: "
            f"gunzip {tar}"
        ) from error
    if others:
        listed = ", ".join(f"{name} {n}" for name, n in others.most_common())
        damaged.counts[f"files of {tar.name} left out: {listed}"] = others.total()
    return sorted(members)


def n_directories_around(paths: Sequence[Sequence[str]]) -> int:
    """How many directories lie around those of the classes, as in train/cat/1.jpg."""
    n_around = 0
    while paths and all(len(parts) > n_around + 2 for parts in paths):
        if len({parts[n_around] for parts in paths}) > 1:
            break
        n_around += 1
    return n_around
