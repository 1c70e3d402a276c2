"""Writes conf/data/NAME.yaml for a file that was just packed, and keeps which programs made it."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from ... import env
from ...config.targets import definition_of, signature_of
from ...failure import shown_path
from ...machine.git import Git, GitFailed
from ...machine.secrets import has_secret_name, hide_tokens
from ...machine.text_formats import and_more, counted
from ...project import Project, read_yaml
from ..file.atomic_file import explain_write_errors, publish, temporary_directory_next_to
from ..file.errors import DataFileError
from ..file.find import config_file_of, read_data_config, section_of_trial
from ..file.groups import SOURCE, SPAN
from ..file.layout import GROUP, TIME, Layout, read_layout
from ..file.tokens import n_tokens_of
from ..read.field_readers import is_encoded
from .options import PackOptions
from .sources import Source

LABEL = "y"
MAX_CLASSES_SHOWN = 5
DEFAULT_SIZE = (224, 224)
LARGEST = {"uint8": 255, "int16": 32768, "uint16": 65535}  # of what images and recordings hold
RANGES = {"uint8": "0..1", "int16": "-1..1", "uint16": "0..1"}  # after the division
MODULE = "labrig.data.H5DataModule"
MODULE_OF_PAIRS = "labrig.data.PairDataModule"

FIRST = "# {content}. Written by `lab data pack`: it is yours to edit."
PACK = "pack: {command}  # makes the file; printed when it is missing"
TEMPLATE = """\
{first}
_target_: {target}{other_target}
path: {path}  # looked up along `search`
search: ${{paths.data}}
{pack}
batch_size: 64  # samples per step and process
seed: ${{seed}}  # of the order and of random augmentation
fields: [{fields}]  # in this order in a batch. {shapes_in_file}
scale: {scale}  # {scale_meaning}
standardize: {standardize}  # x: (x - mean) / deviation of the training rows of the run, float32; kept in its checkpoint
shapes: {shapes}  # of fields that vary: {{wav: 16000}} crops or pads, {{x: [224, 224]}} decodes to that size
num_workers: auto  # 0: one thread, fastest unless samples need much work; auto: 0, or cores for encoded images
stage: null  # shm | tmpdir | a directory: read from a copy there, made once per node
drop_last: false  # true: leave out the last, smaller step of an epoch
"""
OTHER_TARGET = "  # or your own subclass in data.py, such as ${{package}}.data.{}"
OF_PAIRS = """\
classes: {classes}  # of masks: the values that are the classes 0, 1, 2 …; another one is ignored by the loss
crop: null  # [64, 64]: training sees a random part of that size, the same of image and mask
flip: null  # horizontal | both: half of the training samples are mirrored, image and mask alike
"""
OF_TOKENS = """\
windows: {x: 65}  # each sample is 65 values of x: at random places in training, else all pieces in order
windows_per_epoch: null  # random ones; null: as many as there are pieces
"""
OF_SERIES = """\
windows: {past: 24, next: 8, stride: 1}  # each sample is 32 steps of all fields; an epoch has each window once
"""
SUFFIXES = (".ipynb", ".jl", ".m", ".pl", ".py", ".r", ".sh")
NAMES = ("Makefile", "Snakefile")
MAX_BYTES = 1 << 20  # of a text; of a longer one there is the hash only


def config_directory(project: Project) -> Path:
    """conf/data of the project as it lies there, also when a job runs frozen code."""
    return project.root / "src" / project.package / "conf" / "data"


def pack_command_line(
    args: list[str], options: PackOptions, root: Path, command: str = "pack"
) -> str:
    """The command that was typed, as it works in the project's root."""
    paths = {str(source.path) for source in options.sources}
    paths |= {str(path) for path in (options.split_file, options.directory) if path}
    paths |= {str(path) for path in options.programs}
    words = ["lab", "data", command]
    for word in args:
        option, equals, path = word.rpartition("=")
        if path in paths and not os.path.isabs(path):
            word = f"{option}{equals}{os.path.relpath(path, root)}"
        words.append(word)
    return shlex.join(words)


