# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab data info`: what a data file holds."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from ..project import Project
from .file_layout import Layout, layout
from .find import find
from .pack import data_config


def info_command(project: Project, args: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="lab data info", description=__doc__)
    parser.add_argument("name", help="a file of conf/data without .yaml, or the path of a data file")
    options = parser.parse_args(args)
    print(describe(layout(data_file(project, options.name))))
    return 0


def data_file(project: Project, name: str) -> Path:
    """The file of a data set: a path is taken as it is, a name goes through conf/data and paths.data."""
    if Path(name).suffix or Path(name).exists():
        return Path(name)
    return find(data_config(project, name)["path"], project.paths["data"])


def describe(found: Layout) -> str:
    lines = [f"{found.path}  {found.identity[0] / 1e6:.1f} MB, {found.n} samples"]
    for name, array in found.fields.items():
        shape = "ragged" if found.is_ragged(name) else "x".join(map(str, array.shape[1:])) or "one value"
        lines.append(f"  field {name:<12} {array.dtype!s:<8} {shape:<12} {array.n_bytes / 1e6:.1f} MB")
    for name, split in found.splits.items():
        lines.append(f"  split {name:<12} {split.shape[0]} samples")
    if "y" in found.fields and found.arrays["y"].dtype.kind in "iu" and len(found.arrays["y"].shape) == 1:
        classes, counts = np.unique(found.map(found.arrays["y"]), return_counts=True)
        lines.append(
            "  classes "
            + ", ".join(f"{c}: {n}" for c, n in zip(classes[:20], counts[:20], strict=True))
            + (" …" if len(classes) > 20 else "")
        )
    lines += [
        f"  {key}: {value}"
        for key, value in found.attrs.items()
        if key not in ("format", "version", "n", "complete")
    ]
    return "\n".join(lines)
