"""What `lab eval` measured of a run: the rows of evaluations.jsonl."""

from __future__ import annotations

import re
from pathlib import Path

from ...machine.text_formats import format_value
from ..files.json_lines import read_lines
from ..files.schema import Evaluation
from .attempt_files import AttemptFiles
from .status import deciding_attempt

EVALUATIONS = "evaluations.jsonl"
TEST = "test"  # the split
HASH_CHARACTERS = 6  # of the data, in the name of a metric
# What `place_of` gives, at the end of the name of a metric. A metric may have an @ of its own: hits@10.
ELSEWHERE = re.compile(r"@([^@]+-(?:[0-9a-f]{6}|unhashed)(?:/[^@]+)?)$")


def newest_evaluations(run_dir: Path) -> list[Evaluation]:
    """The newest row of each checkpoint, data (by their content) and split."""
    newest = {}
    for row in read_lines(run_dir / EVALUATIONS, Evaluation):
        newest[row.get("checkpoint_sha256"), place_of(row)] = row
    return list(newest.values())


def evaluated_metrics(run_dir: Path, attempts: list[AttemptFiles]) -> dict[str, float]:
    """Metrics on other data than the run's own test, such as `test/acc@cells2-3fa9c1`, see `place_of`;
    those of best.ckpt where other weights were tested: `test/acc_best`.

    Only of the code of the run's numbers.
    """
    of_numbers, best = checkpoint_hashes(attempts)
    metrics = {}
    for row in newest_evaluations(run_dir):
        if not row.get("code", {}).get("same"):
            continue
        end = f"@{place_of(row)}" if row.get("data_name") else ""
        digest = row.get("checkpoint_sha256")
        if digest == of_numbers and end:
            metrics |= {f"{name}{end}": value for name, value in row["metrics"].items()}
        elif digest == best and digest != of_numbers:
            metrics |= {f"{name}_best{end}": value for name, value in row["metrics"].items()}
    return metrics


def checkpoint_hashes(attempts: list[AttemptFiles]) -> tuple[str, str]:
    """The sha256 of the weights of the run's numbers, and of best.ckpt; "" where it is not recorded."""
    deciding = deciding_attempt(attempts)
    if deciding is None:
        return "", ""
    checkpoints = deciding.end.get("checkpoints", {})
    tested = deciding.start.get("tested_weights") or "last"
    of_numbers, best = (
        str(checkpoints.get(f"{name}.ckpt", {}).get("sha256") or "") for name in (tested, "best")
    )
    return of_numbers, best


def place_of(row: Evaluation) -> str:
    """The data of an evaluation in short, with the beginning of their hash: cells2-3fa9c1.

    Data of one name may change: without the hash, a mean would join numbers on different ones. For
    another split than test: cells2-3fa9c1/all.
    """
    name = str(row.get("data_name"))
    sha256 = row.get("data", {}).get("sha256")
    place = f"{name}-{sha256[:HASH_CHARACTERS] if sha256 else 'unhashed'}"
    split = row.get("split")
    return place if split == TEST else f"{place}/{split}"


def metric_and_place(name: str) -> tuple[str, str]:
    """The two parts of test/acc@cells2-3fa9c1/all; the place is "" for the data of the run."""
    match = ELSEWHERE.search(name)
    return (name[: match.start()], match[1]) if match else (name, "")


def format_evaluation(row: Evaluation) -> str:
    """One line: which weights, data, split and code gave which numbers."""
    data = row.get("data") or {}
    place = Path(data["path"]).name if "path" in data else "the data of the run"
    words = [f"{row.get('checkpoint')}.ckpt on {place}, split {row.get('split', TEST)}"]
    if "sha256" in data:
        words.append(f"sha256 {data['sha256'][:12]}")
    if not row.get("code", {}).get("same"):
        words.append("other code than the run's")
    numbers = " ".join(
        f"{name} {format_value(value)}" for name, value in row.get("metrics", {}).items()
    )
    return f"{', '.join(words)}: {numbers}"
