"""`lab data info`: what a data file holds, and where it fits."""

import json

import numpy as np

from ..machine.disk import filesystem_type, free_bytes, lustre_stripes
from ..machine.gpu import gpus
from ..machine.memory import memory_limit_bytes, memory_used_bytes
from ..project import Project
from .file_layout import Layout, read_layout
from .find import data_file_of, parser_for_one_file

MAX_CLASSES_SHOWN = 20
USABLE_SHARE = 0.8  # of the free memory, that a file may take
LISTED_BELOW = ("classes", "categories")
ATTRS_SHOWN_ELSEWHERE = ("format", "n", "complete")


def info_command(project: Project, args: list[str]) -> None:
    """Prints fields, bytes, splits, classes, provenance, striping, and where the file fits."""
    parser = parser_for_one_file("info", "what a data file holds, and where it fits")
    options = parser.parse_args(args)
    layout = read_layout(data_file_of(project, options.name))
    print_content(layout)
    print_classes(layout)
    print_categories(layout)
    for key, value in layout.attrs.items():
        if key not in ATTRS_SHOWN_ELSEWHERE:
            print(f"  {key}: {value}")
    stripes = lustre_stripes(layout.path)
    if stripes:
        print(f"  lustre stripes: {stripes}")
    print_places(layout.size_bytes)


def print_content(layout: Layout) -> None:
    """Prints samples, bytes, fields and splits."""
    size_MB = layout.size_bytes / 1e6
    disk = filesystem_type(layout.path)
    print(f"{layout.path}: {layout.n_samples} samples, {size_MB:.1f} MB on {disk}")
    for name, array in layout.fields.items():
        shape = "x".join(map(str, array.shape[1:])) or "one number"
        if layout.is_ragged(name):
            shape = "ragged"
        attrs = [
            f", {key} {value}" for key, value in array.attrs.items() if key not in LISTED_BELOW
        ]
        array_MB = array.n_bytes / 1e6
        print(
            f"  field {name:<10} {array.dtype!s:<8} {shape:<13} {array_MB:9.1f} MB{''.join(attrs)}"
        )
    splits = [f"{name} {split.n_rows}" for name, split in layout.splits.items()]
    print(f"  splits {', '.join(splits) or 'none'}")


def print_classes(layout: Layout) -> None:
    """Prints how many samples each class has, when the field y is one whole number per sample."""
    label = layout.fields.get("y")
    if label is None or label.dtype.kind not in "iu" or len(label.shape) != 1:
        return
    names = json.loads(label.attrs.get("classes", "[]"))
    numbers, counts = np.unique(layout.map(label), return_counts=True)
    classes = []
    for number, count in zip(numbers, counts, strict=True):
        classes.append(f"{names[number] if names else number} {count}")
    shown = classes[:MAX_CLASSES_SHOWN]
    if len(classes) > len(shown):
        shown.append("…")
    print(f"  {len(classes)} classes: {', '.join(shown)}")


def print_categories(layout: Layout) -> None:
    """Prints the numbers that stand for the texts of a table."""
    x = layout.fields.get("x")
    categories = json.loads(x.attrs.get("categories", "{}")) if x else {}
    for column, texts in categories.items():
        shown = [f"{code} {text or '(gap)'}" for code, text in enumerate(texts[:MAX_CLASSES_SHOWN])]
        more = ", …" if len(texts) > len(shown) else ""
        print(f"  column {column} of x, {len(texts)} categories: {', '.join(shown)}{more}")


def print_places(size_bytes: int) -> None:
    """Prints whether a file of this size fits into memory, /dev/shm and the GPU."""
    free_bytes_of = {
        "memory": memory_limit_bytes() - memory_used_bytes(),
        "/dev/shm": free_bytes("/dev/shm"),
    }
    gpu_bytes = free_gpu_bytes()
    if gpu_bytes is not None:
        free_bytes_of["GPU"] = gpu_bytes
    answers = []
    for place, n_bytes in free_bytes_of.items():
        answer = "yes" if size_bytes < USABLE_SHARE * n_bytes else "no"
        answers.append(f"{place} {answer} ({n_bytes / 1e9:.1f} GB)")
    no_gpu = "; no GPU here" if gpu_bytes is None else ""
    print(f"  fits into: {', '.join(answers)}{no_gpu}")


def free_gpu_bytes() -> int | None:
    """Free memory of the first GPU; None without one."""
    first = gpus()[:1]
    return first[0].free_MB << 20 if first else None
