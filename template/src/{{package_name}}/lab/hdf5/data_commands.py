# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab data pack`, `info`, `verify` and `stage`."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
from tqdm import tqdm

from ..errors import Failed, LabError, nearest
from ..machine.node import filesystem_type, free_bytes, limit_bytes, stripes, taken_bytes
from ..project import Project, read_yaml
from . import sources
from .file_layout import DataFileError, Layout, fingerprint, layout, verify
from .stage import find, place, stage, unstage
from .writer import scratch_beside, spool, write_fields

PACK = """`lab data pack NAME [SOURCE]`: raw data into one .h5 file in the first writable place of paths.data.

Without --as, the samples come from the class that conf/data/NAME.yaml names: its samples(source).
"""


def pack_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser("lab data pack", description=PACK)
    add = parser.add_argument
    add("name", help="a file of conf/data, without .yaml; with --as also a new name")
    add("source", nargs="*", type=Path, help="raw data: a directory, or files")
    add("--as", dest="kind", choices=[*sources.READERS, "arrays"], help="the source; encoded: images as their bytes")
    add("--size", nargs=2, type=int, metavar=("H", "W"), help="of images: scaled to cover it, then cropped")
    add("--label", help="column of a table that becomes y")
    add("--columns", type=lambda text: text.split(","), default=[], help="of a table that become x (default: others)")
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
    for source in filter(None, (*options.source, options.split_file)):
        if not source.exists():
            raise LabError(f"there is no {source}. Name the directory or files that hold the raw data.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that temporary files are removed
    started_s = time.monotonic()
    target = (options.to or writable_place(project)) / config["path"]
    _pack(config, target, options)
    found = layout(target)
    fingerprint(target, found)  # its bytes were hashed while they were written
    tell_content(found)
    n_skipped = len(json.loads(found.attrs.get("skipped", "[]")))
    print(f"  packed in {time.monotonic() - started_s:.1f} s, {n_skipped} damaged samples left out")
    if not known:
        print(f"  next: copy conf/data/digits.yaml to {options.name}.yaml beside it; set path and fields")


def _pack(config: dict[str, Any], target: Path, options: argparse.Namespace) -> None:
    given = sources.read_split_file(options.split_file) if options.split_file else None
    expression = None if options.kind in ("table", "arrays") else options.group
    splitter = sources.Splitter(sources.parse_ratios(options.split), options.seed, given, expression)
    skipped: list[str] | None = [] if options.skip_damaged else None
    source, attrs = next(iter(options.source), None), {}
    provenance = {"seed": options.seed, "source": ", ".join(map(str, options.source)) or config["_target_"]}
    check = sources.unchanged([source for source in options.source if source.is_file()])
    with scratch_beside(target) as scratch:
        if options.kind == "arrays":
            fields = sources.open_arrays(options.source, Path(scratch))
            if options.group and options.group not in fields:
                raise LabError(f"--group {options.group}: no such array. There are: {', '.join(fields)}")
            for row in range(len(next(iter(fields.values()), ())) if given or options.group else 0):
                splitter.add({"key": row} | ({"group": fields[options.group][row].item()} if options.group else {}))
        else:
            read = sources.READERS.get(options.kind, lambda source, *_: (load_class(config).samples(source), {}))
            samples, attrs = read(source, options, skipped)
            bar = tqdm(samples, f"reading {options.name}", unit=" samples", mininterval=1, leave=False, disable=None)
            fields = spool(target, Path(scratch), bar, splitter.add, attrs)
        if skipped:
            provenance["skipped"] = json.dumps(skipped, ensure_ascii=False)
        write_fields(target, fields, splitter.rows, provenance, attrs, check)


def data_config(project: Project, name: str) -> dict[str, Any]:
    """The YAML of a data set by its name; a mistyped one is answered before anything slow is imported."""
    directory = project.source / "conf" / "data"
    names = sorted(path.stem for path in directory.glob("*.yaml"))
    if name not in names:
        raise LabError(f"no data set {name!r}{nearest(name, names)}. {directory} has: {', '.join(names) or 'none'}")
    config = read_yaml(directory / f"{name}.yaml")
    for key in ("_target_", "path"):
        if not isinstance(config.get(key), str):
            raise LabError(f"{directory / name}.yaml has no line for {key}; see digits.yaml")
    return config | {"_target_": config["_target_"].replace("${package}", project.package)}


def load_class(config: dict[str, Any]) -> Any:
    """The class that `_target_` names."""
    try:
        return resolve_name(config["_target_"])
    except (ImportError, AttributeError) as error:
        raise LabError(f"_target_: {config['_target_']} cannot be loaded: {error}") from error


def writable_place(project: Project) -> Path:
    """The first directory of paths.data that one may write to, or make."""
    for directory in project.paths["data"]:
        if os.access(next(folder for folder in (directory, *directory.parents) if folder.exists()), os.W_OK | os.X_OK):
            return directory
    places = ", ".join(map(str, project.paths["data"]))
    raise LabError(f"no directory of paths.data can be written to: {places}. Name one with --to DIRECTORY.")


def takes_file(words: str, description: str) -> argparse.ArgumentParser:
    """The parser of a command about one data file."""
    parser = argparse.ArgumentParser(f"lab data {words}", description=description)
    parser.add_argument("name", help="a file of conf/data without .yaml, or the path of a data file")
    return parser


def data_file(project: Project, name: str) -> Path:
    """The file of a data set by its name, along paths.data; a path is taken as it is."""
    if Path(name).exists() or Path(name).suffix:
        return Path(name)
    return find(data_config(project, name)["path"], project.paths["data"])


def info_command(project: Project, args: list[str]) -> None:
    """Fields, shapes, bytes, splits, class counts, provenance, striping, and where the file fits."""
    found = layout(data_file(project, takes_file("info", "what a file holds, and where it fits").parse_args(args).name))
    tell_content(found)
    if (label := found.fields.get("y")) and label.dtype.kind in "iu" and len(label.shape) == 1:
        names = json.loads(label.attrs.get("classes", "{}"))
        numbers, counts = np.unique(found.map(label), return_counts=True)
        each = [f"{names[k] if names else k} {n}" for k, n in zip(numbers, counts, strict=True)]
        print(f"  {len(each)} classes: {', '.join(each[:20])}{', …' if len(each) > 20 else ''}")
    for key, value in found.attrs.items():
        if key not in ("format", "n", "complete"):
            print(f"  {key}: {value}")
    if striping := stripes(found.path):
        print(f"  lustre stripes: {striping}")
    rooms = {"memory": limit_bytes() - taken_bytes(), "/dev/shm": free_bytes("/dev/shm")} | _gpu()
    fits = [f"{room} {'yes' if found.identity[0] < 0.8 * n else 'no'} ({n / 1e9:.1f} GB)" for room, n in rooms.items()]
    print(f"  fits into: {', '.join(fits)}{'' if 'GPU' in rooms else '; no GPU here'}")


def tell_content(found: Layout) -> None:
    """Prints samples, bytes, fields and splits."""
    print(f"{found.path}: {found.n} samples, {found.identity[0] / 1e6:.1f} MB on {filesystem_type(found.path)}")
    for name, array in found.fields.items():
        shape = "x".join(map(str, array.shape[1:])) or ("ragged" if found.is_ragged(name) else "one number")
        more = "".join(f", {key} {value}" for key, value in array.attrs.items() if key != "classes")
        print(f"  field {name:<10} {array.dtype!s:<8} {shape:<13} {array.n_bytes / 1e6:9.1f} MB{more}")
    print("  splits", ", ".join(f"{name} {split.shape[0]}" for name, split in found.splits.items()) or "none")


def _gpu() -> dict[str, int]:
    query = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    with suppress(OSError, subprocess.SubprocessError, ValueError, IndexError):
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout
        return {"GPU": int(answer.split()[0]) << 20}
    return {}


def verify_command(project: Project, args: list[str]) -> None:
    path = data_file(project, takes_file("verify", "checks every byte of a data file").parse_args(args).name)
    try:
        found = verify(path)
    except DataFileError as error:
        raise Failed(str(error)) from error
    print(f"{path}: all {found.n} samples are as they were written, sha256 {fingerprint(path, found)['sha256']}")


def stage_command(project: Project, args: list[str]) -> None:
    parser = takes_file("stage", "copies a data file to this node, for trainings with data.stage set to the same place")
    parser.add_argument("--to", default="shm", help="shm (/dev/shm), tmpdir, or a directory (default: shm)")
    parser.add_argument("--remove", action="store_true", help="remove the copy")
    options = parser.parse_args(args)
    path = data_file(project, options.name)
    if options.remove:
        unstage(place(options.to), path)
        print(f"no unused copy of {path.name} is left in {place(options.to)}")
    elif (copy := stage(path, options.to, owner=parser, keep=True)) != path:
        print(f"{copy} is kept until: lab data stage {options.name} --to {options.to} --remove")
