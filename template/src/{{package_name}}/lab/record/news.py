# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab` alone: what finished, failed or continued since one last looked."""

import time
from pathlib import Path

from ..project import Project
from .atomic import read_json, write_json
from .index import rows
from .list import LONGEST, format_value
from .process import user
from .status import JobStateOf


def news_command(project: Project, args: list[str], scheduler: JobStateOf | None = None) -> None:
    runs = project.paths["runs"]
    looked = runs / ".looked" / f"{user()}.json"
    before = read_json(looked) or {"unix_s": 0, "open": []}
    now_unix_s = time.time()
    known = rows(runs, scheduler)
    unended = [row["run_id"] for row in known if row["status"] in ("running", "queued")]
    print("\n".join(news(known, before)))
    try:
        looked.parent.mkdir(parents=True, exist_ok=True)
        write_json(looked, {"unix_s": now_unix_s, "open": unended})
    except (
        OSError
    ):  # somebody else's runs, or a read-only disk: then the same is told again next time
        return


def news(known: list[dict], before: dict) -> list[str]:
    """The lines to print, given the rows of all runs and what was known at the last look."""
    if not known:
        return ["no runs yet. Start with: lab train trial=baseline", "all commands: lab --help"]
    kinds = {
        kind: []
        for kind in ("finished", "failed", "interrupted", "lost", "continued", "running", "queued")
    }
    for row in known:
        changed = max(row["attempt_unix_s"] or 0, row["ended_unix_s"] or 0) > before["unix_s"]
        if row["status"] in ("running", "queued"):
            kinds[
                "continued" if changed and (row["n_attempts"] or 0) > 1 else row["status"]
            ].append(format_news_row(row))
        elif changed or not before["unix_s"] or row["run_id"] in before["open"]:
            kinds[row["status"]].append(format_news_row(row))
    lines = []
    for kind, entries in kinds.items():
        if entries:
            more = [f"  … and {len(entries) - LONGEST} more"] if len(entries) > LONGEST else []
            lines += [f"{kind}:", *entries[:LONGEST], *more]
    since = (
        time.strftime("%Y-%m-%d %H:%M", time.localtime(before["unix_s"]))
        if before["unix_s"]
        else "ever"
    )
    return lines or [f"nothing new since {since}; {len(known)} runs: lab runs list"]


def format_news_row(row: dict) -> str:
    text = f"  {row['run_id']}  {row['trial']}"
    if row["status"] == "finished":
        return text + "".join(
            f"  {name} {format_value(value)}" for name, value in list(row["metrics"].items())[:4]
        )
    if row["status"] in ("failed", "interrupted", "lost"):
        error = f"  {row['exception'][:60]}" if row["exception"] else ""
        there = any(Path(row["run_dir"], "checkpoints").glob("*.ckpt"))
        return text + error + (f"  -> lab resume {row['run_id']}" if there else "  (no checkpoint)")
    return text
