# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""A run: its directory and run.json."""

import hashlib
import os
import platform
import secrets
import sys
import time
from datetime import datetime
from pathlib import Path

from ..errors import LabError, Refused
from ..machine.secrets import find_tokens, refuse_tokens
from ..project import Project, read_yaml
from .atomic import plain_json, read_json, sha256, write_file, write_json
from .attempt import Attempt
from .attempt_files import NONE, read_attempts
from .bundle import STORE, link_bundles
from .environment import drift, environment, packages
from .frozen import check_frozen_directory, freeze_code
from .process import process_facts, user
from .snapshot import code_line
from .status import alive

SCHEMA = 1
ANSWERS = ".copier-answers.yml"  # its `_commit` is the version of the template


class Run:
    """One run. `dir`: its directory; `record`: what run.json says; `id` and `trial`: from there."""

    def __init__(self, directory: Path, record: dict, code_now: dict | None = None) -> None:
        self.dir, self.record, self.code_now = directory, record, code_now
        self.id, self.trial = record["run_id"], record["trial"]

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints go (a link to scratch when `paths.checkpoints` says so)."""
        return (self.dir / "checkpoints").resolve()

    @property
    def packages(self) -> list[str]:
        """What was installed, a line each; nothing in a record of an older schema."""
        path = self.dir / "env.txt"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

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
        code: dict | None = None,
        **fields: object,
    ) -> "Run":
        """Freezes the code, claims runs/<trial>/<run_id>/ and writes the record there.

        The directory appears under its name when everything in it is written, so there is never half a record.

        Args:
            runs: root of all runs.
            trial: "wide", or "wide/lowlr" for a variant (whose directory is wide+lowlr).
            config_yaml: the composed configuration.
            dirty: what to do about uncommitted changes, "snapshot" or "refuse".
            allow: record also what looks like a token.
            max_file_mb: files that git does not track are skipped above this size (10**6 bytes).
            checkpoints: root for checkpoints when they shall lie elsewhere than in the run directory.
            code: what `freeze` gave, when that was done before.
            fields: further entries of run.json, such as `job`.

        Raises:
            Refused: the code cannot be recorded whole, or something looks like a token.
        """
        check_frozen_directory()
        texts = {
            "command line": " ".join(argv),
            "overrides": "\n".join(overrides),
            "configuration": config_yaml,
        }
        if not allow:
            refuse_tokens(
                [
                    hit
                    for where, text in texts.items()
                    for hit in find_tokens(text.encode(errors="replace"), where)
                ]
            )
        code = code or freeze_code(
            project, runs, trial, dirty=dirty, max_file_mb=max_file_mb, allow=allow
        )
        print_start(code)
        installed = packages()
        answers = read_yaml(project.root / ANSWERS) if (project.root / ANSWERS).exists() else {}
        folder = runs / trial.replace("/", "+")
        staging, run_id = create_run_dir(folder)
        write_file(staging / "config.yaml", config_yaml)
        write_file(staging / "overrides.txt", "".join(f"{line}\n" for line in overrides))
        write_file(staging / "env.txt", "".join(f"{line}\n" for line in installed))
        link_bundles(code, runs / STORE, staging)
        record = {
            "schema": SCHEMA,
            "run_id": run_id,
            "trial": trial,
            "parent": parent,
            "why": why,
            "who": user(),
            "created": datetime.now().astimezone().isoformat(timespec="milliseconds"),
            "host": platform.node(),
            "process": process_facts(),
            "template": answers.get("_commit"),
            "seed": seed,
            "allow": allow,
            "max_file_mb": max_file_mb,
            "code": code,
            "command": {"argv": argv, "cwd": os.getcwd(), "overrides": overrides},
            "config_sha256": hashlib.sha256(config_yaml.encode()).hexdigest(),
            "env": environment(project.root, installed),
            "files": {path.name: sha256(path) for path in sorted(staging.iterdir())},
            **fields,
        }
        write_json(staging / "run.json", record)
        if checkpoints is None:
            (staging / "checkpoints").mkdir()
        else:
            (checkpoints / folder.name / run_id).mkdir(parents=True)
            (staging / "checkpoints").symlink_to(checkpoints / folder.name / run_id)
        os.rename(staging, folder / run_id)
        return cls(folder / run_id, plain_json(record), code)

    @classmethod
    def open(cls, run_dir: Path) -> "Run":
        """The run in `run_dir`.

        Raises:
            LabError: there is no record, or one of a later schema than this code knows.
        """
        record = read_json(Path(run_dir) / "run.json")
        if record is None:
            raise LabError(
                f"{run_dir} holds no readable run.json, so it is not a run. Runs: lab runs list"
            )
        return cls(Path(run_dir), upgraded(record, Path(run_dir)))

    def begin(self, project: Project, env: str = "warn", **facts: object) -> Attempt:
        """Starts the next attempt: compares code and environment with the record, writes start.json.

        Args:
            env: what to do when the environment differs from the recorded one, "warn" or "refuse".
            facts: for start.json, such as the overrides of this attempt.

        Raises:
            LabError: the run is running.
            Refused: the environment differs and `env` is "refuse", or the code cannot be recorded.
        """
        check_frozen_directory()
        changes = drift(self.record["env"], self.packages, project.root)
        if changes and env == "refuse":
            raise Refused(
                f"record.env=refuse, and the environment differs from the record: {'; '.join(changes[:9])}"
            )
        if changes:
            print(
                f"lab: the environment differs from the record: {'; '.join(changes[:3])}",
                file=sys.stderr,
            )
        runs, attempts = self.dir.parent.parent, read_attempts(self.dir)
        last = (attempts or [NONE])[-1]
        if not last["end"] and alive(last["start"]):
            raise LabError(
                f"{self.id} is running on this machine already. Wait for it, or stop it with Ctrl-C."
            )
        options = {
            "allow": self.record["allow"] or False,
            "max_file_mb": self.record["max_file_mb"] or 10,
        }
        code = self.code_now or freeze_code(project, runs, self.trial, **options)
        attempt = Attempt(self.dir, last["n"] + 1)
        attempt.dir.mkdir(parents=True)
        if code["commit"] == self.record["code"].get("commit"):
            code = {"commit": code["commit"], "same": True}
        else:
            print(
                f"lab: the code differs from the recorded one; now {code['commit']}",
                file=sys.stderr,
            )
            link_bundles(code, runs / STORE, attempt.dir)
        if (
            attempts and (self.dir / "summary.json").exists()
        ):  # it goes on; its last ending stays with that attempt
            os.replace(
                self.dir / "summary.json", self.dir / "attempts" / str(last["n"]) / "summary.json"
            )
        return attempt.start(code=code, environment_differences=changes, **facts)

    def update(self, **fields: object) -> None:
        """Changes entries of run.json (`job`, once the scheduler has answered)."""
        self.record = self.record | fields
        write_json(self.dir / "run.json", self.record)


def create_run_dir(folder: Path) -> tuple[Path, str]:
    """Makes a hidden directory for a new run of `folder`. Whoever makes it owns the id; a whole run loses its dot."""
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        run_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
        try:
            (folder / f".{run_id}").mkdir()
        except FileExistsError:
            continue
        if not (folder / run_id).exists():
            return folder / f".{run_id}", run_id


def print_start(code: dict) -> None:
    """One line about what was recorded as the code, unless it is just HEAD."""
    if not code["complete"]:
        print(f"lab: the code is NOT recorded: {code['reason']}", file=sys.stderr)
    elif code["dirty"] or code["skipped"]:
        print(f"lab: code {code_line(code)}", file=sys.stderr)


def upgraded(record: dict, run_dir: Path) -> dict:
    """A record of an older schema with what later ones added; missing facts are None or empty, never guessed.

    Raises:
        LabError: the schema is newer than this code.
    """
    if record.get("schema", 0) > SCHEMA:
        raise LabError(
            f"{run_dir} has schema {record['schema']}, this lab reads up to {SCHEMA}. Type: copier update"
        )
    unknown = (
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
    empty = {key: {} for key in ("process", "code", "command", "env", "files")}
    names = {"run_id": run_dir.name, "trial": run_dir.parent.name.replace("+", "/")}
    return dict.fromkeys(unknown) | empty | names | record