def pack_text(command: str) -> str:
    """The value of `pack`: the command, in which OmegaConf finds no interpolation."""
    return command.replace("${", "\\${")


def first_line(layout: Layout) -> str:
    """What the YAML of a file begins with."""
    return FIRST.format(content=f"{layout.n_samples} samples{_classes(layout)}")


def pack_line(command: str) -> str:
    return PACK.format(command=json.dumps(pack_text(command), ensure_ascii=False))


def lines_written_for(target: Path) -> list[str]:
    """The lines that packing wrote into the YAML of the file that is at `target` now; none without it."""
    try:
        layout = read_layout(target)
    except DataFileError:
        return []
    return [first_line(layout), pack_line(str(layout.attrs.get("command", "")))]


def rewrite_lines(path: Path, old: Sequence[str], new: Sequence[str]) -> bool:
    """Puts each of the `new` lines where the YAML still has the `old` one; whether it had any."""
    lines = path.read_text(encoding="utf-8").splitlines()
    new_of = {a: b for a, b in zip(old, new, strict=True) if a in lines and a != b}
    if new_of:
        write_whole(path, "\n".join(new_of.get(line, line) for line in lines) + "\n")
    return bool(new_of)


def write_whole(path: Path, text: str) -> None:
    """Writes a file that is complete or not there."""
    with temporary_directory_next_to(path) as directory, explain_write_errors(path):
        (directory / path.name).write_text(text, encoding="utf-8")
        publish(directory / path.name, path)


def yaml_of(
    project: Project, layout: Layout, options: PackOptions, command: str, own_class: str | None
) -> str:
    """The text of conf/data/NAME.yaml.

    Args:
        own_class: the `_target_` whose samples were packed; None: a class of labrig reads them.
    """
    is_pairs = options.kind == "pairs"
    scale = scale_of(layout, options, own_class)
    encoded = [name for name, array in layout.fields.items() if is_encoded(array)]
    shapes = {name: [*(options.size or DEFAULT_SIZE)] for name in encoded}
    target = own_class or (MODULE_OF_PAIRS if is_pairs else MODULE)
    if target.startswith(f"{project.package}."):
        target = "${package}." + target.removeprefix(f"{project.package}.")
    own_name = "".join(part.capitalize() for part in options.name.replace("-", "_").split("_"))
    path = layout.path.resolve()
    is_found = path.parent in [directory.resolve() for directory in project.paths.data]
    template = TEMPLATE + OF_PAIRS if is_pairs else TEMPLATE
    text = template.format(
        first=first_line(layout),
        pack=pack_line(command),
        target=target,
        other_target="" if own_class else OTHER_TARGET.format(own_name),
        classes=inline(mask_values(layout)),
        path=path.name if is_found else json.dumps(str(path), ensure_ascii=False),
        fields=", ".join(fields_of_batch(layout, options)),
        shapes_in_file="; ".join(f"{name}: {_shape(layout, name)}" for name in layout.fields),
        scale=inline(scale),
        scale_meaning=scale_meaning(layout, scale),
        # a network of float32 cannot take another x as it is
        standardize="x"
        if options.kind == "table" and layout.fields["x"].dtype != "float32"
        else "null",
        shapes=inline(shapes),
    )
    if options.kind == "tokens":
        text += OF_TOKENS
    if options.kind == "series":
        text += OF_SERIES
    return _lines_for(own_class, text) if own_class else text


def fields_of_batch(layout: Layout, options: PackOptions) -> list[str]:
    """The fields that a training usually reads, in the order of a batch."""
    if {"x", LABEL} <= layout.fields.keys() and options.kind != "pairs":
        return ["x", LABEL]
    left_out = (GROUP, TIME) if options.kind == "series" else (GROUP, SOURCE, SPAN)
    stored = [name for name in layout.fields if name not in left_out]
    return sorted(stored, key=lambda name: (name == LABEL, name != "x"))


