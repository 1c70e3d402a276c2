"""Writes conf/data/NAME.yaml for a file that was just packed, so that trainings find it."""

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from ..project import Project
from .field_readers import is_encoded
from .file_layout import Layout
from .images import Size
from .pack_options import PackOptions

LABEL = "y"
MAX_CLASSES_SHOWN = 5
DEFAULT_SIZE = (224, 224)
LARGEST = {"uint8": 255, "int16": 32768}  # of what images and recordings hold
RANGES = {"uint8": "0..1", "int16": "-1..1"}  # after the division

TEMPLATE = """\
# {content}. Written by `lab data pack`, which never changes it: it is yours to edit.
_target_: labrig.data.H5DataModule  # or your own subclass in data.py, such as ${{package}}.data.{class_name}
path: {path}  # looked up along `search`
search: ${{paths.data}}
pack: {command}  # makes the file; printed when it is missing
batch_size: 64  # samples per step and process
seed: ${{seed}}  # of the order and of random augmentation
fields: [{fields}]  # in this order in a batch. {shapes_in_file}
scale: {scale}  # {scale_meaning}
shapes: {shapes}  # of fields that vary: {{wav: 16000}} crops or pads, {{x: [224, 224]}} decodes to that size
num_workers: auto  # 0: one thread, fastest unless samples need much work; auto: 0, or cores for encoded images
stage: null  # shm | tmpdir | a directory: read from a copy there, made once per node
drop_last: false  # true: leave out the last, smaller step of an epoch
"""


def config_directory(project: Project) -> Path:
    """conf/data of the project as it lies there, also when a job runs frozen code."""
    return project.root / "src" / project.package / "conf" / "data"


def pack_command_line(args: list[str], options: PackOptions, root: Path) -> str:
    """The command that was typed, as it works in the project's root."""
    words = []
    paths = {str(source.path) for source in options.sources}
    paths |= {str(path) for path in (options.split_file, options.directory) if path}
    for word in args:
        option, equals, path = word.rpartition("=")
        if path in paths and not os.path.isabs(path):
            word = f"{option}{equals}{os.path.relpath(path, root)}"
        words.append(word)
    return shlex.join(["lab", "data", "pack", *words])


def yaml_of(project: Project, layout: Layout, options: PackOptions, command: str) -> str:
    """The text of conf/data/NAME.yaml."""
    fields = sorted(layout.fields, key=lambda name: (name == LABEL, name != "x"))
    if {"x", LABEL} <= layout.fields.keys():
        fields = ["x", LABEL]
    scale = scale_of(layout, options)
    shapes = _shapes(layout, options.size)
    return TEMPLATE.format(
        content=f"{layout.n_samples} samples{_classes(layout)}",
        class_name="".join(part.capitalize() for part in options.name.replace("-", "_").split("_")),
        path=_path(project, layout.path.resolve()),
        command=json.dumps(command.replace("${", "\\${"), ensure_ascii=False),
        fields=", ".join(fields),
        shapes_in_file="; ".join(f"{name}: {_shape(layout, name)}" for name in layout.fields),
        scale=_inline(scale),
        scale_meaning=scale_meaning(layout, scale),
        shapes=_inline(shapes),
    )


def _path(project: Project, path: Path) -> str:
    """The file's name where it is found along paths.data, else its whole path."""
    if path.parent in [directory.resolve() for directory in project.paths.data]:
        return path.name
    return json.dumps(str(path), ensure_ascii=False)


def _classes(layout: Layout) -> str:
    label = layout.fields.get(LABEL)
    names = json.loads(label.attrs.get("classes", "[]")) if label else []
    if not names:
        return ""
    more = ", …" if len(names) > MAX_CLASSES_SHOWN else ""
    text = f", {len(names)} classes: {', '.join(names[:MAX_CLASSES_SHOWN])}{more}"
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _shape(layout: Layout, name: str) -> str:
    array = layout.fields[name]
    if is_encoded(array):
        return "encoded images"
    if layout.is_ragged(name):
        return f"{array.dtype}, of varying length"
    return f"{array.dtype} {'x'.join(map(str, array.shape[1:]))}".strip()


def scale_of(layout: Layout, options: PackOptions) -> dict[str, int]:
    """What images and recordings are divided by: the largest number of their type."""
    scale = {}
    for name, array in layout.fields.items():
        is_image = is_encoded(array) or (array.dtype == "uint8" and len(array.shape) == 4)
        if is_image or (options.kind == "audio" and name != LABEL):
            scale[name] = LARGEST[array.dtype.name]
    return scale


def scale_meaning(layout: Layout, scale: dict[str, int]) -> str:
    """Such as: on the device x / 255: float32 in 0..1."""
    if not scale:
        return "nothing is divided; {x: 255} makes float32 in 0..1 of uint8"
    parts = []
    for name, number in scale.items():
        parts.append(f"{name} / {number}: float32 in {RANGES[layout.fields[name].dtype.name]}")
    return f"on the device {', '.join(parts)}"


def _shapes(layout: Layout, size: Size | None) -> dict[str, list[int]]:
    encoded = [name for name, array in layout.fields.items() if is_encoded(array)]
    return {name: [*(size or DEFAULT_SIZE)] for name in encoded}


def _inline(values: Mapping[str, object]) -> str:
    """A mapping on one line, or null."""
    items = ", ".join(f"{name}: {value}" for name, value in values.items())
    return f"{{{items}}}" if items else "null"
