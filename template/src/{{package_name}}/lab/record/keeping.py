# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What is kept: notes and tags of runs, and `lab runs prune`, which deletes the runs that nobody needs."""

import argparse
import json
import os
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path

from ..errors import LabError
from ..project import Project
from .attempt import read_attempts
from .bundle import STORE, checked_out
from .environment import user
from .files import read_json
from .git import Git
from .listing import FILTERS, holds, parsed
from .rows import rows, run_directories
from .run import Run, best, find

PRUNED = """Deletes runs; without --yes it only says which. Never one that is queued or running, has a tag, is the parent of
another, is named in a trial's README or is among the best of its trial."""
BY_DEFAULT = "status=failed,interrupted,lost"
DAY_S = 86400


def note_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="lab runs note", description="Adds a note to a run.")
    parser.add_argument("run", help="an id or its beginning, a tag, @last, @best:val/loss")
    parser.add_argument("text", nargs="+")
    options = parser.parse_args(args)
    append(find(project.paths["runs"], options.run), note=" ".join(options.text))


def tag_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="lab runs tag", description="Tags a run; prune never deletes a tagged one.")
    parser.add_argument("run", help="an id or its beginning, a tag, @last, @best:val/loss")
    parser.add_argument("tags", nargs="+", metavar="TAG")
    parser.add_argument("--remove", action="store_true", help="take the tags away")
    options = parser.parse_args(args)
    run = find(project.paths["runs"], options.run)
    for tag in options.tags:
        if not re.fullmatch(r"[A-Za-z][\w.-]*", tag):
            raise LabError(f"a tag begins with a letter and has letters, digits, '.', '_' and '-'; got {tag!r}")
        append(run, **{"untag" if options.remove else "tag": tag})


def append(run: Run, **entry: str) -> None:
    """Adds one line in one write, so that people who write at once lose nothing."""
    line = json.dumps({"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "who": user(), **entry}) + "\n"
    file = os.open(run.dir / "notes.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.write(file, line.encode())
    os.close(file)
    with suppress(FileNotFoundError):
        os.utime(run.dir / "summary.json")  # the cache of rows sees by it that there is a new note


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
        measured = [
            row for row in known if row["trial"] == trial and metric in row["metrics"] and row["status"] == "finished"
        ]
        kept |= {row["run_id"] for row in best(measured, metric)[:n_best]} if measured else set()
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
        for path in (runs / STORE).glob(f"{commit}.*"):
            path.unlink()
        Git(project.root).run("update-ref", "-d", f"refs/runs/{commit[:12]}", commit)


def commits(directory: Path) -> set[str]:
    """Every snapshot that a run refers to: of its start, of later attempts, of submodules."""
    record = read_json(directory / "run.json") or {}
    starts = [attempt["start"] for attempt in read_attempts(directory)]
    codes = [part["code"] for part in (record, *starts) if part.get("code")]
    codes += [inner for code in codes for inner in checked_out(code)]
    return {code[key] for code in codes for key in ("commit", "head") if code.get(key)}
