# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Who goes into which split: by ratio, as given, or by group; and the order of the rows. All from one
seed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .file_layout import DataFileError, require


@dataclass
class Splitter:
    """Told each sample, it gives the order of the rows and the rows of each split.

    A sample's own "split" wins, then the `given` file's line for its key, then its "group" (or what the
    expression `group` finds in its key): all samples of a group go to one side. Otherwise `ratios` of
    samples.
    """

    ratios: Mapping[str, float]
    seed: int = 0
    given: Mapping[str, str] | None = None
    group: str | None = None
    names: list[str] = field(default_factory=list)
    groups: list[Any] = field(default_factory=list)

    def add(self, sample: Mapping[str, Any]) -> None:
        key = str(sample.get("key", len(self.names) + len(self.groups)))
        if "split" in sample or self.given is not None:
            known = "split" in sample or key in self.given
            require(known, f"--split-file has no line for {key!r}; it needs one `sample,split` for each.")
            self.names.append(sample["split"] if "split" in sample else self.given[key])
        elif "group" in sample or self.group:
            found = None if "group" in sample else re.search(self.group, key)
            require("group" in sample or found, f"--group {self.group!r} finds nothing in {key!r}.")
            self.groups.append(sample["group"] if "group" in sample else found[found.lastindex or 0])

    def order(self, n: int) -> np.ndarray:
        """(n,) the seeded random order of the rows in the file."""
        return _permutation(n, self.seed, 1)

    def splits(self, order: np.ndarray) -> dict[str, np.ndarray]:
        """Split name -> sorted row numbers, after the rows were put in `order`."""
        names, groups, n = self.names, self.groups, len(order)
        whole = len(names) in (0, n) and len(groups) in (0, n)
        require(whole, f"only {len(names) or len(groups)} of {n} samples say their split or group; all must.")
        if names:
            return {name: np.flatnonzero(np.array(names)[order] == name) for name in dict.fromkeys(names)}
        if groups:
            number_of = {group: i for i, group in enumerate(dict.fromkeys(groups))}
            members = np.array([number_of[group] for group in groups])[order]
            sides = _by_ratio(len(number_of), self.ratios, self.seed)
            return {name: np.flatnonzero(np.isin(members, side)) for name, side in sides.items()}
        return _by_ratio(n, self.ratios, self.seed)


def _permutation(n: int, *entropy: int) -> np.ndarray:
    return np.random.PCG64([*entropy, n]).random_raw(n).argsort(kind="stable")


def _by_ratio(n: int, ratios: Mapping[str, float], seed: int) -> dict[str, np.ndarray]:
    """A split whose share rounds to nothing is left out; of one sample, the first split gets it."""
    cuts = np.rint(np.cumsum(list(ratios.values())) * n).astype(int)
    cuts[0], cuts[-1] = max(cuts[0], 1), n
    parts = np.split(_permutation(n, seed), cuts[:-1])
    return {name: np.sort(part) for name, part in zip(ratios, parts, strict=True) if len(part)}


def parse_ratios(text: str) -> dict[str, float]:
    """`train=0.8,val=0.1,test=0.1` as a dict of shares that add up to one.

    Raises:
        DataFileError: not of that form.
    """
    try:
        ratios = {name.strip(): float(ratio) for name, ratio in (part.split("=") for part in text.split(","))}
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
        key, comma, split = line.rpartition(",")
        fine = comma and split.strip() and key.strip() not in given
        require(fine, f"{path}:{number}: expected `sample,split`, each sample once; found {line!r}")
        given[key.strip()] = split.strip()
    return given
