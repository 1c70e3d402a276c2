# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab data info`, `verify` and `stage`: what a data file holds, whether it is intact, a copy on this
node."""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from ..machine.node import filesystem_type, limit_bytes, stripes, taken_bytes
from ..project import Project
from .checksum import remember, verify
from .file_layout import DataFileError, Layout, find, layout
from .pack import data_config
from .stage import place, stage, unstage

NAME = "a file of conf/data without .yaml, or the path of a data file"
MANY_CLASSES = 20


def data_file(project: Project, name: str) -> Path:
    """The file of a data set by its name, along paths.data; a path is taken as it is."""
    if Path(name).exists() or Path(name).suffix:
        return Path(name)
    return find(data_config(project, name)["path"], project.paths["data"])


def info_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser("lab data info", description="what a data file holds, and where it fits")
    parser.add_argument("name", help=NAME)
    print(describe(layout(data_file(project, parser.parse_args(args).name))))


def describe(found: Layout) -> str:
    """Fields, shapes, bytes, splits, class counts, provenance, striping, and where the file fits."""
    size = found.identity[0]
    lines = [f"{found.path}: {found.n} samples, {size / 1e6:.1f} MB on {filesystem_type(found.path)}"]
    for name, array in found.fields.items():
        shape = "x".join(map(str, array.shape[1:])) or ("ragged" if found.is_ragged(name) else "one number")
        more = "".join(f", {key} {value}" for key, value in array.attrs.items() if key != "classes")
        lines.append(f"  field {name:<10} {array.dtype!s:<8} {shape:<13} {array.n_bytes / 1e6:9.1f} MB{more}")
    lines += [f"  split {name:<10} {split.shape[0]} samples" for name, split in found.splits.items()]
    if (label := found.fields.get("y")) and label.dtype.kind in "iu" and len(label.shape) == 1:
        names = json.loads(label.attrs.get("classes", "{}"))
        numbers, counts = np.unique(found.map(label), return_counts=True)
        each = [f"{names[k] if names else k} {n}" for k, n in zip(numbers, counts, strict=True)]
        shown = each if len(each) <= MANY_CLASSES else [*each[:MANY_CLASSES], "…"]
        lines.append(f"  {len(numbers)} classes: {', '.join(shown)}")
    own = ("format", "n", "complete")
    lines += [f"  {key}: {value}" for key, value in found.attrs.items() if key not in own]
    if striping := stripes(found.path):
        lines.append(f"  lustre stripes: {striping}")
    free = limit_bytes() - taken_bytes()
    rooms = {"memory": free, "/dev/shm": min(free, shutil.disk_usage("/dev/shm").free)} | _gpu()
    fits = [f"{room} {'yes' if size < 0.8 * n else 'no'} ({n / 1e9:.1f} GB)" for room, n in rooms.items()]
    return "\n".join([*lines, f"  fits into: {', '.join(fits)}{'' if 'GPU' in rooms else '; no GPU here'}"])


def _gpu() -> dict[str, int]:
    query = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout
        return {"GPU": int(answer.split()[0]) << 20}
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return {}


def verify_command(project: Project, args: list[str]) -> int:
    parser = argparse.ArgumentParser("lab data verify", description="checks every byte of a data file")
    parser.add_argument("name", help=NAME)
    path = data_file(project, parser.parse_args(args).name)
    from tqdm import tqdm

    size = path.stat().st_size if path.exists() else 0
    try:
        with tqdm(total=size, unit="B", unit_scale=True, leave=False, disable=None) as bar:
            found = verify(path, bar.update)
    except DataFileError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    print(f"{path}: all {found.n} samples are as they were written, sha256 {remember(found)['sha256']}")
    return 0


def stage_command(project: Project, args: list[str]) -> None:
    description = "copies a data file to this node, for trainings with data.stage set to the same place"
    parser = argparse.ArgumentParser("lab data stage", description=description)
    parser.add_argument("name", help=NAME)
    parser.add_argument("--to", default="shm", help="shm (/dev/shm), tmpdir, or a directory (default: shm)")
    parser.add_argument("--remove", action="store_true", help="remove the copy")
    options = parser.parse_args(args)
    path = data_file(project, options.name)
    if options.remove:
        unstage(place(options.to), path)
        print(f"no unused copy of {path.name} is left in {place(options.to)}")
    elif (copy := stage(path, options.to, owner=parser, keep=True)) != path:
        print(f"{copy} is kept until: lab data stage {options.name} --to {options.to} --remove")
