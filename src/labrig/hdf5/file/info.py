"""`lab data info`: what a data file holds, and where it fits. `lab data verify`: checks every byte of a data set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import Failed
from ...machine.disk import filesystem_type, free_bytes, lustre_stripes
from ...machine.gpu import gpus
from ...machine.resources import memory_limit_bytes, memory_used_bytes
from ...machine.text_formats import and_more, counted, printable, short
from ...project import Project
from .checksum import fingerprint, sha256_of_hashes, verify_layout
from .errors import DataFileError
from .find import data_files_of, files_of_section, parser_for_one_file
from .groups import FORMS, GROUPS, groups_of_splits
from .hashes import fingerprint_folder
from .joined import read_data_set, read_layouts
from .layout import OFFSETS, Layout
from .tokens import N_TOKENS, n_tokens_of

MAX_CLASSES_SHOWN = 20
USABLE_SHARE = 0.8  # of the free memory, that a file may take
LISTED_BELOW = ("classes", "categories", "vocabulary", "ragged")
ATTRS_NOT_SHOWN = ("format", "n", "complete", "made_by", GROUPS, FORMS)


def info_command(project: Project, args: list[str]) -> None:
    """Prints fields, bytes, splits, classes, provenance, striping, and where the file fits."""
    parser = parser_for_one_file("info", "what a data file holds, and where it fits")
    parser.add_argument(
        "--made-by", action="store_true", help="the texts of the programs that made the raw data"
    )
    options = parser.parse_args(args)
    layout = read_data_set(project, options.name)
    if options.made_by:
        print_program_texts(layout)
        return
    print_content(layout)
    print_classes(layout)
    print_categories(layout)
    print_programs(layout)
    print_origin(layout)
    stripes = lustre_stripes(layout.path)
    if stripes:
        print(f"  lustre stripes: {stripes}")
    print_places(layout.size_bytes)


def fact_of(name: str, section: dict[str, Any]) -> int:
    """What ${data_of:NAME} is in a configuration with this section `data`, such as n_tokens of x."""
    if section.get("path") is None:
        raise DataFileError(f"${{data_of:{name}}} is of data with a `path`, and these have none.")
    files = files_of_section(section)
    facts = facts_of(read_layouts(files, is_whole=isinstance(section["path"], str)))
    if name not in facts:
        told = ", ".join(facts) or "nothing"
        raise DataFileError(f"{files[0]} does not say {name}. It says: {told}")
    return facts[name]


def facts_of(layout: Layout) -> dict[str, int]:
    """What a model may need to know: how many tokens field x has, and how many classes the label."""
    n_tokens, label = n_tokens_of(layout), layout.fields.get("y")
    facts = {N_TOKENS: n_tokens} if n_tokens else {}
    if label is not None and label.dtype.kind in "iu" and len(label.shape) == 1:
        facts["n_classes"] = len(layout.class_names) or int(layout.rows(label)[:].max()) + 1
    return facts


def print_origin(layout: Layout) -> None:
    """Prints where the data are from; of several files a line for each."""
    if len(layout.parts) > 1:
        for part in layout.parts:
            command = printable(part.attrs.get("command", ""))
            print(
                f"  file {part.path.name}: {part.n_samples} samples, sha256 "
                f"{sha256_of_hashes(part)[:12]}, {command}"
            )
        return
    for key, value in layout.attrs.items():
        if key not in ATTRS_NOT_SHOWN:
            print(f"  {printable(key)}: {printable(value)}")


def _lengths(layout: Layout, name: str) -> str:
    """Such as: 3 to 500 values, median 61, 2 empty."""
    lengths = np.diff(layout.rows(layout.arrays[name + OFFSETS])[:])
    n_empty = int((lengths == 0).sum())
    empty = f", {n_empty} empty" if n_empty else ""
    return f"{lengths.min()} to {lengths.max()} values, median {np.median(lengths):g}{empty}"


def print_content(layout: Layout) -> None:
    """Prints samples, bytes, fields, splits and groups."""
    size_MB = layout.size_bytes / 1e6
    disk = filesystem_type(layout.path)
    print(f"{layout.path}: {layout.n_samples} samples, {size_MB:.1f} MB on {disk}")
    for name, array in layout.fields.items():
        shape = "x".join(map(str, array.shape[1:])) or "one number"
        told = ""
        if layout.is_ragged(name):
            shape = "ragged"
            told = "" if "encoding" in array.attrs else f", {_lengths(layout, name)}"
        attrs = [
            f", {printable(key)} {printable(value)}"
            for key, value in array.attrs.items()
            if key not in LISTED_BELOW
        ]
        array_MB = array.n_bytes / 1e6
        print(
            f"  field {printable(name):<10} {array.dtype!s:<8} {shape:<13} {array_MB:9.1f} MB{told}{''.join(attrs)}"
        )
    splits = [f"{printable(name)} {split.n_rows}" for name, split in layout.splits.items()]
    print(f"  splits {', '.join(splits) or 'none'}")
    groups = groups_of_splits(layout)
    if groups:
        n_groups, n_of_split = groups
        of_splits = [f"{printable(name)} {n}" for name, n in n_of_split.items()]
        print(f"  {counted(n_groups, 'group')}: {', '.join(of_splits)}")


def print_classes(layout: Layout) -> None:
    """Prints how many samples each class has, and which classes a split lacks, when the field y is one
    whole number per sample.
    """
    label = layout.fields.get("y")
    if label is None or label.dtype.kind not in "iu" or len(label.shape) != 1:
        return
    texts = layout.class_names
    labels = layout.map(label)
    numbers, counts = np.unique(labels, return_counts=True)
    if not texts and len(numbers) > MAX_CLASSES_SHOWN:
        return  # numbers of something else
    names = [printable(texts[number] if 0 <= number < len(texts) else number) for number in numbers]
    named = dict(zip(names, counts.tolist(), strict=True))
    print(
        f"  {len(named)} classes: {and_more((f'{name} {n}' for name, n in named.items()), MAX_CLASSES_SHOWN)}"
    )
    rarest = min(named, key=lambda name: named[name])
    if len(named) > MAX_CLASSES_SHOWN or named[rarest] == 1:
        print(f"  the rarest: {rarest} {named[rarest]}")
    odd = [name for name in names if name.startswith("_")]
    if odd:
        print(
            f"  classes that begin with _, is each meant as one? {and_more(odd, MAX_CLASSES_SHOWN)}"
        )
    for split, rows in layout.splits.items():
        there = set(labels[layout.map(rows)].tolist())
        lacking = [
            name
            for name, number in zip(names, numbers.tolist(), strict=True)
            if number not in there
        ]
        if lacking:
            names_lacking = and_more(lacking, MAX_CLASSES_SHOWN)
            print(f"  classes that {printable(split)} lacks: {names_lacking}")


def print_categories(layout: Layout) -> None:
    """Prints the numbers that stand for the texts of a table."""
    x = layout.fields.get("x")
    categories = json.loads(x.attrs.get("categories", "{}")) if x else {}
    for column, texts in categories.items():
        codes = (f"{code} {printable(short(text) or '(gap)')}" for code, text in enumerate(texts))
        shown = and_more(codes, MAX_CLASSES_SHOWN)
        print(f"  column {printable(column)} of x, {len(texts)} categories: {shown}")


def print_programs(layout: Layout) -> None:
    """Prints which programs lay with the raw data, or were named as those that made them."""
    for program in programs_of(layout):
        print(f"  program kept with it: {program['path']}, sha256 {program['sha256'][:12]}")


def print_program_texts(layout: Layout) -> None:
    """Prints the programs that made the raw data."""
    programs = programs_of(layout)
    if not programs:
        raise DataFileError(
            f"{layout.path} names no program that made its raw data. Pack it with --made-by PROGRAM"
        )
    for program in programs:
        print(f"# {program['path']}, sha256 {program['sha256']}")
        print(program["text"] if program["text"] is not None else "# (its text was not kept)")


def programs_of(layout: Layout) -> list[dict[str, Any]]:
    """Each program once, though several files may name it."""
    named = [json.loads(part.attrs.get("made_by", "[]")) for part in layout.parts]
    by_hash = {program["sha256"]: program for programs in named for program in programs}
    return [*by_hash.values()]


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


def verify_command(project: Project, args: list[str]) -> None:
    """Checks every byte of a data file; of a folder it prints the hash of all files."""
    parser = parser_for_one_file("verify", "checks every byte of a data file")
    parser.add_argument("--json", action="store_true", help='for scripts: {"sha256": ...}')
    options = parser.parse_args(args)
    files = data_files_of(project, options.name)
    if files[0].is_dir():
        print_folder(files[0], options.json)
        return
    try:
        layout = read_data_set(project, options.name)
        verify_layout(layout)
    except DataFileError as error:
        raise Failed(str(error)) from error
    sha256 = fingerprint(layout, verified=True)["sha256"]
    if options.json:
        print(json.dumps({"sha256": sha256}))
        return
    print(
        f"{layout.path}: all {layout.n_samples} samples are as they were written, sha256 {sha256}"
    )


def print_folder(folder: Path, as_json: bool) -> None:
    """Prints the hash of a folder, which says nothing of damage: compare it with a recorded one."""
    content = fingerprint_folder(folder, cached=False)
    if as_json:
        print(json.dumps({"sha256": content["sha256"]}))
        return
    print(f"{content['path']}: {content['n']} files, sha256 {content['sha256']}")