def _lines_for(own_class: str, text: str) -> str:
    """The lines of the settings that a class takes, and one for each further one that it needs."""
    parameters = signature_of(own_class)
    first, *lines = text.splitlines()
    keys = {line.partition(":")[0]: line for line in lines}
    taken = keys if parameters.takes_any else ("_target_", *parameters.names)
    kept = [line for key, line in keys.items() if key in taken]
    kept += [
        f"{name}: ???  # it has no default" for name in parameters.required if name not in keys
    ]
    others = [name for name in parameters.names if name not in (*keys, *parameters.required)]
    if others:
        kept.append(f"# It also takes: {', '.join(others)}")
    return "\n".join([first, *kept]) + "\n"


def mask_values(layout: Layout) -> dict[str, list[int]]:
    """The different values of each field of masks of classes."""
    return {
        name: json.loads(array.attrs["values"])
        for name, array in layout.fields.items()
        if "values" in array.attrs
    }


def _classes(layout: Layout) -> str:
    label = layout.fields.get(LABEL)
    values = mask_values(layout).get(LABEL)
    if values:
        return f", {counted(len(values), 'class')} of pixels"
    names = json.loads(label.attrs.get("classes", "[]")) if label else []
    if not names:
        return ""
    text = f", {len(names)} classes: {and_more(names, MAX_CLASSES_SHOWN)}"
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _shape(layout: Layout, name: str) -> str:
    array = layout.fields[name]
    if is_encoded(array):
        return "encoded images"
    if layout.is_ragged(name):
        return f"{array.dtype}, of varying length"
    return f"{array.dtype} {'x'.join(map(str, array.shape[1:]))}".strip()


def scale_of(layout: Layout, options: PackOptions, own_class: str | None) -> dict[str, int]:
    """What images and recordings are divided by: the largest number of their type.

    Nothing, where a class of the user's says itself what is done to a batch.
    """
    definition = definition_of(own_class) if own_class else None
    if definition and definition.defines("on_after_batch_transfer"):
        return {}
    scale = {}
    for name, array in layout.fields.items():
        types = ("uint8", "uint16") if options.kind == "pairs" else ("uint8",)
        is_image = is_encoded(array) or (array.dtype.name in types and len(array.shape) == 4)
        is_wave = options.kind == "audio" and array.dtype.name == "int16"
        if is_image or (is_wave and name not in (LABEL, GROUP)):
            scale[name] = LARGEST[array.dtype.name]
    return scale


def scale_meaning(layout: Layout, scale: dict[str, int]) -> str:
    """Such as: on the device x / 255: float32 in 0..1."""
    if not scale:
        return "nothing is divided; {x: 255} makes float32 in 0..1 of uint8"
    ranges = {name: RANGES[layout.fields[name].dtype.name] for name in scale}
    parts = [f"{name} / {n}: float32 in {ranges[name]}" for name, n in scale.items()]
    return f"on the device {', '.join(parts)}"


def inline(values: Mapping[str, object]) -> str:
    """A mapping on one line, or null."""
    items = ", ".join(f"{name}: {value}" for name, value in values.items())
    return f"{{{items}}}" if items else "null"


def write_config(
    project: Project,
    layout: Layout,
    options: PackOptions,
    command: str,
    own_class: str | None,
    old_lines: Sequence[str],
) -> None:
    """Writes conf/data/NAME.yaml; of one that is there only the lines that packing wrote.

    Args:
        old_lines: those that it wrote for the file before.
    """
    path = config_directory(project) / f"{options.name}.yaml"
    of_trial = config_file_of(project, options.name)
    if of_trial.exists() and not path.exists():
        path = of_trial
    if path.exists():
        new_lines = [first_line(layout), pack_line(command)]
        if old_lines and rewrite_lines(path, old_lines, new_lines):
            print(f"  {shown_path(path)} says now what is packed, and how; its other lines stay")
        else:
            print(f"  {shown_path(path)} stays as it is")
        _tell_lacking_lines(project, layout, options, command)
        return
    text = yaml_of(project, layout, options, command, own_class)
    write_whole(path, text)
    print(f"  wrote {shown_path(path)}: look at it. Its scale:")
    print(f"  {scale_meaning(layout, scale_of(layout, options, own_class))}")
    if options.kind == "pairs":
        values = mask_values(layout).get("y")
        n_classes = f" model.n_classes={len(values)}" if values else ""
        print(
            "  next: a trial that gives a class to each pixel, such as that of lab docs own-data:"
        )
        print(f"  lab check trial=segmentation data={options.name}{n_classes}")
    else:
        if options.kind == "table" and not options.label:
            print("  No column is the label y. To name one: the same with --label COLUMN")
        if n_tokens_of(layout):
            print(
                "  next: a model of tokens, with n_tokens: ${data_of:n_tokens}. See: lab docs sequences"
            )
        elif options.kind == "series":
            print(
                "  next: the windows in that file, then a model of them. See: lab docs forecasting"
            )
        else:
            print(f"  next: lab check trial=baseline data={options.name}")


