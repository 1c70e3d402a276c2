# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab data info`: what a data file holds, and where it fits."""

import json

import numpy as np

from ..machine.disk import filesystem_type, free_bytes, lustre_stripes
from ..machine.gpu import gpus
from ..machine.memory import memory_limit_bytes, memory_used_bytes
from ..project import Project
from .file_layout import Layout, read_layout
from .find import add_file_argument, data_file_of


def info_command(project: Project, args: list[str]) -> None:
    """Fields, shapes, bytes, splits, class counts, provenance, striping, and where the file fits."""
    found = read_layout(
        data_file_of(
            project,
            add_file_argument("info", "what a file holds, and where it fits").parse_args(args).name,
        )
    )
    print_content(found)
    if (label := found.fields.get("y")) and label.dtype.kind in "iu" and len(label.shape) == 1:
        names = json.loads(label.attrs.get("classes", "{}"))
        numbers, counts = np.unique(found.map(label), return_counts=True)
        each = [f"{names[k] if names else k} {n}" for k, n in zip(numbers, counts, strict=True)]
        print(f"  {len(each)} classes: {', '.join(each[:20])}{', …' if len(each) > 20 else ''}")
    for key, value in found.attrs.items():
        if key not in ("format", "n", "complete"):
            print(f"  {key}: {value}")
    if striping := lustre_stripes(found.path):
        print(f"  lustre stripes: {striping}")
    rooms = {
        "memory": memory_limit_bytes() - memory_used_bytes(),
        "/dev/shm": free_bytes("/dev/shm"),
    }
    for gpu in gpus()[:1]:
        rooms["GPU"] = gpu.free_MB << 20
    fits = [
        f"{room} {'yes' if found.identity[0] < 0.8 * n else 'no'} ({n / 1e9:.1f} GB)"
        for room, n in rooms.items()
    ]
    print(f"  fits into: {', '.join(fits)}{'' if 'GPU' in rooms else '; no GPU here'}")


def print_content(found: Layout) -> None:
    """Prints samples, bytes, fields and splits."""
    print(
        f"{found.path}: {found.n} samples, {found.identity[0] / 1e6:.1f} MB on {filesystem_type(found.path)}"
    )
    for name, array in found.fields.items():
        shape = "x".join(map(str, array.shape[1:])) or (
            "ragged" if found.is_ragged(name) else "one number"
        )
        more = "".join(f", {key} {value}" for key, value in array.attrs.items() if key != "classes")
        print(
            f"  field {name:<10} {array.dtype!s:<8} {shape:<13} {array.n_bytes / 1e6:9.1f} MB{more}"
        )
    print(
        "  splits",
        ", ".join(f"{name} {split.shape[0]}" for name, split in found.splits.items()) or "none",
    )
