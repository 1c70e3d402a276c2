"""Which runs were evaluated on the same samples: only their values of a metric compare.

Another data file is another set, and so are the validation samples of a fold, or a part of them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from ...machine.counted import counted
from ..files.schema import Row
from .ranking import split_of
from .settings import value_of


@dataclass(frozen=True)
class EvaluatedOn:
    """The samples behind a value of a metric.

    Args:
        data: hash of the content of the data; None: not recorded.
        samples: hash of the rows that make the split; None: the split of the file.
        part: settings that take a part of them.
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
    keys = (f"trainer.limit_{split}_batches", "data.folds", "data.fold")
    part = tuple(repr(value_of(row["settings"], key)) for key in keys)
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
