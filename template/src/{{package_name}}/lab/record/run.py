# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""A run: its directory, and the record that is written before anything slow is imported."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
import sys
import time
from pathlib import Path
from typing import Any

from ..errors import LabError, Refused
from ..project import Project
from . import frozen
from .attempt import Attempt, attempt_numbers
from .code import freeze, keep
from .environment import differences, environment, packages, process, user
from .files import read_json, sha256, write, write_json
from .leaks import scan
from .snapshot import TOKEN_ADVICE

SCHEMA = 1
FILES = (
    "config.yaml",
    "overrides.txt",
    "env.txt",
    "code.bundle",
)  # fixed at the start; their hashes are in the record


class Run:
    """One run. `dir`: its directory; `record`: what run.json says; `id`, `trial`: from there."""

    def __init__(self, directory: Path, record: dict[str, Any]) -> None:
        self.dir, self.record = directory, record
        self.id, self.trial = record["run_id"], record["trial"]
        self._code_now: dict[str, Any] | None = None

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints go (a link to scratch when `paths.checkpoints` says so)."""
        return (self.dir / "checkpoints").resolve()

    @classmethod
    def create(
        cls,
        project: Project,
        runs: Path,
        *,
        trial: str,
        config_yaml: str,
        overrides: list[str],
        argv: list[str],
        seed: int,
        why: str | None = None,
        parent: str | None = None,
        dirty: str = "snapshot",
        allow: bool = False,
        max_file_mb: float = 10,
        checkpoints: Path | None = None,
        **fields: Any,
    ) -> Run:
        """Freezes the code, claims runs/<trial>/<run_id>/ and writes the record there.

        The directory appears under its name when everything in it is written, so there is never half a
        record.

        Args:
            runs: root of all runs.
            trial: "wide", or "wide/lowlr" for a variant (whose directory is wide+lowlr).
            config_yaml: the composed configuration.
            dirty: what to do about uncommitted changes, "snapshot" or "refuse".
            allow: record also what looks like a token.
            max_file_mb: files that git does not track are skipped above this size (10**6 bytes).
            checkpoints: root for checkpoints when they shall lie elsewhere than in the run directory.
            fields: further entries of run.json, such as `job`.

        Raises:
            Refused: the code cannot be recorded whole, or something looks like a token.
        """
        frozen.check()
        texts = {
            "the command line": " ".join(argv),
            "the overrides": "\n".join(overrides),
            "the configuration": config_yaml,
        }
        found = [
            hit for where, text in texts.items() for hit in scan(text.encode(errors="surrogateescape"), where)
        ]
        if found and not allow:
            raise Refused("nothing was recorded: " + "; ".join(found) + TOKEN_ADVICE)
        code = freeze(project, runs, trial, dirty=dirty, max_file_mb=max_file_mb, allow=allow)
        tell(code)
        installed = packages()
        folder = runs / trial.replace("/", "+")
        staging, run_id = claim(folder)
        write(staging / "config.yaml", config_yaml)
        write(staging / "overrides.txt", "".join(f"{line}\n" for line in overrides))
        write(staging / "env.txt", "".join(f"{line}\n" for line in installed))
        keep(code, runs, staging)
        record = {
            "schema": SCHEMA,
            "run_id": run_id,
            "trial": trial,
            "parent": parent,
            "why": why,
            "who": user(),
            "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "host": platform.node(),
            "process": process(),
            "template": template_version(project.root),
            "seed": seed,
            "code": code,
            "command": {"argv": argv, "cwd": os.getcwd(), "overrides": overrides},
            "config_sha256": hashlib.sha256(config_yaml.encode()).hexdigest(),
            "env": environment(project.root, installed),
            "files": {name: sha256(staging / name) for name in FILES if (staging / name).exists()},
            **fields,
        }
        write_json(staging / "run.json", record)
        directory = folder / run_id
        place_checkpoints(staging, checkpoints and checkpoints / folder.name / run_id)
        os.rename(staging, directory)
        run = cls(directory, json.loads((directory / "run.json").read_bytes()))
        run._code_now = code
        return run

    @classmethod
    def open(cls, run_dir: Path) -> Run:
        """The run in `run_dir`.

        Raises:
            LabError: there is no record, or one of a later schema than this code knows.
        """
        record = read_json(Path(run_dir) / "run.json")
        if record is None:
            raise LabError(f"{run_dir} holds no readable run.json, so it is not a run. Runs: lab runs list")
        return cls(Path(run_dir), upgraded(record, Path(run_dir)))

    def begin(self, project: Project | None = None, env: str = "warn", **facts: Any) -> Attempt:
        """Starts the next attempt: compares code and environment with the record, writes start.json.

        Args:
            project: where the live code is; needed in another process than the one that created the run.
            env: what to do when the environment differs from the recorded one, "warn" or "refuse".
            facts: for start.json, such as device, precision, world_size, n_gpus, data fingerprint, overrides.

        Raises:
            Refused: the environment differs and `env` is "refuse", or the code cannot be recorded.
        """
        frozen.check()
        root = project.root if project else Path.cwd()
        recorded_packages = (self.dir / "env.txt").read_text(encoding="utf-8").splitlines()
        changes = differences(self.record["env"], recorded_packages, root)
        if changes and env == "refuse":
            raise Refused(
                f"record.env=refuse, and the environment differs from the record: {'; '.join(changes[:10])}"
            )
        if changes:
            print(f"lab: the environment differs from the record: {'; '.join(changes[:3])}", file=sys.stderr)
        code = self._code_now
        if code is None and project is not None:
            code = freeze(project, self.dir.parent.parent, self.trial)
        numbers = attempt_numbers(self.dir)
        attempt = Attempt(self, numbers[-1] + 1 if numbers else 1)
        attempt.dir.mkdir(parents=True)
        if (
            numbers and (self.dir / "summary.json").exists()
        ):  # the run goes on; its last ending stays with that attempt
            os.replace(self.dir / "summary.json", self.dir / "attempts" / str(numbers[-1]) / "summary.json")
        same = code and code.get("commit") == self.record["code"].get("commit")
        if code and not same:
            print(
                f"lab: the code differs from the recorded one; now {(code['commit'] or 'unknown')[:12]}",
                file=sys.stderr,
            )
            keep(code, self.dir.parent.parent, attempt.dir)
        return attempt.start(
            code=code and (code if not same else {"commit": code["commit"], "same": True}),
            environment_differences=changes,
            **facts,
        )

    def update(self, **fields: Any) -> None:
        """Changes entries of run.json (`job`, once the scheduler has answered)."""
        self.record = self.record | fields
        write_json(self.dir / "run.json", self.record)


def claim(folder: Path) -> tuple[Path, str]:
    """Makes a hidden directory for a new run of `folder`; whoever makes it owns the id, and only a whole run
    loses its dot."""
    while True:
        run_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
        staging = folder / f".{run_id}"
        staging.parent.mkdir(parents=True, exist_ok=True)
        if (folder / run_id).exists():
            continue
        try:
            staging.mkdir()
            return staging, run_id
        except FileExistsError:
            continue


def place_checkpoints(run_dir: Path, elsewhere: Path | None) -> None:
    if elsewhere is None:
        (run_dir / "checkpoints").mkdir()
    else:
        elsewhere.mkdir(parents=True, exist_ok=True)
        (run_dir / "checkpoints").symlink_to(elsewhere)


def tell(code: dict[str, Any]) -> None:
    """One line about what was recorded as the code."""
    if not code["complete"]:
        print(f"lab: the code is NOT recorded: {code['reason']}", file=sys.stderr)
        return
    skipped = ", ".join(f"{entry['path']} ({entry['reason']})" for entry in code["skipped"])
    if code["dirty"] or skipped:
        counts = (
            f" with {code['n_changed']} changed and {code['n_untracked']} new files" if code["dirty"] else ""
        )
        print(
            f"lab: code {code['commit'][:12]}{counts}{f'; skipped: {skipped}' if skipped else ''}",
            file=sys.stderr,
        )


def template_version(root: Path) -> str | None:
    try:
        lines = (root / ".copier-answers.yml").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("_commit:")), None)


def upgraded(record: dict[str, Any], run_dir: Path) -> dict[str, Any]:
    """A record of an older schema with what later ones added; missing facts are None, never guessed.

    Raises:
        LabError: the schema is newer than this code.
    """
    if record.get("schema", 0) > SCHEMA:
        raise LabError(
            f"{run_dir} has schema {record['schema']}, this lab reads up to {SCHEMA}. Type: copier update"
        )
    defaults = {
        "run_id": run_dir.name, "trial": run_dir.parent.name.replace("+", "/"), "parent": None, "why": None,
        "who": None, "created": None, "host": None, "process": {}, "template": None, "seed": None, "code": {},
        "command": {}, "config_sha256": None, "env": {}, "files": {},
    }  # fmt: skip
    return defaults | record
