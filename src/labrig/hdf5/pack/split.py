"""Splits samples into train, val and test, and puts them into a seeded random order."""

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...machine.own_output import refuse_to_overwrite
from ...machine.text_formats import and_more, counted
from ..file.atomic_file import explain_write_errors, publish, temporary_directory_next_to
from ..file.errors import DataFileError
from ..file.groups import FORMS, GROUPS, KnownGroups, group_name, hash_of_group
from ..file.names import check_split_name, check_usual_name
from ..read.order import permutation
from .sources import MAX_SHOWN, Spellings, common_form, show


@dataclass(frozen=True)
class Arrangement:
    """Where N samples go: their `order` (N,) in the file, and each split's sorted rows there."""

    order: np.ndarray
    splits: dict[str, np.ndarray]


@dataclass
class Splitter:
    """Takes each sample as it is packed; then `arrange` gives the order of all and their splits.

    A sample's own "split" wins, then the line of the split file for its key, then its "group", or
    what the pattern finds in its key: all samples of a group go to one split. Otherwise shares of
    the samples. A known group goes to the split that it has.

    Args:
        shares: split -> share of the samples (or of the groups), which add up to 1.
        split_of_key: the split of each sample by its key (path below the source, or row number).
        group_pattern: regular expression for the group in a key: its last bracket, or all of it.
        known: groups of the files to which one is added.
        spellings: what to do about groups that are spellings of one.
        keeps_keys: whether `keys` gets the key of each sample, one alone; of 10**8 they fill gigabytes.
    """

    shares: Mapping[str, float]
    seed: int = 0
    split_of_key: Mapping[str, str] | None = None
    group_pattern: str | None = None
    known: KnownGroups = field(default_factory=KnownGroups)
    keeps_keys: bool = False
    spellings: Spellings = field(default_factory=lambda: Spellings(as_written=True))

    def __post_init__(self) -> None:
        self.keys: dict[str, None] = {}
        self.n_samples = 0
        self.unplaced = dict(self.split_of_key or {})  # lines of its file that named no sample yet
        self.assigned_splits: list[str] = []
        self.names: set[str] = set()  # that samples bring with them, checked
        self.groups: list[str] = []  # of samples whose split is not assigned
        self.all_groups: list[str] = []
        self.known_hashes: dict[str, str] = {}  # of groups that are known by another spelling
        self.splits_of_group: dict[str, set[str]] = {}  # of samples whose split was assigned

    def add(self, sample: Mapping[str, Any]) -> None:
        """Takes the next sample."""
        key = str(sample.get("key", self.n_samples))
        self.n_samples += 1
        if key in self.keys:
            raise DataFileError(f"two samples are called {key!r}. Give each a name of its own.")
        if self.keeps_keys:
            self.keys[key] = None
        split = self._assigned_split(key, sample)
        groups = self._groups_of(key, sample)
        self.all_groups += groups
        if split is None:
            self.groups += groups
            return
        self.assigned_splits.append(split)
        for group in groups:
            self.splits_of_group.setdefault(group, set()).add(split)

    def _assigned_split(self, key: str, sample: Mapping[str, Any]) -> str | None:
        if "split" in sample:
            split = sample["split"]
            if not isinstance(split, str) or split not in self.names:
                check_usual_name(f"sample {key}", split)
                self.names.add(str(split))
            return str(split)
        if self.split_of_key is None:
            return None
        if key not in self.split_of_key:
            raise DataFileError(
                f"--split-file has no line for {key!r}, but for {next(iter(self.split_of_key), '')!r}; it needs "
                "one `sample,split` for each, in UTF-8. Rows of tables and arrays are counted from 0."
            )
        return self.unplaced.pop(key)

    def check_split_file(self, left_out: Collection[str]) -> None:
        """Makes sure that each line of the split file named a sample, once all samples were taken.

        Args:
            left_out: samples that are not packed.
        """
        unknown = [key for key in self.unplaced if key not in left_out]
        if unknown:
            raise DataFileError(
                f"--split-file has {counted(len(unknown), 'line')} for no sample, such as {unknown[0]!r}. "
                "Delete them, or write the sample's path below the source."
            )

    def join_spellings(self) -> None:
        """Gives each group one name, once all samples were taken; a known one that of its file."""
        if not self.spellings.as_written:  # of the groups of other files there are hashes only
            hash_of_form = dict(zip(self.known.forms, self.known.hashes, strict=False))
            known_hashes = set(self.known.hashes)
            for group in dict.fromkeys(self.all_groups):
                known = hash_of_form.get(hash_of_group(common_form(group)))
                if known and hash_of_group(group) not in known_hashes:
                    self.known_hashes[group] = known
        if self.known_hashes and not self.spellings.join:
            groups = and_more(map(show, self.known_hashes), MAX_SHOWN)
            raise DataFileError(
                f"groups that the files have in another spelling: {groups}. If each is the one that is "
                "there: --join-names. If they are different: --names-as-written"
            )
        chosen = self.spellings.choose("groups", Counter(self.all_groups))
        self.groups = [chosen.get(group, group) for group in self.groups]
        self.all_groups = [chosen.get(group, group) for group in self.all_groups]
        for other in chosen.keys() & self.splits_of_group.keys():
            splits = self.splits_of_group.setdefault(chosen[other], set())
            splits |= self.splits_of_group.pop(other)

    def _hash(self, group: str) -> str:
        return self.known_hashes.get(group) or hash_of_group(group)

    def _groups_of(self, key: str, sample: Mapping[str, Any]) -> list[str]:
        """The group of a sample; none where there are no groups."""
        if "group" in sample:
            group = sample["group"]
            if isinstance(group, Hashable) and group is not None and group == group:  # nor NaN
                return [group_name(group)]
            raise DataFileError(f"sample {key}: group is {group!r}. Give a text or a number.")
        try:
            match = re.search(self.group_pattern, key) if self.group_pattern else None
        except re.error as error:
            raise DataFileError(
                f"--group {self.group_pattern!r} is no regular expression: {error}. "
                r"For names such as p12_0.png: --group 'p\d+'"
            ) from error
        if match:
            return [match[match.lastindex or 0]]
        if self.group_pattern:
            raise DataFileError(
                f"--group {self.group_pattern!r} is no column, and finds nothing in {key!r}. "
                "Write a regular expression that each name matches."
            )
        return []

    def group_numbers(self) -> tuple[np.ndarray, dict[str, str]] | None:
        """The group of each sample, (N,) int64, and the attributes that say which they are.

        They are numbered as they came, behind those that are known; None unless all samples have one.
        """
        if not self.all_groups or len(self.all_groups) < self.n_samples:
            return None
        numbers, names = _number_values(self.all_groups)
        hashes = [self._hash(name) for name in names]
        form_of = {self._hash(name): hash_of_group(common_form(name)) for name in names}
        form_of |= dict(zip(self.known.hashes, self.known.forms, strict=False))
        all_hashes = list(dict.fromkeys([*self.known.hashes, *hashes]))
        number_of = {each: number for number, each in enumerate(all_hashes)}
        forms = [form_of.get(each, "") for each in all_hashes]
        attrs = {GROUPS: json.dumps(all_hashes), FORMS: json.dumps(forms)}
        return np.array([number_of[each] for each in hashes])[numbers], attrs

    def tell_of_groups(self) -> None:
        """Prints a line when groups lie in several splits, as their samples or a file assigned them."""
        for group, splits in self.splits_of_group.items():
            splits |= self.known.splits.get(self._hash(group), set())
        divided = [group for group, splits in self.splits_of_group.items() if len(splits) > 1]
        if divided:
            splits = " and ".join(sorted(self.splits_of_group[divided[0]]))
            print(
                f"lab: {len(divided)} of {len(self.splits_of_group)} groups are in more than one split, "
                f"such as {divided[0]} in {splits}",
                file=sys.stderr,
            )

    def tell_of_empty_splits(self, arrangement: Arrangement) -> None:
        """Prints a line when the shares left nothing for a split; a file that is added may lack some."""
        empty = [name for name in self.shares if name not in arrangement.splits]
        if not empty or self.assigned_splits or self.known.hashes:
            return
        too_few = f"samples, {len(arrangement.order)}"
        if self.groups:
            too_few = f"groups, {len(set(self.groups))}. Look at --group"
        print(
            f"lab: nothing is left for {' and '.join(empty)}: there are too few {too_few}.",
            file=sys.stderr,
        )

    def arrange(self, n_samples: int) -> Arrangement:
        """The order of `n_samples` samples and their splits; the same for the same seed."""
        order = permutation(n_samples, self.seed, 1, n_samples)
        values = self.assigned_splits or self.groups
        if not values:
            return Arrangement(order, divide(self.shares, self.seed, n_samples))
        if len(values) != n_samples:
            noun = "split" if self.assigned_splits else "group"
            raise DataFileError(
                f"only {len(values)} of {n_samples} samples have a {noun}. Give all of them one, or none."
            )
        numbers, names = _number_values(values)
        numbers_of: Mapping[str, Any] = {name: [number] for number, name in enumerate(names)}
        if not self.assigned_splits:
            numbers_of = self._divide_groups(names)
        number_of_row = numbers[order]
        splits = {
            split: np.flatnonzero(np.isin(number_of_row, numbers_in_split))
            for split, numbers_in_split in numbers_of.items()
        }
        return Arrangement(order, splits)

    def _divide_groups(self, names: list[str]) -> dict[str, np.ndarray]:
        """The numbers of the groups in each split: that which they have, or one by the shares."""
        splits_of = [self.known.splits.get(self._hash(name), set()) for name in names]
        divided = [name for name, splits in zip(names, splits_of, strict=True) if len(splits) > 1]
        if divided:
            splits = " and ".join(sorted(splits_of[names.index(divided[0])]))
            raise DataFileError(
                f"{len(divided)} groups are in more than one split already, such as {divided[0]} in "
                f"{splits}: where its new samples go is yours to say. Name the splits: --split-file FILE"
            )
        new = np.array([number for number, splits in enumerate(splits_of) if not splits], np.int64)
        parts = divide(self.shares, self.seed, len(new))
        numbers_of = {split: new[part] for split, part in parts.items()}
        for number, splits in enumerate(splits_of):
            for split in splits:
                numbers_of[split] = np.append(numbers_of.get(split, new[:0]), number)
        return numbers_of


