"""`lab` alone: what happened since the user last looked."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ...machine.text_formats import counted, format_value, printable
from ...project import Project
from ..files.atomic import read_advisory, write_json
from ..files.process import user
from ..files.schema import Row
from ..read.rows import read_rows
from ..read.run import run_roots
from ..read.status import ENDED, UNENDED, job_state_of

KINDS = (*ENDED, "continued", *UNENDED)
MAX_LINES = 10  # of one kind
MAX_METRICS = 4  # of a finished run
ERROR_WIDTH = 60  # characters


@dataclass(frozen=True)
class LastLook:
    """When the user last looked, and the ids of the runs that had not ended then."""

    unix_s: float = 0  # 0: never
    open: list[str] = field(default_factory=list)


def news_command(project: Project, args: list[str]) -> None:
    runs = project.paths.runs
    path = runs / ".looked" / f"{user()}.json"
    known = read_advisory(path, LastLook) or {}
    last_look = LastLook(known.get("unix_s", 0), known.get("open", []))
    now_unix_s = time.time()
    rows = read_rows(run_roots(project), job_state_of())
    print("\n".join(format_news(rows, last_look)))
    open_ids = [row["run_id"] for row in rows if row["status"] in UNENDED]
    # Somebody else's runs, or a read-only disk: the same news appear again next time.
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, asdict(LastLook(now_unix_s, open_ids)))


def format_news(rows: list[Row], last_look: LastLook) -> list[str]:
    """The lines to print about the rows of all runs."""
    if not rows:
        return ["no runs yet. Start with: lab train trial=baseline", "all commands: lab --help"]
    entries: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for row in rows:
        kind = kind_of_news(row, last_look)
        if kind:
            entries[kind].append(format_news_row(row))
    lines = []
    for kind, texts in entries.items():
        if texts:
            lines += [f"{kind}:", *texts[:MAX_LINES]]
        if len(texts) > MAX_LINES:
            lines.append(f"  … and {len(texts) - MAX_LINES} more")
    if not lines:
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(last_look.unix_s))
        lines.append(f"nothing new since {since}; {counted(len(rows), 'run')}: lab runs list")
    return lines


def kind_of_news(row: Row, last_look: LastLook) -> str | None:
    """The heading that a run comes under; None when the user knows its status already."""
    changed_unix_s = max(row["attempt_unix_s"] or 0, row["ended_unix_s"] or 0)
    changed = changed_unix_s > last_look.unix_s
    if row["status"] in UNENDED:
        several_attempts = (row["n_attempts"] or 0) > 1
        return "continued" if changed and several_attempts else row["status"]
    never_looked = last_look.unix_s == 0
    if changed or never_looked or row["run_id"] in last_look.open:
        return row["status"]
    return None


def format_news_row(row: Row) -> str:
    """A run in one line: its first metrics, or its error and how to resume it."""
    return printable(news_of_row(row))


def news_of_row(row: Row) -> str:
    text = f"  {row['run_id']}  {row['trial']}"
    if row["status"] in UNENDED:
        return text
    if row["status"] == "finished":
        for name, value in list(row["metrics"].items())[:MAX_METRICS]:
            text += f"  {name} {format_value(value)}"
        if row["attempt_status"] not in (None, "finished"):
            text += f"  (attempt {row['n_attempts']} {row['attempt_status']})"
        return text
    if row["exception"]:
        text += f"  {row['exception'][:ERROR_WIDTH]}"
    if row["status"] == "damaged":
        return text
    if any(Path(row["run_dir"], "checkpoints").glob("*.ckpt")):
        return f"{text}  -> lab resume {row['run_id']}"
    return f"{text}  (no checkpoint)"
