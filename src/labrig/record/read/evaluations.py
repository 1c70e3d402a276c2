"""What `lab eval` measured of runs, and which were evaluated on the same samples: only their values compare.

Another data file is another set, and so are the validation samples of a fold, or a part of them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from ...machine.text_formats import counted, format_value
from ..files.json_lines import read_lines
from ..files.schema import Evaluation, Row
from .attempt_files import AttemptFiles
from .ranking import split_of
from .settings import ABSENT, value_of
from .status import deciding_attempt

EVALUATIONS = "evaluations.jsonl"
TEST = "test"  # the split
HASH_CHARACTERS = 6  # of the data, in the name of a metric
NO_LIMIT = frozenset(map(repr, (ABSENT, None, 1.0, 0, 0.0)))  # of batches, as settings say it
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
    of_content = sha256[:HASH_CHARACTERS] if sha256 else "unhashed"
    place = f"{name}-{of_content}"
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


@dataclass(frozen=True)
class EvaluatedOn:
    """The samples behind a value of a metric.

    Args:
        data: hash of the content of the data; None: not recorded.
        samples: hash of the rows that make the split; None: the split of the file.
        part: settings that take a part of them, and what the part then follows from.
    """

    data: str | None
    samples: str | None
    part: tuple[str, ...]

    @property
    def is_split_of_file(self) -> bool:
        return self.samples is None


@dataclass(frozen=True)
class Alike:
    """Runs whose values compare, and those that are left aside.

    Args:
        on: what the first were evaluated on; None without a run.
        rows, other_data, other_samples: each in the order in which they came.
    """

    on: EvaluatedOn | None
    rows: list[Row]
    other_data: list[Row]
    other_samples: list[Row]

    @property
    def remark(self) -> str:
        """What is left aside, in words; "" for nothing."""
        parts = []
        if self.other_data:
            parts.append(f"{counted(len(self.other_data), 'run')} on other data")
        if self.other_samples:
            parts.append(f"{counted(len(self.other_samples), 'run')} on other samples of it")
        return " and ".join(parts)


def evaluated_on(row: Row, metric: str) -> EvaluatedOn:
    """What a metric of a run was measured on; a name that does not say its split counts as val."""
    split = "test" if split_of(metric) == "test" else "val"
    data = row["data"] or {}
    rows = data.get("rows")
    samples = rows.get(split) if isinstance(rows, dict) else None
    settings = row["settings"]
    names = ["limit_val_batches", "overfit_batches"] if split == "val" else ["limit_test_batches"]
    limits = [repr(value_of(settings, f"trainer.{name}")) for name in names]
    limits = ["" if limit in NO_LIMIT else limit for limit in limits]
    keys = ["data.folds", "data.fold"]
    if any(limits):  # one batch of 4 is another part than one of 128, or than one of each process
        keys += ["data.batch_size"]
        limits.append(str((row.get("resolved") or {}).get("world_size")))
    part = (*limits, *(repr(value_of(settings, key)) for key in keys))
    return EvaluatedOn(as_hash(data.get("sha256")), as_hash(samples), part)


def as_hash(value: object) -> str | None:
    """A recorded hash; anything else, as a record that was damaged has, counts as none."""
    return value if isinstance(value, str) else None


def sets_in_order(rows: list[Row], metric: str) -> list[EvaluatedOn]:
    """What these runs were evaluated on, in the order in which one compares.

    The data of the newest run first. Of one data file its own split comes before folds, then what most
    runs have.

    Args:
        rows: newest first.
    """
    members: dict[EvaluatedOn, int] = defaultdict(int)
    for row in rows:
        members[evaluated_on(row, metric)] += 1
    data = list(dict.fromkeys(each.data for each in members))

    def place(each: EvaluatedOn) -> tuple[int, bool, int]:
        return data.index(each.data), not each.is_split_of_file, -members[each]

    return sorted(members, key=place)


def alike(rows: list[Row], metric: str, on: EvaluatedOn | None = None) -> Alike:
    """The runs that compare on a metric, and those that are left aside.

    Args:
        rows: newest first.
        on: what to compare on, where runs have it; default: the first of `sets_in_order`.
    """
    sets = sets_in_order(rows, metric)
    if on not in sets:
        on = sets[0] if sets else None
    same: list[Row] = []
    other_data: list[Row] = []
    other_samples: list[Row] = []
    for row in rows:
        of_row = evaluated_on(row, metric)
        if of_row == on:
            same.append(row)
        elif on and of_row.data == on.data:
            other_samples.append(row)
        else:
            other_data.append(row)
    return Alike(on, same, other_data, other_samples)
