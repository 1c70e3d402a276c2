"""A run as its record describes it: runs/<trial>/<run_id>/run.json and the files next to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from ...errors import LabError
from ...project import read_yaml
from ..files.atomic import (
    Damaged,
    plain_json,
    read_advisory,
    read_record,
    read_text,
    write_plain_json,
)
from ..files.manifest import is_as_listed, write_listed
from ..files.schema import Code, RunRecord, StartRecord
from .attempt_files import last_attempt, read_attempts


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