def _tell_lacking_lines(
    project: Project, layout: Layout, options: PackOptions, command: str
) -> None:
    """Says which lines the YAML of a data set, which was there already, should have."""
    file = config_file_of(project, options.name)
    of_trial = file.parent.name == options.name
    settings = section_of_trial(file) if of_trial else read_yaml(file)
    target = read_data_config(project, options.name).target
    if settings.get("pack") and settings["pack"] != pack_text(command):
        print("  Its line `pack` makes another file. Write:")
        print(f"  pack: {json.dumps(pack_text(command), ensure_ascii=False)}")
    fields = settings.get("fields")
    if LABEL in layout.fields and isinstance(fields, list) and LABEL not in fields:
        print("  It reads no label. Write:")
        print(f"  fields: [{', '.join(fields_of_batch(layout, options))}]")
    values = mask_values(layout)
    if values and target == MODULE:
        print(f"  It reads no masks. Write: _target_: {MODULE_OF_PAIRS}")
        print(f"  classes: {inline(values)}")


class RawProgram(TypedDict):
    """A program as it stands in the attribute `made_by` of a data file."""

    path: str
    sha256: str
    text: str | None  # tokens are hidden; None: too long, no text, or secret by its name


def find_programs(sources: Sequence[Source]) -> list[Path]:
    """The programs that lie in the sources; of a file the one of its name next to it, as x.py of x.tar.

    Those of a project's own folder have another purpose.
    """
    found = []
    for source in sources:
        folder = source.path if source.path.is_dir() else source.path.parent
        if (folder / "pyproject.toml").exists():
            continue
        for path in sorted(path for path in folder.iterdir() if path.is_file()):
            is_program = path.suffix.lower() in SUFFIXES or path.name in NAMES
            if is_program and (folder == source.path or path.stem == source.path.stem):
                found.append(path)
    return found


def programs_attr(paths: Sequence[Path]) -> dict[str, str]:
    """The attribute of the file; none without programs."""
    programs = []
    for path in dict.fromkeys(paths):
        try:
            content = path.read_bytes()
        except OSError as error:
            raise DataFileError(
                f"{path} cannot be read: {error.strerror}. It is to be kept with the data file."
            ) from error
        text = None
        is_text = len(content) <= MAX_BYTES and b"\0" not in content
        if is_text and not has_secret_name(path.name):
            text = hide_tokens(content.decode(errors="replace"))
        sha256 = hashlib.sha256(content).hexdigest()
        programs.append(RawProgram(path=os.path.relpath(path), sha256=sha256, text=text))
    return {"made_by": json.dumps(programs, ensure_ascii=False)} if programs else {}


# Which code packs: git's commit of the project, and what was not committed.


def code_version(root: Path) -> dict[str, str]:
    """`git_commit` of the code that runs, and `git_changed`: Python files that differ from it.

    Empty without git. A job runs frozen code, which is a commit of its own.
    """
    if env.SNAPSHOT_COMMIT in os.environ:
        return {"git_commit": os.environ[env.SNAPSHOT_COMMIT]}
    git = Git(root)
    try:
        version = {"git_commit": git("rev-parse", "HEAD")}
        status = git.content("status", "--porcelain", "--no-renames", "--", "src/*.py")
    except GitFailed:
        return {}
    if status:
        lines = status.decode(errors="replace").splitlines()  # HDF5 takes UTF-8 only
        version["git_changed"] = ", ".join(line[3:] for line in lines)
    return version
