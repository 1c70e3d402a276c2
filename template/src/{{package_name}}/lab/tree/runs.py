# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs prune` deletes the runs that neither trials nor other runs need; `lab runs cost` adds up what all runs took."""

import argparse
import os
import shutil
import time
from collections import defaultdict
from pathlib import Path

from ..project import Project
from ..record.attempt import read_attempts
from ..record.bundle import STORE, checked_out
from ..record.files import read_json
from ..record.listing import FILTERS, holds, parsed
from ..record.rows import ranked, rows, run_directories
from ..record.snapshot import Git

PRUNED = """Deletes runs; without --yes it only says which. Never one that is queued or running, has a tag, is the parent of
another, is named in a trial's README or is among the best of its trial."""
BY_DEFAULT = "status=failed,interrupted,lost"
DAY_S = 86400
KEYS = {
    "trial": lambda row: row["trial"],
    "person": lambda row: row["who"] or "?",
    "month": lambda row: (row["created"] or "?")[:7],
}


def prune_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="lab runs prune", description=f"{PRUNED} {FILTERS}")
    parser.add_argument("where", nargs="*", metavar="FILTER", help=f"which runs (default: {BY_DEFAULT})")
    parser.add_argument("--keep-best", type=int, default=3, metavar="N", help="finished runs of each trial to keep (3)")
    parser.add_argument("--metric", default="val/loss", help="what best means (val/loss)")
    parser.add_argument("--yes", action="store_true", help="really delete")
    options = parser.parse_args(args)
    known = rows(project.paths["runs"])
    wanted = [parsed(text) for text in options.where or [BY_DEFAULT]]
    kept = needed(known, project.source / "trials", options.keep_best, options.metric)
    doomed = [row for row in known if all(holds(row, *each) for each in wanted) and row["run_id"] not in kept]
    for row in doomed:
        print("deleting" if options.yes else "would delete", row["run_id"], row["status"], row["trial"])
    if options.yes:
        delete([Path(row["run_dir"]) for row in doomed], project)
    hint = "; to delete them add: --yes" if doomed and not options.yes else ""
    print(f"{len(doomed)} of {len(known)} runs{hint}")


def needed(known: list[dict], trials: Path, n_best: int, metric: str) -> set[str]:
    """Ids of runs that are alive, tagged, a parent, named in a trial's README, or among the best of their trial."""
    kept = {row["run_id"] for row in known if row["tags"] or row["status"] in ("queued", "running")}
    kept |= {row["parent"] for row in known if row.get("parent")}
    texts = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in trials.glob("*/*.md"))
    kept |= {row["run_id"] for row in known if row["run_id"] in texts}
    for trial in {row["trial"] for row in known}:
        finished = [row for row in known if row["trial"] == trial and row["status"] == "finished"]
        kept |= {row["run_id"] for row in ranked(finished, metric)[:n_best]}
    return kept


def delete(directories: list[Path], project: Project) -> None:
    """Deletes runs with their checkpoints, then bundles and refs that no remaining run has."""
    runs, gone = project.paths["runs"], set()
    for directory in directories:
        gone |= commits(directory)
        hidden = directory.with_name(f".deleted-{directory.name}")  # a run disappears at once or not at all
        os.rename(directory, hidden)
        if (hidden / "checkpoints").is_symlink():
            shutil.rmtree((hidden / "checkpoints").resolve(), ignore_errors=True)
        shutil.rmtree(hidden)
    for hidden in runs.glob("*/.*-*"):  # of starts and deletions that were killed
        if time.time() - hidden.stat().st_mtime > DAY_S:
            shutil.rmtree(hidden)
    for directory in run_directories(runs):
        gone -= commits(Path(directory))
    for commit in gone:
        for path in (runs / STORE).rglob(f"{commit}.*"):
            path.unlink()
        Git(project.root).run("update-ref", "-d", f"refs/runs/{commit[:12]}", commit)


def commits(directory: Path) -> set[str]:
    """Every snapshot that a run refers to: of its start, of later attempts, of submodules."""
    record = read_json(directory / "run.json") or {}
    starts = [attempt["start"] for attempt in read_attempts(directory)]
    codes = [part["code"] for part in (record, *starts) if part.get("code")]
    codes += [inner for code in codes for inner, _ in checked_out(code)]
    return {code[key] for code in codes for key in ("commit", "head", "base") if code.get(key)}


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
