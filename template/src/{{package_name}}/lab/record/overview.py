# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab` alone tells what happened since this person last looked; `lab runs cost` adds up what all runs took."""

import argparse
import time
from collections import defaultdict
from pathlib import Path

from ..project import Project
from .attempt import Scheduler
from .environment import user
from .files import read_json, write_json
from .listing import shown
from .rows import rows

LONGEST = 10  # lines per kind
KEYS = {
    "trial": lambda row: row["trial"],
    "person": lambda row: row["who"] or "?",
    "month": lambda row: (row["created"] or "?")[:7],
}


def news_command(project: Project, args: list[str], scheduler: Scheduler | None = None) -> None:
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
    except OSError:  # somebody else's runs, or a read-only disk: then the same is told again next time
        return


def news(known: list[dict], before: dict) -> list[str]:
    """The lines to print, given the rows of all runs and what was known at the last look."""
    if not known:
        return ["no runs yet. Start with: lab train trial=baseline", "all commands: lab --help"]
    kinds = {kind: [] for kind in ("finished", "failed", "interrupted", "lost", "continued", "running", "queued")}
    for row in known:
        status, ended = row["status"], row["ended_unix_s"]
        if status in ("running", "queued"):
            again = (row["n_attempts"] or 0) > 1 and (row["attempt_unix_s"] or 0) > before["unix_s"]
            kinds["continued" if again else status].append(line(row))
        elif (ended or 0) > before["unix_s"] or (ended is None and news_of_lost(row, before)):
            kinds[status].append(line(row))
    lines = []
    for kind, entries in kinds.items():
        if entries:
            more = [f"  … and {len(entries) - LONGEST} more"] if len(entries) > LONGEST else []
            lines += [f"{kind}:", *entries[:LONGEST], *more]
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(before["unix_s"])) if before["unix_s"] else "ever"
    return lines or [f"nothing new since {since}; {len(known)} runs: lab runs list"]


def news_of_lost(row: dict, before: dict) -> bool:
    return row["run_id"] in before["open"] or (row["started_unix_s"] or 0) > before["unix_s"] or not before["unix_s"]


def line(row: dict) -> str:
    text = f"  {row['run_id']}  {row['trial']}"
    if row["status"] == "finished":
        return text + "".join(f"  {name} {shown(value)}" for name, value in list(row["metrics"].items())[:4])
    if row["status"] in ("failed", "interrupted", "lost"):
        error = f"  {row['exception'][:60]}" if row["exception"] else ""
        there = any(Path(row["run_dir"], "checkpoints").glob("*.ckpt"))
        return text + error + (f"  -> lab resume {row['run_id']}" if there else "  (no checkpoint)")
    return text


def cost_command(project: Project, args: list[str]) -> None:
    argparse.ArgumentParser(
        prog="lab runs cost", description="Hours, GPU-hours and energy of all runs, failed ones too."
    ).parse_args(args)
    known = rows(project.paths["runs"])
    print(f"{'':<24}{'runs':>7}{'hours':>10}{'GPU-hours':>11}{'kWh':>9}")
    for name, key in KEYS.items():
        groups = defaultdict(list)
        for row in known:
            groups[key(row)].append(row)
        print(f"by {name}")
        for group in sorted(groups):
            print(total_line(f"  {group}", groups[group]))
    print(total_line("all", known))
    unmeasured = sum(row.get("gpu_seconds", 0) not in (0, None) and row.get("energy_j") is None for row in known)
    if unmeasured:
        print(f"kWh leaves out {unmeasured} runs whose GPUs do not tell their energy")


def total_line(name: str, known: list[dict]) -> str:
    hours, gpu_hours, kwh = (
        sum(row.get(key) or 0 for row in known) / unit
        for key, unit in (("seconds", 3600), ("gpu_seconds", 3600), ("energy_j", 3.6e6))
    )
    return f"{name[:24]:<24}{len(known):>7}{hours:>10.2f}{gpu_hours:>11.2f}{kwh:>9.3f}"
