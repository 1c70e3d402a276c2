"""The directory of a sweep, runs/sweeps/<id>/: what it searches.

Its data are named too: values compare only when they are the same.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ..config.compose import compose
from ..errors import LabError, nearest
from ..hdf5.file.checksum import sha256_of_hashes
from ..hdf5.file.find import find_data_files, place_of
from ..hdf5.file.joined import read_layouts
from ..project import Project
from ..record.files.atomic import plain_json, read_advisory, write_json
from ..record.files.process import user
from ..record.files.schema import Code
from ..record.read.run import Run
from ..record.write.inputs import override_for
from .definition import SweepDefinition

SWEEPS = "sweeps"  # below the root of all runs
SCHEMA = 1
HASH_CHARACTERS = 12


@dataclass(frozen=True)
class Sweep:
    """One search. `record` is what sweep.json says."""

    dir: Path
    definition: SweepDefinition
    record: dict[str, Any]

    @classmethod
    def open(cls, directory: Path) -> Sweep:
        """The sweep in a directory."""
        record = read_advisory(directory / "sweep.json")
        if record is None:
            raise LabError(f"{directory} has no sweep.json, so it is no sweep. Sweeps: {SWEEPS}/")
        if record["schema"] > SCHEMA:
            raise LabError(
                f"{directory} has schema {record['schema']}, but this lab reads up to {SCHEMA}. "
                "Type: copier update"
            )
        names = {field.name for field in fields(SweepDefinition)}
        definition = SweepDefinition(**{key: record[key] for key in names})
        return cls(directory, definition, record)

    @property
    def id(self) -> str:
        return self.dir.name

    @property
    def overrides(self) -> list[str]:
        """What its points share. `init_from` means what it meant when the sweep was made."""
        source = self.record.get("init_from")
        fixed = [override_for("init_from", source)] if source else []
        return [*self.definition.overrides, *fixed]

    @property
    def runs(self) -> Path:
        """The root of all runs."""
        return self.dir.parent.parent

    @property
    def journal(self) -> Path:
        return self.dir / "journal.log"

    @property
    def workers(self) -> Path:
        """The directory for what workers leave: their logs here, the names of their jobs."""
        return self.dir / "workers"


def make_sweep(
    runs: Path,
    definition: SweepDefinition,
    code_hash: str,
    code: Code,
    why: str | None = None,
    allow: bool = False,
    init_from: str | None = None,
    data_sha256: str | None = None,
) -> Sweep:
    """The sweep of a definition below `runs`: made now, or found as somebody made it before.

    Args:
        init_from: the weights that its points start from, as `with_fixed_weights` names them.
        data_sha256: of the content of the data file; None where it is not known.
    """
    directory = runs / SWEEPS / definition.sweep_id(code_hash, data_sha256)
    (directory / "workers").mkdir(parents=True, exist_ok=True)
    path = directory / "sweep.json"
    if not path.exists():
        record = {
            "schema": SCHEMA,
            "sweep_id": directory.name,
            **asdict(definition),
            "code": {key: code.get(key) for key in ("commit", "tree", "branch", "dirty")},
            "code_hash": code_hash,
            "data_sha256": data_sha256,
            "why": why,
            "allow": allow,
            "init_from": init_from,
            "who": user(),
            "created": datetime.now().astimezone().isoformat(timespec="seconds"),
        }
        write_once(path, plain_json(record))
    return Sweep.open(directory)


def write_once(path: Path, record: dict[str, Any]) -> None:
    """Writes a JSON file, unless another process has just written it."""
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    write_json(temporary, record)
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()


def sweep_directories(roots: Sequence[Path]) -> list[Path]:
    """The directories of all sweeps in all roots of runs, newest first."""
    paths = [file.parent for root in roots for file in (root / SWEEPS).glob("*/sweep.json")]
    return sorted(paths, key=lambda path: (path / "sweep.json").stat().st_mtime, reverse=True)


def find_sweep(roots: Sequence[Path], word: str | None) -> Sweep:
    """The sweep that `word` is or begins; without a word the newest."""
    directories = {path.name: path for path in sweep_directories(roots)}
    names = list(directories)
    if not names:
        raise LabError(
            f"there are no sweeps in {roots[0]} yet. "
            "Make one: lab sweep trial=baseline optimizer.lr=1e-3,3e-4"
        )
    if word is None:
        return Sweep.open(directories[names[0]])
    matches = [word] if word in names else [name for name in names if name.startswith(word)]
    if len(matches) != 1:
        problem = f"{word!r} means {len(matches)} sweeps" if matches else f"no sweep {word!r}"
        raise LabError(f"{problem}{nearest(word, names)}. Sweeps: {', '.join(names[:8])}")
    return Sweep.open(directories[matches[0]])


def data_files_of(config: DictConfig) -> list[Path]:
    """The packed files that a configuration names; none where it names none, or they are not here."""
    section: Any = config.get("data") or {}
    path, search = section.get("path"), section.get("search")
    if not path or not search:
        return []
    names = path if isinstance(path, str) else list(path)
    try:
        return find_data_files(names, [search] if isinstance(search, str) else list(search))
    except LabError:
        return []


def hash_of_data(config: DictConfig) -> str | None:
    """The content hash of these files, as a run records it; None without one.

    It is made from the hashes in the files: a run checks its bytes.
    """
    files = data_files_of(config)
    try:
        return sha256_of_hashes(read_layouts(files)) if files else None
    except (LabError, OSError):
        return None


def recorded_hash(run_dir: Path) -> str | None:
    """The content hash of the data that a run has read; None where it was not recorded."""
    return Run.open(run_dir).data.get("sha256")


def refuse_other_data(project: Project, sweep: Sweep) -> None:
    """Makes sure that the data file is the one with which a sweep began."""
    before = sweep.record.get("data_sha256")
    config = compose(project, sweep.overrides).config
    now = hash_of_data(config)
    if before and now and before != now:
        raise LabError(
            f"sweep {sweep.id} began with other data: {place_of(data_files_of(config))} had sha256 "
            f"{before[:HASH_CHARACTERS]}… then, and has {now[:HASH_CHARACTERS]}… now. Values of both "
            "do not compare. Bring the file back, or type the same lab sweep: it begins another search"
        )
