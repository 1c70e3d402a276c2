"""`lab runs show`: everything about one run."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from ..machine.counted import counted
from ..machine.terminal import printable
from ..project import Project
from .attempt_files import AttemptFiles, read_attempts
from .changes import other_codes
from .code_section import machinery_name
from .columns import format_value
from .each import DONE, INPUTS, Inputs, done_files
from .find import find_run, run_parser
from .identity import identity_problems
from .incomplete import lacking_lines
from .index import read_row
from .json_lines import read_lines
from .metrics_file import read_metrics
from .outcome import COUNT_FIRST, deciding_attempt, final_weights
from .process import signal_name
from .recorded_weights import format_weights, recorded_weights
from .roots import run_roots
from .run import Run
from .schema import Row
from .scrub_note import format_scrubs
from .snapshot import format_code
from .status import JobStateOf, JobWordsOf

# Keys of a row that --json adds to the record.
OF_ROW = (
    "status",
    "run_dir",
    "metrics",
    "tags",
    "n_attempts",
    "changes",
    "seconds",
    "gpu_seconds",
    "energy_j",
)
MAX_CHANGES = 5  # lines about the environment of an attempt


def show_command(
    project: Project,
    args: list[str],
    job_state_of: JobStateOf | None = None,
    job_words_of: JobWordsOf | None = None,
) -> None:
    parser = run_parser("show", "What ran, on what, how it went, where it is.")
    parser.add_argument(
        "--json", action="store_true", help="the whole record with status, run_dir and metrics"
    )
    options = parser.parse_args(args)
    run = find_run(run_roots(project), options.run)
    row = read_row(str(run.dir), job_state_of)
    if options.json:
        print(json.dumps(as_dict(run, row), indent=1))
    else:
        job = job_words_of(run.dir, run.record) if job_words_of else None
        print(format_run(run, row, identity_problems(run, run_roots(project)), job))


def as_dict(run: Run, row: Row) -> dict[str, Any]:
    """Everything that is known of a run, as plain data: its record, its row and its attempts."""
    attempts = [asdict(attempt) for attempt in read_attempts(run.dir)]
    return run.record | {key: row[key] for key in OF_ROW} | {"attempts": attempts}


def format_run(run: Run, row: Row, warnings: list[str], job: str | None = None) -> str:
    """The page of a run: warnings, a line for each fact, then what to type next.

    Args:
        job: what is known of its job, in words.
    """
    attempts = read_attempts(run.dir)
    facts = [
        *(("warning", warning) for warning in warnings),
        *record_facts(run, row),
        ("job", job),
        *attempt_facts(attempts),
        *change_facts(run, row, attempts),
        ("numbers", format_deciding(run, attempts, row)),
        ("forecast", format_forecast(attempts, row)),
        *((name, format_value(value)) for name, value in row["metrics"].items()),
        *(("predictions", path) for path in predicted_files(run)),
        ("directory", str(run.dir)),
        ("files", format_files(run)),
    ]
    lines = [f"{run.id}  {row['status']}  trial {run.trial}  seed {run.record['seed']}"]
    lines += [f"  {name:<11} {value}" for name, value in facts if value]
    lines.append(f"  next: {advice(row['status'], run)}")
    return "\n".join(map(printable, lines))


def record_facts(run: Run, row: Row) -> list[tuple[str, str | None]]:
    """What run.json and notes.jsonl say, each with its name."""
    record = run.record
    environment = record["env"]
    packages = f"{environment.get('n_packages')} packages"
    weights = recorded_weights(run)
    notes = [entry.get("note") for entry in read_lines(run.dir / "notes.jsonl")]
    return [
        ("why", record["why"]),
        ("tags", " ".join(row["tags"])),
        *(("note", note) for note in notes),
        *(("scrubbed", line.removeprefix("scrubbed ")) for line in format_scrubs(record)),
        ("parent", record["parent"]),
        ("init_from", format_weights(weights) if weights else None),
        ("over files", format_inputs(run)),
        ("settings", " ".join(record["command"].get("overrides", []))),
        ("by", f"{record['who']} on {record['host']}, {record['created']}"),
        ("waited", format_waited(row["waited"])),
        ("code", format_code(record["code"])),
        ("library", machinery_name(record["code"])),
        ("command", " ".join(record["command"].get("argv", []))),
        (
            "environment",
            f"Python {environment.get('python')}, torch {environment.get('torch')}, {packages}",
        ),
    ]


def format_waited(waited: dict[str, Any] | None) -> str | None:
    """How long the job of a run waited, and in which queue."""
    if not waited:
        return None
    queue = waited["queue"] or "the default queue"
    return f"{format_seconds(waited['seconds'])} in {queue} of {waited['site']}"


def format_inputs(run: Run) -> str | None:
    """How far a command over files is."""
    inputs = Inputs.read(run.dir)
    if inputs is None:
        return None
    n_done = len(done_files(run.dir) & set(inputs.files))
    return f"{n_done} of {len(inputs.files)} done, see {INPUTS} and {DONE}"


def attempt_facts(attempts: list[AttemptFiles]) -> list[tuple[str, str]]:
    """A line for each attempt, followed by what its environment had different and by its error."""
    facts = []
    for attempt in attempts:
        facts.append((f"attempt {attempt.n}", format_attempt(attempt)))
        overrides = " ".join(attempt.start.get("overrides", []))
        facts.append(("", overrides and f"settings {overrides}"))
        facts += [("", f"code {line}") for line in lacking_lines(attempt)]
        changes = attempt.start.get("environment_differences", [])
        facts += [("", f"environment {change}") for change in changes[:MAX_CHANGES]]
        exception = attempt.end.get("exception")
        if exception:
            facts.append(("", exception.get("place")))
            facts.append(("", exception["line"]))
    return facts


def change_facts(run: Run, row: Row, attempts: list[AttemptFiles]) -> list[tuple[str, str]]:
    """What the attempts had different, and how to see their code."""
    codes = other_codes(run.record["code"], attempts)
    return [
        *(("changed", change) for change in row["changes"]),
        *(("", f"lab runs code {run.id} --attempt {n}") for n in codes),
    ]


def format_attempt(attempt: AttemptFiles) -> str:
    """How an attempt ended, where it ran, and how long it took."""
    text = attempt.end.get("status", "no end")
    number = attempt.end.get("signal")
    if number:
        text += f" by {signal_name(number)}"
    host = attempt.start.get("host", "?")
    device = attempt.start.get("device", "device unknown")
    text += f" on {host}, {device}"
    if "seconds" in attempt.end:
        text += f", {format_seconds(attempt.end['seconds'])}"
    return text


def format_deciding(run: Run, attempts: list[AttemptFiles], row: Row) -> str | None:
    """Which attempt the numbers are of, when a later one did not change them."""
    deciding = deciding_attempt(attempts)
    if row["status"] not in COUNT_FIRST or deciding is None or deciding.n == attempts[-1].n:
        return None
    weights = final_weights(run.checkpoints).name
    text = f"of attempt {deciding.n}, with the weights {weights}"
    if weights != "last.ckpt":
        text += f"; last.ckpt is of attempt {attempts[-1].n}"
    return text


def format_forecast(attempts: list[AttemptFiles], row: Row) -> str | None:
    """What `lab bench` of the same code and settings expected, and what the run took."""
    forecast = attempts[0].start.get("forecast") if attempts else None
    if not forecast:
        return None
    text = format_seconds(forecast["seconds"])
    if row["seconds"]:
        text += f", took {format_seconds(row['seconds'])}"
    return text


def format_seconds(seconds: float) -> str:
    """A duration as hours:minutes:seconds."""
    return str(timedelta(seconds=round(seconds)))


def format_files(run: Run) -> str:
    """The length of metrics.jsonl and the names of the checkpoints."""
    names = sorted(path.name for path in run.checkpoints.glob("*.ckpt"))
    n_rows = len(read_metrics(run.dir))
    return f"metrics.jsonl ({counted(n_rows, 'row')}), checkpoints: {', '.join(names) or 'none'}"


def predicted_files(run: Run) -> list[str]:
    """The files of `lab predict`, with their sizes."""
    newest = {row.get("path"): row for row in read_lines(run.dir / "predictions.jsonl")}
    return [f"{path}, {row.get('n')} samples" for path, row in newest.items()]


def advice(status: str, run: Run) -> str:
    """What one would type next."""
    if status == "finished":
        evaluate = f"lab eval {run.id}   " if final_weights(run.checkpoints).exists() else ""
        return f"{evaluate}lab runs reproduce {run.id} --check"
    if status == "trained":
        return f"lab resume {run.id} tests it again"
    if status in ("running", "queued"):
        return f"{run.dir}/metrics.jsonl grows while it runs"
    if any(run.checkpoints.glob("[!.]*")):  # of a program, any file
        return f"lab resume {run.id}"
    return "no checkpoint was written: train again"
