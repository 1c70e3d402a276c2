"""Writes next to a data file which source each of its rows is from; the file itself has no names."""

import csv
from collections.abc import Sequence
from pathlib import Path

from ...machine.own_output import refuse_to_overwrite
from ..file.atomic_file import explain_write_errors, publish, temporary_directory_next_to
from .split import Arrangement

NAMES_SUFFIX = ".names.csv"
COLUMNS = ("row", "split", "sample")


def names_file(target: Path) -> Path:
    """NAME.names.csv next to NAME.h5, since NAME.csv may be the table that was packed."""
    path = target.with_suffix(NAMES_SUFFIX)
    refuse_to_overwrite(path, lambda content: content.startswith(",".join(COLUMNS).encode()))
    return path


def write_names(path: Path, keys: Sequence[str], arrangement: Arrangement) -> None:
    """Writes row, split and source of each sample.

    Args:
        keys: of the samples in the order of the sources.
    """
    names = [keys[place] for place in arrangement.order]
    split_of = dict.fromkeys(range(len(names)), "")
    for split, rows in arrangement.splits.items():
        split_of |= dict.fromkeys(rows.tolist(), split)
    with temporary_directory_next_to(path) as directory, explain_write_errors(path):
        with open(directory / path.name, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows((row, split_of[row], name) for row, name in enumerate(names))
        publish(directory / path.name, path)
    print(f"{path}: the source of each row")
