"""A run as its record describes it, the stretches that made its result, and the roots in which runs lie.

Another site, or `paths.runs=` on the command line, makes runs in another root than today's
`paths.runs`. So each root has a line in the project's runs/.roots, and every command reads all.
Whoever does not want to see the runs of a root any more deletes its line.

An attempt that was killed counts up to the checkpoint from which the next one began.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ...errors import LabError
from ...project import Project, read_yaml
from ..files.atomic import (
    Damaged,
    plain_json,
    read_advisory,
    read_record,
    read_text,
    write_plain_json,
)
from ..files.manifest import is_as_listed, write_listed
from ..files.schema import Beginning, Code, RunRecord, StartRecord
from .attempt_files import AttemptFiles, last_attempt, read_attempts

FILE = "runs/.roots"  # below the project, where git ignores it
BEGINNING = "beginning.json"  # in attempts/<n>/: the step at which the training of it began


class Run:
    """One run. `dir`: its directory; `record`: what run.json says; `id` and `trial`: from there.

    `code_now` is the code that this process froze when it created the run, so that the first
    attempt need not freeze it a second time; None when the run was opened.
    """

    record: RunRecord

    def __init__(self, directory: Path, record: RunRecord, code_now: Code | None = None) -> None:
        self.dir = directory
        self.record = record
        self.code_now = code_now
        self.id = record["run_id"]
        self.trial = record["trial"]

    @classmethod
    def open(cls, run_dir: Path) -> Run:
        """The run in `run_dir`.

        Raises:
            LabError: there is no record, or one that this code cannot read.
        """
        run_dir = Path(run_dir)
        try:
            record = read_record(run_dir / "run.json", RunRecord)
        except Damaged as problem:
            raise LabError(
                f"the record of {run_dir.name} cannot be read: in its run.json, {problem}.\n"
                f"If it was damaged, bring {run_dir}/run.json back from a backup; the other files "
                "of the run are untouched."
            ) from None
        if record is None:
            raise LabError(f"{run_dir} has no run.json, so it is no run. Runs: lab runs list")
        return cls(run_dir, record)

    @property
    def runs(self) -> Path:
        """The root of all runs."""
        return self.dir.parent.parent

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints go (a link to scratch when `paths.checkpoints` says so)."""
        return (self.dir / "checkpoints").resolve()

    @property
    def packages(self) -> list[str]:
        """What was installed, a line each; nothing where the file is gone."""
        path = self.dir / "env.txt"
        return read_text(path).splitlines() if path.exists() else []

    @property
    def config(self) -> dict[str, Any]:
        """The recorded configuration."""
        return read_yaml(self.dir / "config.yaml")

    @property
    def last_start(self) -> StartRecord:
        """start.json of the last attempt; empty when the run never began."""
        attempt = last_attempt(self.dir)
        return attempt.start if attempt else {}

    @property
    def data(self) -> dict[str, Any]:
        """The newest fingerprint of the data that an attempt read; empty when none has one."""
        fingerprints = [attempt.start.get("data") for attempt in read_attempts(self.dir)]
        newest: Any = next((data for data in reversed(fingerprints) if data), {})
        return newest

    def update(self, **fields: object) -> None:
        """Changes entries of run.json (`job`, once the scheduler has answered)."""
        path = self.dir / "run.json"
        changed = (read_advisory(path) or self.record) | fields
        # A record that was edited by hand must not look right afterwards.
        if is_as_listed(self.dir, path.name):
            changed = write_listed(self.dir, path.name, changed)
        else:
            changed = plain_json(changed)
            write_plain_json(path, changed)
        self.record = cast("RunRecord", self.record | changed)


def run_record(run_dir: Path) -> RunRecord:
    """run.json of one of many runs; empty when it is missing, damaged, or of a later format."""
    return cast("RunRecord", read_advisory(run_dir / "run.json", RunRecord) or {})


def typed_overrides(run_dir: Path) -> list[str]:
    """The settings that were typed when a run was made; none where it was made without settings."""
    try:
        return read_text(run_dir / "overrides.txt").splitlines()
    except FileNotFoundError:
        return []


def run_roots(project: Project) -> list[Path]:
    """Every root of the project, as it is named; today's `paths.runs` first.

    Says of a root that is not there now, because it was moved or purged, and leaves it out.
    """
    roots = {project.paths.runs.resolve(): project.paths.runs}
    for root in [project.root / "runs", *recorded_roots(project)]:
        roots.setdefault(root.resolve(), root)
    missing = [root for root in recorded_roots(project) if not has_entries(root)]
    for root in missing:
        print(
            f"lab: {root} has runs and is not there now. If it was moved or purged, "
            f"change or delete its line in {project.root / FILE}",
            file=sys.stderr,
        )
    return [root for root in roots.values() if root not in missing]