def divide(shares: Mapping[str, float], seed: int, n: int) -> dict[str, np.ndarray]:
    """The numbers 0..n-1 at random by the shares of splits. A split whose share rounds to nothing is
    left out; of one number, the first split gets it.
    """
    if n == 0:
        return {}
    ends = np.rint(np.cumsum(list(shares.values())) * n).astype(int)
    ends[0] = max(ends[0], 1)
    ends[-1] = n
    parts = np.split(permutation(n, seed, n), ends[:-1])
    return {name: np.sort(part) for name, part in zip(shares, parts, strict=True) if len(part)}


def _number_values(values: Sequence[Any]) -> tuple[np.ndarray, list[Any]]:
    """A number for each value, and the different values in the order in which they first appear."""
    different = list(dict.fromkeys(values))
    number_of = {value: number for number, value in enumerate(different)}
    return np.array([number_of[value] for value in values]), different


def parse_shares(text: str) -> dict[str, float]:
    """`train=0.8,val=0.1,test=0.1` as a dict of shares that add up to one."""
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, share = map(str.strip, part.partition("="))
        try:
            number = float(share)
        except ValueError as error:
            raise DataFileError(f"--split {text!r}: expected such as train=0.8,val=0.2") from error
        check_usual_name(f"--split {text!r}", name)
        if name in shares:
            raise DataFileError(f"--split {text!r} names {name} twice. Give each split one share.")
        shares[name] = number
    are_shares = all(0 < number <= 1 for number in shares.values())  # nor NaN
    if not are_shares or abs(sum(shares.values()) - 1) >= 1e-6:
        raise DataFileError(f"--split {text!r}: the shares must be above 0 and add up to 1.")
    return shares


