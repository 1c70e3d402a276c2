"""Writes next to a data file which source each of its rows is from; the file itself has no names."""

import csv
from collections.abc import Sequence
from pathlib import Path

from ..file.atomic_file import explain_write_errors, publish, temporary_directory_next_to
from .split import Arrangement


def write_names(target: Path, keys: Sequence[str], arrangement: Arrangement) -> None:
    """Writes NAME.csv next to NAME.h5: row, split and source of each sample.

    Args:
        keys: of the samples in the order of the sources.

    Raises:
        DataFileError: it cannot be written; the data file is complete all the same.
    """
    names = [keys[place] for place in arrangement.order]
    split_of = dict.fromkeys(range(len(names)), "")
    for split, rows in arrangement.splits.items():
        split_of |= dict.fromkeys(rows.tolist(), split)
    path = target.with_suffix(".csv")
    with temporary_directory_next_to(path) as directory, explain_write_errors(path):
        with open(directory / path.name, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("row", "split", "sample"))
            writer.writerows((row, split_of[row], name) for row, name in enumerate(names))
        publish(directory / path.name, path)
    print(f"{path}: the source of each row")
