# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""A run: its directory, the record that is written before anything slow is imported, and the way to it from an id."""

import hashlib
import os
import platform
import secrets
import sys
import time
from datetime import datetime
from pathlib import Path

from ..errors import LabError, Refused, nearest
from ..machine.leaks import refuse, scan
from ..project import Project
from .attempt import Attempt, alive, attempt_numbers, read_attempts
from .bundle import check, freeze, keep
from .environment import differences, environment, packages, process, user
from .files import plain, read_json, sha256, write, write_json
from .rows import lower_is_better, rows, run_directories

SCHEMA = 1


class Run:
    """One run. `dir`: its directory; `record`: what run.json says; `id` and `trial`: from there."""

    def __init__(self, directory: Path, record: dict, code_now: dict | None = None) -> None:
        self.dir, self.record, self.code_now = directory, record, code_now
        self.id, self.trial = record["run_id"], record["trial"]

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
        check()
        texts = {"command line": " ".join(argv), "overrides": "\n".join(overrides), "configuration": config_yaml}
        if not allow:
            refuse([hit for where, text in texts.items() for hit in scan(text.encode(errors="replace"), where)])
        code = code or freeze(project, runs, trial, dirty=dirty, max_file_mb=max_file_mb, allow=allow)
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
            "created": datetime.now().astimezone().isoformat(timespec="milliseconds"),
            "host": platform.node(),
            "process": process(),
            "template": template_version(project.root),
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
        return cls(folder / run_id, plain(record), code)

    @classmethod
    def open(cls, run_dir: Path) -> "Run":
        """The run in `run_dir`.

        Raises:
            LabError: there is no record, or one of a later schema than this code knows.
        """
        record = read_json(Path(run_dir) / "run.json")
        if record is None:
            raise LabError(f"{run_dir} holds no readable run.json, so it is not a run. Runs: lab runs list")
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
        check()
        changes = differences(self.record["env"], recorded_packages(self.dir), project.root)
        if changes and env == "refuse":
            raise Refused(f"record.env=refuse, and the environment differs from the record: {'; '.join(changes[:9])}")
        if changes:
            print(f"lab: the environment differs from the record: {'; '.join(changes[:3])}", file=sys.stderr)
        runs, numbers = self.dir.parent.parent, attempt_numbers(self.dir)
        last = read_attempts(self.dir)[-1] if numbers else None
        if last and not last["end"] and alive(last["start"]):
            raise LabError(f"{self.id} is running on this machine already. Wait for it, or stop it with Ctrl-C.")
        options = {"allow": self.record["allow"] or False, "max_file_mb": self.record["max_file_mb"] or 10}
        code = self.code_now or freeze(project, runs, self.trial, **options)
        attempt = Attempt(self.dir, numbers[-1] + 1 if numbers else 1)
        attempt.dir.mkdir(parents=True)
        if code["commit"] == self.record["code"].get("commit"):
            code = {"commit": code["commit"], "same": True}
        else:
            print(f"lab: the code differs from the recorded one; now {code['commit']}", file=sys.stderr)
            keep(code, runs, attempt.dir)
        if numbers and (self.dir / "summary.json").exists():  # the run goes on; its last ending stays with that attempt
            os.replace(self.dir / "summary.json", self.dir / "attempts" / str(numbers[-1]) / "summary.json")
        return attempt.start(code=code, environment_differences=changes, **facts)

    def update(self, **fields: object) -> None:
        """Changes entries of run.json (`job`, once the scheduler has answered)."""
        self.record = self.record | fields
        write_json(self.dir / "run.json", self.record)


def claim(folder: Path) -> tuple[Path, str]:
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


def tell(code: dict) -> None:
    """One line about what was recorded as the code."""
    if not code["complete"]:
        print(f"lab: the code is NOT recorded: {code['reason']}", file=sys.stderr)
        return
    skipped = ", ".join(f"{entry['path']} ({entry['reason']})" for entry in code["skipped"])
    counts = f" with {code['n_changed']} changed and {code['n_untracked']} new files" if code["dirty"] else ""
    if counts or skipped:
        print(f"lab: code {code['commit'][:12]}{counts}{f'; skipped: {skipped}' if skipped else ''}", file=sys.stderr)


def recorded_packages(run_dir: Path) -> list[str]:
    path = run_dir / "env.txt"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def template_version(root: Path) -> str | None:
    try:
        lines = (root / ".copier-answers.yml").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("_commit:")), None)


def upgraded(record: dict, run_dir: Path) -> dict:
    """A record of an older schema with what later ones added; missing facts are None or empty, never guessed.

    Raises:
        LabError: the schema is newer than this code.
    """
    if record.get("schema", 0) > SCHEMA:
        raise LabError(f"{run_dir} has schema {record['schema']}, this lab reads up to {SCHEMA}. Type: copier update")
    unknown = ("parent", "why", "who", "created", "host", "template", "seed", "config_sha256", "allow", "max_file_mb")
    empty = {key: {} for key in ("process", "code", "command", "env", "files")}
    names = {"run_id": run_dir.name, "trial": run_dir.parent.name.replace("+", "/")}
    return dict.fromkeys(unknown) | empty | names | record


def find(runs: Path, word: str) -> Run:
    """The run that `word` means.

    Raises:
        LabError: none or several; the message names the nearest.
    """
    if "/" in word and not word.startswith("@") and Path(word).is_dir():
        return Run.open(Path(word).resolve())
    directories = {Path(directory).name: Path(directory) for directory in run_directories(runs)}
    if not directories:
        raise LabError(f"there are no runs in {runs} yet. Make one with: lab train trial=baseline")
    if word == "@last":
        second = max(directories)[:15]
        newest = [directory for name, directory in directories.items() if name[:15] == second]
        return Run.open(max(newest, key=lambda directory: (directory / "run.json").stat().st_mtime_ns))
    if word.startswith("@best:"):
        return Run.open(Path(best(rows(runs), word.removeprefix("@best:"))[0]["run_dir"]))
    matches = [word] if word in directories else [name for name in directories if name.startswith(word)]
    matches = matches or [row["run_id"] for row in rows(runs) if word in row["tags"]]
    if len(matches) == 1:
        return Run.open(directories[matches[0]])
    if matches:
        raise LabError(f"{word!r} means {len(matches)} runs: {', '.join(sorted(matches)[:5])}. Give more of the id.")
    raise LabError(f"no run {word!r}{nearest(word, directories)}. Runs: lab runs list")


def best(known: list[dict], metric: str) -> list[dict]:
    """The finished ones of `known` that have `metric`, best final value first.

    Raises:
        LabError: none has it.
    """
    finished = [row for row in known if row["status"] == "finished"]
    measured = [row for row in finished if isinstance(row["metrics"].get(metric), int | float)]
    if not measured:
        names = sorted({name for row in finished for name in row["metrics"]})
        there = ", ".join(names) or "none"
        raise LabError(f"no finished run has {metric!r}{nearest(metric, names)}. Metrics: {there}")
    sign = 1 if lower_is_better(metric) else -1
    return sorted(measured, key=lambda row: sign * row["metrics"][metric])
