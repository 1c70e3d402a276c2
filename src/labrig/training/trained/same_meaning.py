"""Other data mean what those meant that a run learnt from: the same classes, the same columns."""

from __future__ import annotations

import json
import sys
from contextlib import suppress

import lightning.pytorch as L

from ...errors import LabError, NotComparable
from ...hdf5.file.errors import DataFileError
from ...hdf5.file.joined import read_layouts
from ...hdf5.file.layout import Layout
from ...hdf5.file.tokens import Tokenizer
from ...hdf5.read.datamodule import H5DataModule
from ...project import Project
from ...record.read.run import Run
from ...record.reproduce.recorded_data import find_recorded_data


def require_same_meaning(project: Project, run: Run, data: L.LightningDataModule) -> None:
    """Makes sure that each number of a class or column in `data` means what it meant to `run`.

    Data that name neither are not compared. A line says so where the data of the run are gone.
    """
    if not isinstance(data, H5DataModule) or "size_bytes" not in run.data:
        return
    now = names_in(data.layout)
    if not now:
        return
    own = own_data(project, run)
    if own is None:
        print(
            f"lab: the data of {run.id} are gone: nobody compared the names of classes and columns",
            file=sys.stderr,
        )
        return
    then = names_in(own)
    for what in now.keys() & then.keys():  # what only one has, such as one class more, may be right
        for number, (old, new) in enumerate(zip(then[what], now[what], strict=False)):
            if old != new:
                raise LabError(
                    f"{what} {number} is {new!r} in {data.layout.path.name}, and {old!r} in "
                    f"{own.path.name}, which {run.id} learnt from.\n"
                    "Its numbers would be wrong. Pack these data again, with the names of the others: "
                    f"lab data pack … --classes-of {own.path.stem}"
                )


def own_data(project: Project, run: Run) -> Layout | None:
    """The data files that a run learnt from; None where they are gone, or were none."""
    with suppress(NotComparable, DataFileError):
        paths = find_recorded_data(project, run) if "size_bytes" in run.data else []
        return read_layouts(paths) if paths else None
    return None


def names_in(layout: Layout) -> dict[str, list[str]]:
    """The names of classes, of columns, and of the texts of a column, in the order of their numbers."""
    fields = layout.fields
    columns = json.loads(fields["x"].attrs.get("columns", "[]")) if "x" in fields else []
    texts = json.loads(fields["x"].attrs.get("categories", "{}")) if "x" in fields else {}
    tokens = Tokenizer.of(fields["x"].attrs) if "x" in fields else None
    names = {"class": layout.class_names, "column": columns}
    if tokens:
        names["token"] = [*tokens.vocabulary] or [tokens.content or tokens.name]
    names |= {f"text of column {column!r}": names for column, names in texts.items()}
    return {what: listed for what, listed in names.items() if listed}
