# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs prune`: deletes the runs that neither trials nor other runs need."""

import argparse
import os
import shutil
import time
from pathlib import Path

from ..project import Project
from .atomic import read_json
from .attempt_files import read_attempts
from .bundle import STORE, checked_out_submodules
from .filters import FILTERS, matches, parse_filter
from .git import Git
from .index import ranked, rows, run_directories

PRUNED = """Deletes runs; without --yes it only says which. Never one that is queued or running, has a tag, is the parent of
another, is named in a trial's README or is among the best of its trial."""
BY_DEFAULT = "status=failed,interrupted,lost"
DAY_S = 86400


def prune_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="lab runs prune", description=f"{PRUNED} {FILTERS}")
    parser.add_argument(
        "where", nargs="*", metavar="FILTER", help=f"which runs (default: {BY_DEFAULT})"
    )
    parser.add_argument(
        "--keep-best",
        type=int,
        default=3,
        metavar="N",
        help="finished runs of each trial to keep (3)",
    )
    parser.add_argument("--metric", default="val/loss", help="what best means (val/loss)")
    parser.add_argument("--yes", action="store_true", help="really delete")
    options = parser.parse_args(args)
    known = rows(project.paths["runs"])
    wanted = [parse_filter(text) for text in options.where or [BY_DEFAULT]]
    kept = needed_runs(known, project.source / "trials", options.keep_best, options.metric)
    doomed = [
        row
        for row in known
        if all(matches(row, *each) for each in wanted) and row["run_id"] not in kept
    ]
    for row in doomed:
        print(
            "deleting" if options.yes else "would delete",
            row["run_id"],
            row["status"],
            row["trial"],
        )
    if options.yes:
        delete_runs([Path(row["run_dir"]) for row in doomed], project)
    hint = "; to delete them add: --yes" if doomed and not options.yes else ""
    print(f"{len(doomed)} of {len(known)} runs{hint}")


def needed_runs(known: list[dict], trials: Path, n_best: int, metric: str) -> set[str]:
    """Ids of runs that are alive, tagged, a parent, named in a trial's README, or among the best of their trial."""
    kept = {row["run_id"] for row in known if row["tags"] or row["status"] in ("queued", "running")}
    kept |= {row["parent"] for row in known if row.get("parent")}
    texts = "\n".join(
        path.read_text(encoding="utf-8", errors="replace") for path in trials.glob("*/*.md")
    )
    kept |= {row["run_id"] for row in known if row["run_id"] in texts}
    for trial in {row["trial"] for row in known}:
        finished = [row for row in known if row["trial"] == trial and row["status"] == "finished"]
        kept |= {row["run_id"] for row in ranked(finished, metric)[:n_best]}
    return kept


def delete_runs(directories: list[Path], project: Project) -> None:
    """Deletes runs with their checkpoints, then bundles and refs that no remaining run has."""
    runs, gone = project.paths["runs"], set()
    for directory in directories:
        gone |= commits_of(directory)
        hidden = directory.with_name(
            f".deleted-{directory.name}"
        )  # a run disappears at once or not at all
        os.rename(directory, hidden)
        if (hidden / "checkpoints").is_symlink():
            shutil.rmtree((hidden / "checkpoints").resolve(), ignore_errors=True)
        shutil.rmtree(hidden)
    for hidden in runs.glob("*/.*-*"):  # of starts and deletions that were killed
        if time.time() - hidden.stat().st_mtime > DAY_S:
            shutil.rmtree(hidden)
    for directory in run_directories(runs):
        gone -= commits_of(Path(directory))
    for commit in gone:
        for path in (runs / STORE).rglob(f"{commit}.*"):
            path.unlink()
        Git(project.root).run("update-ref", "-d", f"refs/runs/{commit[:12]}", commit)


def commits_of(directory: Path) -> set[str]:
    """Every snapshot that a run refers to: of its start, of later attempts, of submodules."""
    record = read_json(directory / "run.json") or {}
    starts = [attempt["start"] for attempt in read_attempts(directory)]
    codes = [part["code"] for part in (record, *starts) if part.get("code")]
    codes += [inner for code in codes for inner, _ in checked_out_submodules(code)]
    return {code[key] for code in codes for key in ("commit", "head", "base") if code.get(key)}
