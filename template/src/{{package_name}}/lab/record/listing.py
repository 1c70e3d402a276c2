# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs list`: filter, sort, and print as a table, JSON or CSV. `lab runs show`: one run on one screen. `lab` alone:
what happened since this person last looked."""

import argparse
import csv
import json
import operator
import re
import shutil
import sys
import time
from datetime import timedelta
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from ..errors import LabError, nearest
from ..project import Project
from .attempt import STATES, Scheduler, read_attempts
from .environment import user
from .files import read_json, read_lines, read_metrics, write_json
from .rows import check_metric, ranked, row_of, rows
from .run import Run, find, run_parser
from .snapshot import code_line

PUBLIC = ("run_id", "trial", "status", "created", "run_dir", "metrics")
FAVOURITES = ("val/loss", "val/acc", "test/loss", "test/acc", "train/loss")
COLOURS = {"finished": 32, "failed": 31, "lost": 31, "interrupted": 33, "running": 36, "queued": 36}
LONGEST = 10  # lines of news per kind
OPERATORS = {
    "<=": operator.le, ">=": operator.ge, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "=": operator.eq,
}  # fmt: skip
EXPRESSION = re.compile(r"([^<>=!]+)(<=|>=|!=|<|>|=)(.*)")
FIELDS = ("trial", "status", "tag", "who", "since", "before")
FILTERS = """Filters, all of which must hold: trial=wide (or a pattern), status=failed,lost, tag=paper, who=ann,
since=2026-11-01, before=2026-12-01, and metrics such as 'val/loss<0.3' (quoted, because of the shell)."""


def list_command(project: Project, args: list[str], scheduler: Scheduler | None = None) -> None:
    parser = argparse.ArgumentParser(prog="lab runs list", description="Lists runs, newest first. " + FILTERS)
    parser.add_argument("where", nargs="*", metavar="FILTER", help="for example: status=finished 'val/acc>0.9'")
    parser.add_argument("--sort", metavar="KEY", help="a metric (best first), trial, status, seconds or created")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="an array of " + ", ".join(PUBLIC))
    output.add_argument("--csv", action="store_true", help="a line per run, a column per metric")
    options = parser.parse_args(args)
    wanted = [parsed(text) for text in options.where]
    known = rows(project.paths["runs"], scheduler)
    asked = [key for key, _, _ in wanted if key not in FIELDS]
    for name in asked:
        check_metric(known, name)
    found = ordered([row for row in known if all(holds(row, *each) for each in wanted)], options.sort)
    if options.json:
        json.dump([{key: row[key] for key in PUBLIC} for row in found], sys.stdout)
        print()
    elif options.csv:
        write_csv(found)
    elif not found:
        print(f"none of {len(known)} runs" if known else "no runs yet. Make one with: lab train trial=baseline")
    else:
        asked.append(options.sort or "")
        sys.stdout.write(table(found, asked, shutil.get_terminal_size((80, 24)).columns, sys.stdout.isatty()))


def parsed(text: str) -> tuple[str, str, str]:
    match = EXPRESSION.fullmatch(text)
    if not match:
        raise LabError(f"{text!r} is no filter. Filters look like status=failed or 'val/loss<0.3'.")
    key, sign, value = (part.strip() for part in match.groups())
    if key not in FIELDS:
        try:
            float(value)
        except ValueError as error:
            known = ", ".join(FIELDS)
            raise LabError(
                f"{text!r}: a metric is compared with a number, and {key!r} is none of {known}" + nearest(key, FIELDS)
            ) from error
    elif sign != "=":
        raise LabError(f"{text!r}: {key} is compared with =, for example {key}={value}")
    if key == "status":
        for state in value.split(","):
            if state not in STATES:
                raise LabError(f"no status {state!r}{nearest(state, STATES)}. There are: {', '.join(STATES)}")
    return key, sign, value


def holds(row: dict, key: str, sign: str, value: str) -> bool:
    """Whether one filter holds for a row; a metric that the run lacks never does."""
    match key:
        case "trial":
            return fnmatch(row["trial"], value) or row["trial"].partition("/")[0] == value
        case "status":
            return row["status"] in value.split(",")
        case "tag":
            return value in row["tags"]
        case "who":
            return row["who"] == value
        case "since":
            return (row["created"] or "") >= value
        case "before":
            return (row["created"] or "") < value
    measured = row["metrics"].get(key)
    return isinstance(measured, int | float) and OPERATORS[sign](measured, float(value))


def ordered(found: list[dict], key: str | None) -> list[dict]:
    """Newest first, or by `key`: metrics best first, runs without the value last."""
    if key in (None, "created"):
        return found
    if key in ("trial", "status"):
        return sorted(found, key=lambda row: row[key])
    if key == "seconds":
        return sorted(found, key=lambda row: -(row["seconds"] or 0))
    check_metric(found, key)
    best = ranked(found, key)
    there = {row["run_dir"] for row in best}
    return best + [row for row in found if row["run_dir"] not in there]


def write_csv(found: list[dict]) -> None:
    about = [key for key in PUBLIC if key != "metrics"] + ["seed", "who", "seconds"]
    names = sorted({name for row in found for name in row["metrics"]})
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*about, *names])
    for row in found:
        writer.writerow([row[key] for key in about] + [row["metrics"].get(name) for name in names])


def table(found: list[dict], asked: list[str], width: int, colour: bool) -> str:
    """Id, status, trial, then as many metrics as fit (those asked for first), then tags or the reason for the run."""
    names = {name: None for row in found for name in row["metrics"]}
    names = [name for name in dict.fromkeys([*asked, *FAVOURITES, *names]) if name in names]
    trial_width = min(18, max([5, *(len(row["trial"]) for row in found)]))
    used = 22 + 2 + 11 + 2 + trial_width
    columns = []
    for name in names:
        if used + 2 + max(8, len(name)) <= width:
            columns.append((name, max(8, len(name))))
            used += 2 + max(8, len(name))
    rest = width - used - 2
    head = f"{'run':<22}  {'status':<11}  {'trial':<{trial_width}}" + "".join(f"  {name:>{w}}" for name, w in columns)
    lines = [head]
    for row in found:
        status = f"{row['status']:<11}"
        if colour:
            status = f"\033[{COLOURS[row['status']]}m{status}\033[0m"
        cells = "".join(f"  {shown(row['metrics'].get(name)):>{w}}" for name, w in columns)
        about = " ".join([*(f"#{tag}" for tag in row["tags"]), row["why"] or ""]).strip().replace("\n", " ")
        lines.append(f"{row['run_id']:<22}  {status}  {cut(row['trial'], trial_width):<{trial_width}}{cells}")
        if rest >= 6 and about:
            lines[-1] += "  " + cut(about, rest)
    return "\n".join(lines) + "\n"


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def shown(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def show_command(project: Project, args: list[str], scheduler: Scheduler | None = None) -> None:
    parser = run_parser("show", "What ran, on what, how it went, where it is.")
    parser.add_argument("--json", action="store_true", help="the whole record with status, run_dir and metrics")
    options = parser.parse_args(args)
    run = find(project.paths["runs"], options.run)
    overview = row_of(str(run.dir), scheduler)
    print(json.dumps(whole(run, overview), indent=1) if options.json else screen(run, overview))


def whole(run: Run, overview: dict) -> dict:
    """Everything that is known of a run, as plain data; `overview` is its row."""
    taken = ("status", "run_dir", "metrics", "tags", "n_attempts", "seconds", "gpu_seconds", "energy_j")
    return run.record | {key: overview[key] for key in taken} | {"attempts": read_attempts(run.dir)}


def screen(run: Run, overview: dict) -> str:
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
    say("directory", run.dir)
    names = ", ".join(sorted(path.name for path in run.checkpoints.glob("*.ckpt")))
    say("files", f"metrics.jsonl ({len(read_metrics(run.dir))} rows), checkpoints: {names or 'none'}")
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
        changed = max(row["attempt_unix_s"] or 0, row["ended_unix_s"] or 0) > before["unix_s"]
        if row["status"] in ("running", "queued"):
            kinds["continued" if changed and (row["n_attempts"] or 0) > 1 else row["status"]].append(line(row))
        elif changed or not before["unix_s"] or row["run_id"] in before["open"]:
            kinds[row["status"]].append(line(row))
    lines = []
    for kind, entries in kinds.items():
        if entries:
            more = [f"  … and {len(entries) - LONGEST} more"] if len(entries) > LONGEST else []
            lines += [f"{kind}:", *entries[:LONGEST], *more]
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(before["unix_s"])) if before["unix_s"] else "ever"
    return lines or [f"nothing new since {since}; {len(known)} runs: lab runs list"]


def line(row: dict) -> str:
    text = f"  {row['run_id']}  {row['trial']}"
    if row["status"] == "finished":
        return text + "".join(f"  {name} {shown(value)}" for name, value in list(row["metrics"].items())[:4])
    if row["status"] in ("failed", "interrupted", "lost"):
        error = f"  {row['exception'][:60]}" if row["exception"] else ""
        there = any(Path(row["run_dir"], "checkpoints").glob("*.ckpt"))
        return text + error + (f"  -> lab resume {row['run_id']}" if there else "  (no checkpoint)")
    return text
