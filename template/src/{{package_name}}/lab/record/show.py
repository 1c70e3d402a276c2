# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs show`: one run on a screen."""

import json
from datetime import timedelta
from typing import Any

from ..project import Project
from .attempt_files import read_attempts
from .find import find_run, run_parser
from .index import row_of
from .json_lines import read_lines
from .list import format_value
from .metrics_file import read_metrics
from .run import Run
from .snapshot import code_line
from .status import JobStateOf


def show_command(project: Project, args: list[str], scheduler: JobStateOf | None = None) -> None:
    parser = run_parser("show", "What ran, on what, how it went, where it is.")
    parser.add_argument(
        "--json", action="store_true", help="the whole record with status, run_dir and metrics"
    )
    options = parser.parse_args(args)
    run = find_run(project.paths["runs"], options.run)
    overview = row_of(str(run.dir), scheduler)
    print(
        json.dumps(as_dict(run, overview), indent=1) if options.json else format_run(run, overview)
    )


def as_dict(run: Run, overview: dict) -> dict:
    """Everything that is known of a run, as plain data; `overview` is its row."""
    taken = (
        "status",
        "run_dir",
        "metrics",
        "tags",
        "n_attempts",
        "seconds",
        "gpu_seconds",
        "energy_j",
    )
    return run.record | {key: overview[key] for key in taken} | {"attempts": read_attempts(run.dir)}


def format_run(run: Run, overview: dict) -> str:
    record, attempts = run.record, read_attempts(run.dir)
    lines = [f"{run.id}  {overview['status']}  trial {run.trial}  seed {record['seed']}"]

    def say(key: str, value: Any) -> None:
        if value not in (None, "", [], {}):
            lines.append(f"  {key:<12}{value}")

    say("why", record["why"])
    say("tags", " ".join(overview["tags"]))
    for entry in read_lines(run.dir / "notes.jsonl"):
        say("note", entry.get("note"))
    say("parent", record["parent"])
    say("by", f"{record['who']} on {record['host']}, {record['created']}")
    say("code", code_line(record["code"]))
    say("command", " ".join(record["command"].get("argv", [])))
    env = record["env"]
    say(
        "environment",
        f"Python {env.get('python')}, torch {env.get('torch')}, {env.get('n_packages')} packages",
    )
    for attempt in attempts:
        say(f"attempt {attempt['n']}", attempt_line(attempt))
        for change in attempt["start"].get("environment_differences", [])[:5]:
            say("", f"environment {change}")
        if exception := attempt["end"].get("exception"):
            say("", exception["line"])
    if expected := attempts and attempts[0]["start"].get(
        "forecast"
    ):  # by a lab bench of the same code and settings
        took = (
            f", took {timedelta(seconds=round(overview['seconds']))}" if overview["seconds"] else ""
        )
        say("forecast", f"{timedelta(seconds=round(expected['seconds']))}{took}")
    for name, value in overview["metrics"].items():
        say(name, format_value(value))
    say("directory", run.dir)
    names = ", ".join(sorted(path.name for path in run.checkpoints.glob("*.ckpt")))
    say(
        "files",
        f"metrics.jsonl ({len(read_metrics(run.dir))} rows), checkpoints: {names or 'none'}",
    )
    lines.append(f"  next: {advice(overview['status'], run)}")
    return "\n".join(lines)


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
