"""`lab runs show`: everything about one run."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...machine.text_formats import counted, format_duration, format_value, printable
from ...project import Project
from ..files.code_section import library_name
from ..files.json_lines import read_lines
from ..files.metrics_file import count_rows
from ..files.process import signal_name
from ..files.schema import AfterRuns, Note, Prediction, Row, TrainedWith
from ..freeze.snapshot import format_code
from ..read.attempt_files import (
    AttemptFiles,
    describe_outputs,
    other_codes,
    program_report,
    read_attempts,
)
from ..read.each import DONE, INPUTS, Inputs, done_files
from ..read.evaluations import format_evaluation, metric_and_place, newest_evaluations
from ..read.fields import LINE, SHOW, fields_shown, names_shown
from ..read.find import find_run, run_parser
from ..read.rows import read_row
from ..read.run import Run, run_roots
from ..read.status import (
    COUNT_FIRST,
    UNENDED,
    deciding_attempt,
    final_weights,
    job_state_of,
    job_words_of,
)
from ..read.used import (
    format_bytes,
    format_used,
    settings_that_would_do,
    size_of_row,
    used_on_nodes,
)
from ..reproduce.recorded_inputs import format_weights, recorded_weights
from ..verify.files import identity_problems
from ..verify.results import lacking_lines
from ..write.inputs import format_data_origin

MAX_CHANGES = 5  # lines about the environment of an attempt
MAX_PARSED = 1000  # characters of what the parser of a script gave


def show_command(project: Project, args: list[str]) -> None:
    parser = run_parser("show", "What ran, on what, how it went, where it is.")
    parser.add_argument(
        "--json", action="store_true", help="the whole record with status, run_dir and metrics"
    )
    options = parser.parse_args(args)
    run = find_run(run_roots(project), options.run)
    row = read_row(str(run.dir), job_state_of())
    if options.json:
        print(json.dumps(as_dict(run, row), indent=1))
    else:
        words_of = job_words_of()
        job = words_of(run.dir, run.record) if words_of else None
        print(format_run(run, row, identity_problems(run, run_roots(project)), job))


def as_dict(run: Run, row: Row) -> dict[str, Any]:
    """Everything that is known of a run, as plain data: its record, its row and its attempts."""
    attempts = [
        asdict(attempt)
        | {"used": used_on_nodes(run.dir, attempt.n), "program": program_report(run.dir, attempt.n)}
        for attempt in read_attempts(run.dir)
    ]
    return run.record | {name: row[name] for name in names_shown(SHOW)} | {"attempts": attempts}


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
        *attempt_facts(run, attempts),
        ("enough", settings_that_would_do(run.dir, attempts)),
        *change_facts(run, row, attempts),
        ("numbers", format_deciding(run, attempts, row)),
        ("forecast", format_forecast(attempts, row)),
        *measured_facts(row),
        *(
            (name, format_value(value))
            for name, value in row["metrics"].items()
            if not metric_and_place(name)[1]  # which the lines below show
        ),
        *(("evaluated", format_evaluation(row)) for row in newest_evaluations(run.dir)),
        *(("predictions", path) for path in predicted_files(run)),
        *(("wrote", line) for line in describe_outputs(run.dir)),
        ("directory", f"{run.dir} ({format_bytes(size_of_row(row))})"),
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
    notes = [entry.get("note") for entry in read_lines(run.dir / "notes.jsonl", Note)]
    return [
        ("why", record["why"]),
        ("tags", " ".join(row["tags"])),
        *(("note", note) for note in notes),
        ("check of" if record.get("is_check") else "parent", record["parent"]),
        ("after", format_after(record.get("after"))),
        ("init_from", format_weights(weights) if weights else None),
        ("data_from", format_data_origin(record.get("data_from"))),
        ("over files", format_inputs(run)),
        ("settings", " ".join(record["command"].get("overrides", []))),
        ("by", f"{record['who']} on {record['host']}, {record['created']}"),
        ("waited", format_waited(row["waited"])),
        ("data", format_data(run.data)),
        ("code", format_code(record["code"])),
        ("library", library_name(record["code"])),
        ("command", " ".join(record["command"].get("argv", []))),
        (
            "environment",
            f"Python {environment.get('python')}, torch {environment.get('torch')}, {packages}",
        ),
    ]


def format_after(after: AfterRuns | None) -> str | None:
    """The runs that a run comes after."""
    if after is None:
        return None
    words = " ".join(after["runs"])
    return words if after["when"] == "finished" else f"{words} (however they end)"


def format_data(data: dict[str, Any]) -> str | None:
    """Which file or folder a run read, and its hash; or why that is not recorded."""
    if "sha256" not in data:
        return data.get("not_recorded")
    names = ", ".join(Path(file["path"]).name for file in data.get("files", []))
    listed = f" ({names})" if names else ""
    return f"{data.get('path', '')}{listed} sha256 {data['sha256'][:12]}".strip()


def format_waited(waited: dict[str, Any] | None) -> str | None:
    """How long the job of a run waited, and in which queue."""
    if not waited:
        return None
    queue = waited["queue"] or "the default queue"
    return f"{format_duration(waited['seconds'])} in {queue} of {waited['site']}"


def format_inputs(run: Run) -> str | None:
    """How far a command over files is."""
    inputs = Inputs.read(run.dir)
    if inputs is None:
        return None
    n_done = len(done_files(run.dir) & set(inputs.files))
    return f"{n_done} of {len(inputs.files)} done, see {INPUTS} and {DONE}"


def attempt_facts(run: Run, attempts: list[AttemptFiles]) -> list[tuple[str, str | None]]:
    """A line for each attempt, then what its job used, what it had different, and its error."""
    facts: list[tuple[str, str | None]] = []
    for attempt in attempts:
        facts.append((f"attempt {attempt.n}", format_attempt(attempt)))
        facts += program_facts(program_report(run.dir, attempt.n))
        facts.append(("used", format_used(used_on_nodes(run.dir, attempt.n))))
        facts += [("", problem) for problem in attempt.problems]
        overrides = " ".join(attempt.start.get("overrides", []))
        facts.append(("", overrides and f"settings {overrides}"))
        facts.append(("", format_trained_with(attempt.start.get("trained_with") or {})))
        facts += [("", f"code {line}") for line in lacking_lines(attempt)]
        changes = attempt.start.get("environment_differences", [])
        facts += [("", f"environment {change}") for change in changes[:MAX_CHANGES]]
        exception = attempt.end.get("exception")
        if exception:
            facts.append(("", exception.get("place")))
            facts.append(("", exception["line"]))
    return facts


def program_facts(report: dict[str, Any]) -> list[tuple[str, str]]:
    """The words of a script, and what its own parser made of them."""
    argv, parsed = report.get("argv"), report.get("parsed")
    words = shlex.join(map(str, argv)) if isinstance(argv, list) else ""
    values = parsed.items() if isinstance(parsed, dict) else ()
    text = " ".join(f"{name}={value}" for name, value in values)
    if len(text) > MAX_PARSED:
        text = f"{text[:MAX_PARSED]} … (all: attempts/*/program.json)"
    return [("argv", words), ("parsed", text)]


def format_trained_with(parts: dict[str, TrainedWith]) -> str | None:
    """The optimizer and the schedule that trained, when other sections than theirs decided them."""
    others = [
        f"{name} {', '.join(part['classes']) or 'none'} ({part['decided_by']})"
        for name, part in parts.items()
        if part["decided_by"] != name and name != "model"
    ]
    return f"trained with {', '.join(others)}" if others else None


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
    hosts = [str(node.get("host", "?")) for node in (attempt.start, *attempt.nodes)]
    device = attempt.start.get("device", "device unknown")
    text += f" on {', '.join(hosts)}, {device}"
    if "seconds" in attempt.end:
        text += f", {format_duration(attempt.end['seconds'])}"
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
    text = format_duration(forecast["seconds"])
    if row["seconds"]:
        text += f", took {format_duration(row['seconds'])}"
    return text


def measured_facts(row: Row) -> list[tuple[str, str]]:
    """A line for each field that asks for one, where it was measured."""
    facts = []
    for field in fields_shown(LINE):
        value = row[field.name]
        if value is not None:
            text = f"{value / field.per:.3f}" if field.per else str(value)
            facts.append((field.title or field.name, text))
    return facts


def format_files(run: Run) -> str:
    """The length of metrics.jsonl and the names of the checkpoints."""
    names = sorted(path.name for path in run.checkpoints.glob("*.ckpt"))
    n_rows = count_rows(run.dir)
    return f"metrics.jsonl ({counted(n_rows, 'row')}), checkpoints: {', '.join(names) or 'none'}"


def predicted_files(run: Run) -> list[str]:
    """The files of `lab predict`, with their sizes."""
    newest = {row.get("path"): row for row in read_lines(run.dir / "predictions.jsonl", Prediction)}
    return [f"{path}, {row.get('n')} samples" for path, row in newest.items()]


def advice(status: str, run: Run) -> str:
    """What one would type next."""
    if status == "finished":
        evaluate = f"lab eval {run.id}   " if final_weights(run.checkpoints).exists() else ""
        return f"{evaluate}lab runs reproduce {run.id} --check"
    if status == "trained":
        return f"lab resume {run.id} tests it again"
    if status == "unknown":
        return "lab queue asks the scheduler again"
    if status in UNENDED:
        return f"{run.dir}/metrics.jsonl grows while it runs"
    if any(run.checkpoints.glob("[!.]*")):  # of a program, any file
        return f"lab resume {run.id}"
    return "no checkpoint was written: train again"
