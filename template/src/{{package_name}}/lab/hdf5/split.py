# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Splits samples into train, val and test."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .file_layout import DataFileError, require
from .order import permutation


@dataclass
class Splitter:
    """Told each sample, it gives the order of the rows and the rows of each split.

    A sample's own "split" wins, then the `given` file's line for its key, then its "group" (or what the expression
    `group` finds in its key): all samples of a group go to one side. Otherwise `ratios` of samples.
    """

    ratios: Mapping[str, float]
    seed: int = 0
    given: Mapping[str, str] | None = None
    group: str | None = None
    told: list[tuple[str, Any]] = field(
        default_factory=list
    )  # ("split" or "group", which) of each sample

    def add(self, sample: Mapping[str, Any]) -> None:
        key = str(sample.get("key", len(self.told)))
        if "split" not in sample and self.given is not None:
            require(
                key in self.given,
                f"--split-file has no line for {key!r}; it needs one `sample,split` for each.",
            )
            sample = {"split": self.given[key]}
        elif self.group and not sample.keys() & {"split", "group"}:
            found = re.search(self.group, key)
            require(found, f"--group {self.group!r} finds nothing in {key!r}.")
            sample = {"group": found[found.lastindex or 0]}
        self.told += [(kind, sample[kind]) for kind in ("split", "group") if kind in sample][:1]

    def rows(self, n: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The seeded random order (n,) of the rows in the file, and for each split its sorted rows there."""
        order = permutation(n, self.seed, 1, n)
        if not self.told:
            return order, self._by_ratio(n)
        kinds, told = zip(*self.told, strict=True)
        whole = len(told) == n and len(set(kinds)) == 1
        require(
            whole,
            f"only {kinds.count(kinds[0])} of {n} samples say their split or group; all must.",
        )
        number_of = {value: number for number, value in enumerate(dict.fromkeys(told))}
        members = np.array([number_of[value] for value in told])[order]
        sides = (
            {name: [k] for name, k in number_of.items()}
            if "split" in kinds
            else self._by_ratio(len(number_of))
        )
        return order, {name: np.flatnonzero(np.isin(members, side)) for name, side in sides.items()}

    def _by_ratio(self, n: int) -> dict[str, np.ndarray]:
        """A split whose share rounds to nothing is left out; of one sample, the first split gets it."""
        cuts = np.rint(np.cumsum(list(self.ratios.values())) * n).astype(int)
        cuts[0], cuts[-1] = max(cuts[0], 1), n
        parts = np.split(permutation(n, self.seed, n), cuts[:-1])
        return {
            name: np.sort(part) for name, part in zip(self.ratios, parts, strict=True) if len(part)
        }


def parse_ratios(text: str) -> dict[str, float]:
    """`train=0.8,val=0.1,test=0.1` as a dict of shares that add up to one.

    Raises:
        DataFileError: not of that form.
    """
    try:
        ratios = {
            name.strip(): float(ratio)
            for name, ratio in (part.split("=") for part in text.split(","))
        }
    except ValueError as error:
        raise DataFileError(f"--split {text!r}: expected such as train=0.8,val=0.2") from error
    sums = min(ratios.values()) > 0 and abs(sum(ratios.values()) - 1) < 1e-6
    require(sums, f"--split {text!r}: the shares must be above 0 and add up to 1.")
    return ratios


def read_split_file(path: Path) -> dict[str, str]:
    """Lines `sample,split` (sample: path below the source, or row number) as a dict.

    Raises:
        DataFileError: a line of another form, or a sample twice.
    """
    given: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        key, _, split = map(str.strip, line.rpartition(","))
        require(
            key and split and key not in given,
            f"{path}:{number}: expected a new `sample,split`, found {line!r}",
        )
        given[key] = split
    return given
