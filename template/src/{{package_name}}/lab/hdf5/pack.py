# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab data pack NAME`: the samples of the data class of conf/data/NAME.yaml into the first writable place of
paths.data."""

from __future__ import annotations

import argparse
import os
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import LabError, nearest
from ..project import Project, read_yaml


def pack_command(project: Project, args: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="lab data pack", description=__doc__)
    parser.add_argument("name", help="a file of conf/data, without .yaml")
    parser.add_argument("source", nargs="?", type=Path, help="raw data, handed to the data class's samples()")
    parser.add_argument("--split", default="train=0.8,val=0.1,test=0.1", help="shares (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the random order and the splits (default: 0)")
    parser.add_argument(
        "--to", type=Path, help="directory of the file (default: the first writable of paths.data)"
    )
    options = parser.parse_args(args)
    config = data_config(
        project, options.name
    )  # a mistyped name is answered before anything slow is imported
    target = (options.to or writable_place(project)) / config["path"]

    from tqdm import tqdm

    from .checksum import remember
    from .file_layout import layout
    from .split import parse_ratios
    from .spool import pack_samples

    ratios = parse_ratios(options.split)
    started_s = time.monotonic()
    data_class = load_class(project, config)
    samples = tqdm(
        data_class.samples(options.source),
        f"packing {options.name}",
        unit=" samples",
        mininterval=1,
        leave=False,
        disable=None,
    )
    pack_samples(
        target, samples, ratios=ratios, seed=options.seed, source=str(options.source or config["_target_"])
    )
    found = layout(target)
    remember(found)
    print(summary(found, time.monotonic() - started_s))
    return 0


def data_config(project: Project, name: str) -> dict[str, Any]:
    """The YAML of a data set by its name."""
    directory = project.source / "conf" / "data"
    names = sorted(path.stem for path in directory.glob("*.yaml"))
    if name not in names:
        raise LabError(
            f"no data set {name!r}{nearest(name, names)}. {directory} has: {', '.join(names) or 'none'}"
        )
    config = read_yaml(directory / f"{name}.yaml")
    for key in ("_target_", "path"):
        if not isinstance(config.get(key), str):
            raise LabError(
                f"{directory / name}.yaml has no {key}: expected a line such as `{key}: ...`, see digits.yaml"
            )
    return config


def load_class(project: Project, config: dict[str, Any]) -> Any:
    """The class that `_target_` names."""
    module_name, class_name = config["_target_"].replace("${package}", project.package).rsplit(".", 1)
    try:
        return getattr(import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        raise LabError(
            f"_target_: {config['_target_']} cannot be loaded ({error}). Is the class in {module_name}?"
        ) from error


def writable_place(project: Project) -> Path:
    """The first directory of paths.data that one may write to; made when missing."""
    for place in project.paths["data"]:
        existing = next(folder for folder in (place, *place.parents) if folder.exists())
        if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
            return place
    raise LabError(
        f"none of paths.data may be written to: {', '.join(map(str, project.paths['data']))}. Name a place "
        "with --to DIRECTORY."
    )


def summary(found: Any, seconds: float) -> str:
    """What was packed, in a few lines."""
    fields = ", ".join(f"{name} {array.dtype}{list(array.shape[1:])}" for name, array in found.fields.items())
    splits = ", ".join(f"{name} {split.shape[0]}" for name, split in found.splits.items())
    size = found.path.stat().st_size
    return (
        f"{found.path}: {found.n} samples, {size / 1e6:.1f} MB in {seconds:.1f} s; {fields}; splits {splits}"
    )
