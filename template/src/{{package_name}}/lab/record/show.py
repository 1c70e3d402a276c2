# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs show`: one run on one screen, or its whole record as JSON."""

import argparse
import json
from datetime import timedelta
from typing import Any

from ..project import Project
from .attempt import read_attempts
from .listing import shown
from .metrics import read_metrics
from .rows import notes, row
from .run import Run, find


def show_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="lab runs show", description="What ran, on what, how it went, where it is.")
    parser.add_argument("run", help="an id or its beginning, a tag, @last, @best:val/loss")
    parser.add_argument("--json", action="store_true", help="the whole record with status, run_dir and metrics")
    options = parser.parse_args(args)
    run = find(project.paths["runs"], options.run)
    print(json.dumps(whole(run), indent=1) if options.json else screen(run))


def whole(run: Run) -> dict:
    """Everything that is known of a run, as plain data."""
    overview = row(str(run.dir))
    taken = ("status", "run_dir", "metrics", "tags", "n_attempts", "seconds", "gpu_seconds", "energy_j")
    return run.record | {key: overview[key] for key in taken} | {"attempts": read_attempts(run.dir)}


def screen(run: Run) -> str:
    record, overview = run.record, row(str(run.dir))
    attempts = read_attempts(run.dir)
    lines = [f"{run.id}  {overview['status']}  trial {run.trial}  seed {record['seed']}"]

    def say(key: str, value: Any) -> None:
        if value not in (None, "", [], {}):
            lines.append(f"  {key:<12}{value}")

    say("why", record["why"])
    say("tags", " ".join(overview["tags"]))
    for entry in notes(run.dir):
        say("note", entry.get("note"))
    say("parent", record["parent"])
    say("by", f"{record['who']} on {record['host']}, {record['created']}")
    say("code", code_line(record["code"]))
    for entry in record["code"].get("skipped", []):
        say("", f"not in it: {entry['path']} ({entry['reason']})")
    say("command", " ".join(record["command"].get("argv", [])))
    env = record["env"]
    say("environment", f"Python {env.get('python')}, torch {env.get('torch')}, {env.get('n_packages')} packages")
    for attempt in attempts:
        say(f"attempt {attempt['n']}", attempt_line(attempt))
        for change in attempt["start"].get("environment_differences", [])[:5]:
            say("", f"environment {change}")
        if exception := attempt["end"].get("exception"):
            say("", exception["line"])
    if expected := attempts and attempts[0]["start"].get("forecast"):  # by a lab bench of the same code and settings
        took = f", took {timedelta(seconds=round(overview['seconds']))}" if overview["seconds"] else ""
        say("forecast", f"{timedelta(seconds=round(expected['seconds']))}{took}")
    for name, value in overview["metrics"].items():
        say(name, shown(value))
    rows_n = len(read_metrics(run.dir))
    say("directory", run.dir)
    names = ", ".join(sorted(path.name for path in run.checkpoints.glob("*.ckpt")))
    say("files", f"metrics.jsonl ({rows_n} rows), checkpoints: {names or 'none'}")
    lines.append(f"  next: {advice(overview['status'], run)}")
    return "\n".join(lines)


def code_line(code: dict) -> str:
    if not code.get("commit"):
        return f"not recorded: {code.get('reason', 'unknown')}"
    changes = f" + {code['n_changed']} changed and {code['n_untracked']} new files" if code["dirty"] else ""
    return f"{code['commit'][:12]} = {code['branch'] or 'no branch'} {(code['head'] or '')[:12]}{changes}"


def attempt_line(attempt: dict) -> str:
    start, end = attempt["start"], attempt["end"]
    where = f"{start.get('host', '?')}, {start.get('device', 'device unknown')}"
    took = f", {timedelta(seconds=round(end['seconds']))}" if "seconds" in end else ""
    signal = f" by signal {end['signal']}" if end.get("signal") else ""
    return f"{end.get('status', 'no end')}{signal} on {where}{took}"


def advice(status: str, run: Run) -> str:
    """What one would type next."""
    if status == "finished":
        return f"lab eval {run.id}   lab runs reproduce {run.id} --check"
    if status in ("running", "queued"):
        return f"{run.dir}/metrics.jsonl grows while it runs"
    there = any(run.checkpoints.glob("*.ckpt"))
    return f"lab resume {run.id}" if there else "no checkpoint was written: train again"