def read_split_file(path: Path) -> dict[str, str]:
    """Lines `sample,split` (sample: path below the source, or row number) as a dict."""
    split_of_key: dict[str, str] = {}
    text = path.read_text(
        "utf-8-sig", "surrogateescape"
    )  # a file's name may be in another encoding
    for number, line in enumerate(text.splitlines(), start=1):
        key, _, split = line.rpartition(",")
        split = split.strip()
        if number == 1 and (key, split) == ("sample", "split"):
            continue
        if not key or not split or key in split_of_key or "\0" in line:
            raise DataFileError(
                f"{path}:{number}: found {line!r}, "
                "expected `sample,split` in UTF-8, with a sample not listed above."
            )
        check_usual_name(f"{path}:{number}", split)
        split_of_key[key] = split
    return split_of_key


def check_splits(path: Path, splits: Mapping[str, Any], n_samples: int) -> dict[str, np.ndarray]:
    """The rows of each split, sorted, as int64."""
    rows_of = {}
    for name, given in splits.items():
        check_split_name(f"{path}", name)
        rows = np.asarray(given)
        if rows.ndim != 1 or (rows.dtype.kind not in "iu" and rows.size):
            raise DataFileError(
                f"{path}: split {name!r} must list row numbers, found {rows.dtype} of shape {rows.shape}."
            )
        rows_of[name] = rows = np.sort(rows.astype(np.int64))
        if rows.size and (rows[0] < 0 or rows[-1] >= n_samples):
            raise DataFileError(
                f"{path}: split {name!r} has rows from {rows[0]} to {rows[-1]}; expected some of "
                f"0..{n_samples - 1}."
            )
    rows = np.sort(np.concatenate([np.empty(0, np.int64), *rows_of.values()]))
    repeated = rows[1:][rows[1:] == rows[:-1]]
    if repeated.size:
        names = " and ".join(repr(name) for name in rows_of if repeated[0] in rows_of[name])
        raise DataFileError(
            f"{path}: row {repeated[0]} is listed twice, in split {names}; expected no row twice."
        )
    return rows_of


# Which source each row is from: the file itself has no names


NAMES_SUFFIX = ".names.csv"
COLUMNS = ("row", "split", "sample")


def names_file(target: Path) -> Path:
    """NAME.names.csv next to NAME.h5, since NAME.csv may be the table that was packed."""
    path = target.with_suffix(NAMES_SUFFIX)
    refuse_to_overwrite(path, lambda content: content.startswith(",".join(COLUMNS).encode()))
    return path


def write_names(path: Path, keys: Iterable[str], arrangement: Arrangement) -> None:
    """Writes row, split and source of each sample.

    Args:
        keys: of the samples in the order of the sources.
    """
    names = np.array([*keys], object)[arrangement.order]
    split_of = dict.fromkeys(range(len(names)), "")
    for split, rows in arrangement.splits.items():
        split_of |= dict.fromkeys(rows.tolist(), split)
    with temporary_directory_next_to(path) as directory, explain_write_errors(path):
        made = directory / path.name
        with made.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            lines = ((row, split_of[row], name) for row, name in enumerate(names))
            csv.writer(file).writerows([COLUMNS, *lines])
        publish(made, path)
    print(f"{path}: the source of each row")
