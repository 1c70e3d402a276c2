"""What a page says of a run besides its row: where it ran, its code, and links to both."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..record.atomic import read_json
from ..record.json_lines import read_lines

# https://host/path, ssh://git@host:22/path and git@host:path, of forges that show a commit
REMOTE = re.compile(
    r"(?:(?:https|ssh|git)://"
    r"(?:[\w.-]+@)?([\w.-]+)(?::\d+)?/|[\w.-]+@([\w.-]+):)([\w./~-]+)"
)
COMMIT = re.compile(r"[0-9a-f]{40,64}")


@dataclass(frozen=True)
class RunFacts:
    """Facts of run.json and notes.jsonl, and the place of a run as seen from the page."""

    host: str | None
    overrides: str  # what was typed
    commit: str | None  # of the code that ran
    dirty: bool  # whether it differs from the commit that the link shows
    code_url: str | None  # of the commit, or of the one before uncommitted changes, at the remote
    notes: list[str]
    directory: str  # relative to the page, with / between its parts


def read_facts(run_dir: Path, folder: Path) -> RunFacts:
    """Facts of the run in `run_dir`; `folder` is that of the page."""
    record = read_json(run_dir / "run.json") or {}
    code = section(record, "code")
    overrides = section(record, "command").get("overrides")
    notes = [str(entry["note"]) for entry in read_lines(run_dir / "notes.jsonl") if "note" in entry]
    commit = text_or_none(code.get("commit"))
    shown_commit = code.get("head") if code.get("dirty") else commit
    return RunFacts(
        host=text_or_none(record.get("host")),
        overrides=" ".join(map(str, overrides)) if isinstance(overrides, list) else "",
        commit=commit,
        dirty=bool(code.get("dirty")),
        code_url=commit_url(code.get("remote"), shown_commit),
        notes=notes,
        directory=os.path.relpath(run_dir, folder).replace(os.sep, "/"),
    )


def section(record: dict[str, Any], key: str) -> dict[str, Any]:
    """A part of run.json; empty where it is missing or no object."""
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def text_or_none(value: Any) -> str | None:
    """A text; None for anything else, which only a record that was damaged has."""
    return value if isinstance(value, str) else None


def commit_url(remote: str | None, commit: str | None) -> str | None:
    """The page of a commit at a forge; None for a remote that is no forge."""
    match = REMOTE.fullmatch(str(remote))
    if not match or not COMMIT.fullmatch(str(commit)):
        return None
    host = match[1] or match[2]
    path = match[3].strip("/").removesuffix(".git")
    tree = "-/tree" if "gitlab" in host else "tree"
    return f"https://{host}/{path}/{tree}/{commit}"
