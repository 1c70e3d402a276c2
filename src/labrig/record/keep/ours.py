"""What may be deleted: what `lab` made for this project and this person, and nobody uses now.

============================================================  ==============================
a run directory below a root of runs                          may be deleted
============================================================  ==============================
it, or the directory of its trial, is a link                  no: it is somebody's original
has no run.json with the id and trial of a run                no: nobody knows what it is
was made by another person                                    when `who=NAME` names that one
belongs to another project, see `is_of_project`               no
a process has its newest attempt, or reads it                 no
a worker of a sweep resumes it next                           no
============================================================  ==============================
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any, cast

from ...project import PYPROJECT, Project
from ..files.atomic import read_advisory
from ..files.process import user
from ..files.schema import Row, RunRecord
from ..freeze.git import Git
from ..read.rows import RUN_ID
from ..write.claim import is_claimed

DAY_S = 86400
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# Hidden directories in that of a trial: of a new run, of one that is fetched or deleted.
LEFTOVER = re.compile(rf"\.(?:deleted-)?(?P<run>{RUN_ID.pattern})(\.\d+)?")


def reason_to_leave(row: Row, project: Project, people: set[str]) -> str | None:
    """Why a run may not be deleted from here, whoever needs it; None when it may.

    Args:
        people: whose runs may be deleted, as records name them.
    """
    run_dir = Path(row["run_dir"])
    if run_dir.is_symlink() or run_dir.parent.is_symlink():
        return "behind a link"
    record = cast("RunRecord", read_advisory(run_dir / "run.json") or {})
    if not is_record(record):
        return "without a readable run.json; look, and delete them yourself"
    makers = {str(who) for who in (record.get("who"), row["who"]) if who is not None}
    others = (makers or {str(run_dir.stat().st_uid)}) - people
    if others:
        return f"of {others.pop()}; add who=NAME to delete that person's"
    if not is_of_project(run_dir, record, project):
        return f"of another project, {project_of(record) or 'which they do not name'}"
    if is_claimed(run_dir):
        return "in use by a process"
    if is_point_to_resume(run_dir, record):
        return "a point that its sweep resumes"
    return None


def these_people(named: list[str]) -> set[str]:
    """This person, also by number as a container names it, and those that `who=NAME` names."""
    return {user(), str(os.getuid()), *named}


def is_record(record: RunRecord) -> bool:
    """Whether run.json is one that `lab` wrote."""
    run_id = record.get("run_id")
    is_id = isinstance(run_id, str) and RUN_ID.fullmatch(run_id)
    return bool(is_id) and isinstance(record.get("trial"), str)


def is_of_project(run_dir: Path, record: RunRecord, project: Project) -> bool:
    """Whether a run belongs to this project. The first line of this table that holds decides.

    ====================================================  ===============
    the run                                               belongs to
    ====================================================  ===============
    was made by this project                              this one
    lies in a project (a copy, a run that was received)   the one around it
    was made by a project that is still there             that one
    has code of this repository (the project was moved)   this one
    is any other                                          another one
    ====================================================  ===============
    """
    root = project.root.resolve()
    maker = project_of(record)
    if maker is not None and maker.resolve() == root:
        return True
    around = project_around(run_dir.resolve())
    if around is not None:
        return around == root
    if maker is not None and is_project(maker):
        return False
    return knows_code(project, record)


def project_of(record: RunRecord) -> Path | None:
    """The root of the project that made a run; None where the record does not say."""
    root = record.get("project")
    return Path(root) if isinstance(root, str) else None


def project_around(folder: Path) -> Path | None:
    """The project in which a directory lies; None where there is none."""
    return next((each for each in (folder, *folder.parents) if is_project(each)), None)


def is_project(folder: Path) -> bool:
    try:
        text = (folder / PYPROJECT).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "[tool.labrig]" in text


def knows_code(project: Project, record: RunRecord) -> bool:
    """Whether the code of a run is that of this project, by the commits of its repository."""
    code = record.get("code")
    if not isinstance(code, dict) or not code.get("commit"):
        return False
    git = Git(project.root)
    prefix = git.run("rev-parse", "--show-prefix")
    if prefix.returncode or prefix.stdout.strip() != code.get("prefix"):
        return False
    commits = [code["commit"], code.get("head")]
    return any(
        git.run("cat-file", "-e", f"{commit}^{{commit}}").returncode == 0
        for commit in commits
        if is_commit(commit)
    )


def is_commit(name: Any) -> bool:
    """Whether a record's word is the whole name of a commit, and no pattern, option or path."""
    return isinstance(name, str) and bool(COMMIT.fullmatch(name))


# The points of a sweep, by two kinds of lines of its journal, which is Optuna's.

STATE = 6  # op_code: the state of a point is set
RUNNING = 0


def is_point_to_resume(run_dir: Path, record: RunRecord) -> bool:
    """Whether a run is a point that its sweep has not settled: the next worker resumes it."""
    sweep = record.get("parent")
    if not isinstance(sweep, str) or not sweep or "/" in sweep or sweep.startswith("."):
        return False
    root = run_dir.parent.parent
    name = f"{run_dir.parent.name}/{run_dir.name}"
    points = set()
    is_open = False
    try:
        lines = (root / "sweeps" / sweep / "journal.log").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return False
    for entry in map(read_line, lines):
        attributes = entry.get("user_attr")
        if isinstance(attributes, dict) and attributes.get("run") == name:
            points.add(entry.get("trial_id"))
            is_open = True
        elif entry.get("op_code") == STATE and entry.get("trial_id") in points:
            is_open = entry.get("state") == RUNNING
    return is_open


def read_line(line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}


# What else lies below a root and is ours.


def leftovers(root: Path) -> list[Path]:
    """What starts, copies and deletions that were killed left more than a day ago below a root.

    It is this user's, has a name that only `lab` gives, and is no link.
    """
    found = []
    for hidden in sorted(root.glob("*/.*")):
        match = LEFTOVER.fullmatch(hidden.name)
        if not match or hidden.is_symlink() or hidden.parent.is_symlink() or not hidden.is_dir():
            continue
        status = hidden.stat()
        is_old = time.time() - status.st_mtime > DAY_S
        if is_old and status.st_uid == os.getuid():
            found.append(hidden)
    return found


def run_of_leftover(hidden: Path) -> str:
    """The id in the name of what `leftovers` found."""
    match = LEFTOVER.fullmatch(hidden.name)
    return match["run"] if match else ""
