"""A run as its record describes it: runs/<trial>/<run_id>/run.json and the files next to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ...errors import LabError
from ...project import read_yaml
from ..files.atomic import json_problem, plain_json, read_json, read_text, write_plain_json
from ..files.forms import problem_in
from ..files.schema import Code, RunRecord, StartRecord
from ..files.seal import is_sealed, seal
from .attempt_files import last_attempt, read_attempts

SCHEMA = 1
# Keys that records of an older schema may lack.
OPTIONAL_KEYS = (
    "parent",
    "why",
    "who",
    "created",
    "host",
    "template",
    "seed",
    "config_sha256",
    "allow",
    "max_file_mb",
)
OPTIONAL_SECTIONS = ("process", "code", "command", "env", "files")


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
            LabError: there is no record, a damaged one, or one of a later schema than this code
                knows.
        """
        run_dir = Path(run_dir)
        record = read_json(run_dir / "run.json")
        if record is None:
            raise LabError(no_record(run_dir))
        record = upgraded(record, run_dir)
        if problem_in(record, RunRecord):
            raise LabError(no_record(run_dir))
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
        """What was installed, a line each; nothing in a record of an older schema."""
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
        record = read_json(path) or self.record
        changed = record | fields
        # A record that was edited by hand must not look right afterwards.
        changed = seal(changed) if is_sealed(record) else plain_json(changed)
        write_plain_json(path, changed)
        self.record = cast("RunRecord", self.record | changed)


def read_record(run_dir: Path) -> RunRecord | None:
    """run.json of one of many runs; None when it is missing, damaged, or of a later schema."""
    record = read_json(run_dir / "run.json", RunRecord)
    if record is None or is_later(record):
        return None
    return upgraded(record, run_dir)


def no_record(run_dir: Path) -> str:
    """Why the run in a directory cannot be opened, and what to do."""
    if not (run_dir / "run.json").exists():
        return f"{run_dir} has no run.json, so it is no run. Runs: lab runs list"
    problem = json_problem(run_dir / "run.json", RunRecord)
    return (
        f"{run_dir.name} is damaged: in its run.json, {problem}.\n"
        f"Bring {run_dir}/run.json back from a backup; the other files of the run are untouched."
    )


def is_later(record: Mapping[str, Any]) -> bool:
    """Whether a later version of this code wrote a record."""
    schema = record.get("schema", 0)
    return isinstance(schema, int) and schema > SCHEMA


def upgraded(record: dict[str, Any], run_dir: Path) -> RunRecord:
    """A record of an older schema with the keys of later ones.

    Missing facts are None or empty, never guessed.

    Raises:
        LabError: the schema is newer than this code.
    """
    if is_later(record):
        raise LabError(
            f"{run_dir} has schema {record['schema']}, but this lab reads up to {SCHEMA}. "
            "Type: copier update"
        )
    defaults: dict[str, Any] = dict.fromkeys(OPTIONAL_KEYS)
    for section in OPTIONAL_SECTIONS:
        defaults[section] = {}
    defaults["run_id"] = run_dir.name
    defaults["trial"] = run_dir.parent.name.replace("+", "/")
    return cast("RunRecord", defaults | record)
