# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab data pack NAME [SOURCE]`: raw data into one .h5 file in the first writable place of paths.data.

Without --as, the samples come from the class that conf/data/NAME.yaml names: its samples(source).
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import LabError, nearest
from ..project import Project, read_yaml

KINDS = ("images", "encoded", "audio", "arrays", "table")


def pack_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser("lab data pack", description=__doc__)
    add = parser.add_argument
    add("name", help="a file of conf/data, without .yaml; with --as also a new name")
    add("source", nargs="*", type=Path, help="raw data: a directory, or files")
    add("--as", dest="kind", choices=KINDS, help="what the source is; encoded: images kept as their bytes")
    add("--size", nargs=2, type=int, metavar=("H", "W"), help="of images: scaled to cover it, then cropped")
    add("--label", help="column of a table that becomes y")
    add("--columns", default="", help="columns of a table that become x, with commas (default: all others)")
    add("--split", default="train=0.8,val=0.1,test=0.1", help="shares (default: %(default)s)")
    add("--split-file", type=Path, help="lines `sample,split`; sample: path below the source, or row number")
    add("--group", help="keeps a group on one side: a column of a table, or an expression found in each path")
    add("--seed", type=int, default=0, help="of the random order and the splits (default: 0)")
    add("--skip-damaged", action="store_true", help="leave out what cannot be read, and record it")
    add("--to", type=Path, help="directory of the file (default: the first writable one of paths.data)")
    options = parser.parse_args(args)
    known = (project.source / "conf" / "data" / f"{options.name}.yaml").exists() or not options.kind
    config = data_config(project, options.name) if known else {"path": f"{options.name}.h5"}
    if options.kind and not options.source:
        raise LabError(f"--as {options.kind} needs a source: lab data pack NAME SOURCE --as {options.kind}")
    for source in options.source:
        if not source.exists():
            raise LabError(f"there is no {source}. Name the directory or files that hold the raw data.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that temporary files are removed
    started_s = time.monotonic()
    target = (options.to or writable_place(project)) / config["path"]
    skipped = _pack(project, config, target, options)

    from .checksum import remember
    from .file_layout import layout

    found = layout(target)
    remember(found)  # its bytes were hashed while they were written
    fields = ", ".join(f"{name} {array.dtype}{list(array.shape[1:])}" for name, array in found.fields.items())
    splits = ", ".join(f"{name} {split.shape[0]}" for name, split in found.splits.items())
    spent = f"{found.identity[0] / 1e6:.1f} MB in {time.monotonic() - started_s:.1f} s"
    print(f"{target}: {found.n} samples, {spent}")
    print(f"  fields {fields}; splits {splits}" + (f"; {len(skipped)} damaged left out" if skipped else ""))
    if not known:
        print(f"  next: copy conf/data/digits.yaml to {options.name}.yaml beside it; set path and fields")


def _pack(project: Project, config: dict[str, Any], target: Path, options: argparse.Namespace) -> list[str]:
    """Writes `target`, and gives what was left out."""
    from tqdm import tqdm

    from . import sources
    from .spool import Splitter, pack_maps, pack_samples, parse_ratios, read_split_file

    given = read_split_file(options.split_file) if options.split_file else None
    expression = None if options.kind in ("table", "arrays") else options.group
    splitter = Splitter(parse_ratios(options.split), options.seed, given, expression)
    skipped: list[str] | None = [] if options.skip_damaged else None
    source, kind, attrs = next(iter(options.source), None), options.kind, {}
    more = {"provenance": {"source": ", ".join(map(str, options.source)) or config["_target_"]}}
    more["last_check"] = _unchanged([source for source in options.source if source.is_file()])
    if kind == "arrays":
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
            arrays = sources.open_arrays(options.source, Path(scratch))
            group_of = arrays.get(options.group)
            if options.group and group_of is None:
                raise LabError(f"--group {options.group}: no such array. There are: {', '.join(arrays)}")
            for row in range(len(next(iter(arrays.values()), ())) if given or options.group else 0):
                splitter.add({"key": row} | ({} if group_of is None else {"group": group_of[row].item()}))
            pack_maps(target, arrays, splitter, attrs, **more)
        return []
    if kind in ("images", "encoded"):
        size = tuple(options.size) if options.size else None
        samples, attrs = sources.from_images(source, size, kind == "encoded", skipped)
    elif kind == "audio":
        samples, attrs = sources.from_audio(source, skipped)
    elif kind == "table":
        columns = [name for name in options.columns.split(",") if name]
        samples, attrs = sources.from_table(source, options.label, columns, options.group, skipped)
    else:
        samples = load_class(config).samples(source)
    bar = tqdm(samples, f"reading {options.name}", unit=" samples", mininterval=1, leave=False, disable=None)

    def recorded() -> Iterator[dict[str, Any]]:
        yield from bar
        if skipped:
            more["provenance"]["skipped"] = json.dumps(skipped, ensure_ascii=False)

    pack_samples(target, recorded(), splitter, attrs, **more)
    return skipped or []


def _unchanged(files: list[Path]) -> Callable[[], None]:
    """A check that these files are as they are now."""

    def seen() -> list[tuple[int, int]]:
        return [(file.stat().st_size, file.stat().st_mtime_ns) for file in files]

    before = seen()

    def check() -> None:
        if seen() != before:
            names = ", ".join(map(str, files))
            raise LabError(f"{names} changed while it was packed. Pack again when nothing writes to it.")

    return check


def data_config(project: Project, name: str) -> dict[str, Any]:
    """The YAML of a data set by its name; a mistyped one is answered before anything slow is imported."""
    directory = project.source / "conf" / "data"
    names = sorted(path.stem for path in directory.glob("*.yaml"))
    if name not in names:
        there = ", ".join(names) or "none"
        raise LabError(f"no data set {name!r}{nearest(name, names)}. In {directory} there are: {there}")
    config = read_yaml(directory / f"{name}.yaml")
    for key in ("_target_", "path"):
        if not isinstance(config.get(key), str):
            raise LabError(f"{directory / name}.yaml has no line for {key}; see digits.yaml")
    return config | {"_target_": config["_target_"].replace("${package}", project.package)}


def load_class(config: dict[str, Any]) -> Any:
    """The class that `_target_` names."""
    module, name = config["_target_"].rsplit(".", 1)
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise LabError(f"_target_: {module}.{name} cannot be loaded: {error}") from error


def writable_place(project: Project) -> Path:
    """The first directory of paths.data that one may write to, or make."""
    for place in project.paths["data"]:
        existing = next(folder for folder in (place, *place.parents) if folder.exists())
        if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
            return place
    places = ", ".join(map(str, project.paths["data"]))
    raise LabError(f"no directory of paths.data can be written to: {places}. Name one with --to DIRECTORY.")