def missing_roots(project: Project) -> list[Path]:
    """The roots whose runs cannot be read: their disk is not mounted, or they were moved."""
    missing = [root for root in recorded_roots(project) if not has_entries(root)]
    own = project.root / "runs"
    if own.is_symlink() and not own.exists():
        missing.append(own)
    return missing


def has_entries(root: Path) -> bool:
    """Whether a recorded root can be read. The place of a disk that is not mounted is often empty."""
    try:
        return any(root.iterdir())
    except OSError:
        return False


def recorded_roots(project: Project) -> list[Path]:
    """The lines of runs/.roots; none as long as all runs lie in runs/."""
    try:
        lines = (project.root / FILE).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [Path(line) for line in lines if line]


def record_root(project: Project, root: Path) -> None:
    """Adds a root in which a run is made to runs/.roots, once."""
    roots = [project.root / "runs", *recorded_roots(project)]
    if root.resolve() in [each.resolve() for each in roots]:
        return
    file = project.root / FILE
    file.parent.mkdir(exist_ok=True)
    # One write of one line: two processes that do this at once lose nothing.
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        os.write(descriptor, f"{root}\n".encode())
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class FrozenCode:
    """A `code` section, and the directory with its bundles."""

    code: Code
    bundles: Path


def code_of(run: Run, attempt: AttemptFiles) -> FrozenCode:
    """The code that an attempt ran: its own, or that of the run."""
    code = attempt.start.get("code") or {"same": True}
    if code.get("same"):
        return FrozenCode(run.record["code"], run.dir)
    return FrozenCode(code, run.dir / "attempts" / str(attempt.n))


@dataclass(frozen=True)
class Stretch:
    """What one attempt contributed to the result of its run."""

    attempt: AttemptFiles
    code: Code
    bundles: Path  # the directory with those of `code`
    config: Path
    overrides: list[str]  # of `lab resume`
    stop_step: int | None  # optimizer steps done at its end; None: it came to its own end


def note_beginning(run_dir: Path, n: int, step: int) -> None:
    """Writes at which step (optimizer steps done) the training of attempt `n` begins."""
    write_listed(run_dir, f"attempts/{n}/{BEGINNING}", {"step": step})


def stretches_of(run: Run) -> list[Stretch]:
    """The stretches that made the result of a run, in order; at least one."""
    attempts = read_attempts(run.dir)
    begun = [(attempt, beginning_of(run, attempt)) for attempt in attempts]
    chain = [(attempt, step) for attempt, step in begun if step is not None]
    finished = [place for place, (attempt, _) in enumerate(chain) if is_finished(attempt)]
    if not chain:  # it never trained
        first = attempts[0] if attempts else AttemptFiles(1, {}, {}, [], {})
        return [stretch_of(run, first, None)]
    last = finished[-1] if finished else len(chain) - 1
    stretches = [stretch_of(run, chain[last][0], None)]
    step = chain[last][1]
    for attempt, first_step in reversed(chain[:last]):
        if first_step < step:
            stretches.append(stretch_of(run, attempt, end_of(attempt, step)))
            step = first_step
    return stretches[::-1]


def beginning_of(run: Run, attempt: AttemptFiles) -> int | None:
    """The step at which the training of an attempt began; None when it never did."""
    path = run.dir / "attempts" / str(attempt.n) / BEGINNING
    noted: Beginning = read_advisory(path, Beginning) or {}
    return noted.get("step")


def is_finished(attempt: AttemptFiles) -> bool:
    """Whether the training of an attempt came to its end, even if its final test failed."""
    return attempt.end.get("status") in ("finished", "trained")


def end_of(attempt: AttemptFiles, next_step: int) -> int | None:
    """Where the stretch of an attempt ends when the next one begins at `next_step`."""
    came_to_its_end = is_finished(attempt) and attempt.end.get("global_step") == next_step
    return None if came_to_its_end else next_step


def stretch_of(run: Run, attempt: AttemptFiles, stop_step: int | None) -> Stretch:
    """The stretch of an attempt, with the code and settings that this attempt had."""
    frozen = code_of(run, attempt)
    own_config = run.dir / "attempts" / str(attempt.n) / "config.yaml"
    return Stretch(
        attempt=attempt,
        code=frozen.code,
        bundles=frozen.bundles,
        config=own_config if own_config.exists() else run.dir / "config.yaml",
        overrides=attempt.start.get("overrides") or [],
        stop_step=stop_step,
    )
