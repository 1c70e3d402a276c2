"""Finds pairs of files, such as an image and its mask: by their names in folders, or in a table."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..file.errors import DataFileError
from .folders import SPLIT_OF_WORD, is_hidden, walk
from .options import GAPS, PackOptions
from .samples import FilesSeen
from .sources import Source, hint, source_labels
from .table_files import rows_of_texts

# What folders of images and of masks are called; a folder of another name beside them holds masks
IMAGE_WORDS = ("image", "images", "img", "imgs", "input", "inputs", "x")
MASK_WORDS = (
    "annotation",
    "annotations",
    "gt",
    "label",
    "labels",
    "mask",
    "masks",
    "segmentation",
    "segmentations",
    "target",
    "targets",
    "y",
)
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
TABLES = (".csv", ".tsv", ".parquet", ".pq")
LAST_WORD = re.compile(r"[_-][A-Za-z]+$")  # such as _mask
MAX_SHOWN = 5


@dataclass(frozen=True)
class Pair:
    """The files of one sample.

    Attributes:
        key: the path of its image below the source, or as a table has it.
        files: of each field.
        missing: why it is not complete; "" when it is.
        placement: its "split" and "group", as far as the source says them.
    """

    key: str
    files: dict[str, Path]
    missing: str = ""
    placement: dict[str, Any] = field(default_factory=dict)

    def version(self) -> list[Any]:
        stats = {name: os.stat(path) for name, path in self.files.items()}
        return [
            self.key,
            *(
                [name, os.path.abspath(self.files[name]), stat.st_size, stat.st_mtime_ns]
                for name, stat in stats.items()
            ),
        ]


@dataclass(frozen=True)
class Pairs:
    """All samples; of the `fields`, `images` hold images, and the others hold masks.

    `unread` are the columns of a table that mean nothing.
    """

    samples: list[Pair]
    fields: list[str]
    images: list[str]
    unread: Sequence[str] = ()


def find_pairs(options: PackOptions, seen: FilesSeen) -> Pairs:
    """The pairs of all sources, which are folders of folders, or tables.

    Args:
        seen: takes what lies in the folders.
    """
    sources = options.sources
    parts = [_pairs_of(source, options, seen) for source in sources]
    first = parts[0]
    samples: list[Pair] = []
    for source, label, part in zip(sources, source_labels(sources), parts, strict=True):
        if (part.fields, part.images) != (first.fields, first.images):
            raise DataFileError(
                f"{source.path} gives the fields {', '.join(part.fields)}, {sources[0].path} "
                f"{', '.join(first.fields)}. Give all sources the same folders or columns."
            )
        for pair in part.samples:
            placement = pair.placement | ({"split": source.split} if source.split else {})
            samples.append(replace(pair, key=f"{label}{pair.key}", placement=placement))
    unread = dict.fromkeys(name for part in parts for name in part.unread)
    return replace(first, samples=samples, unread=[*unread])


def _pairs_of(source: Source, options: PackOptions, seen: FilesSeen) -> Pairs:
    if source.path.suffix.lower() in TABLES:
        return _pairs_of_table(source, options)
    return _pairs_of_folder(source.path, seen)


# In folders: raw/images/a.png and raw/masks/a.png


def _pairs_of_folder(root: Path, seen: FilesSeen) -> Pairs:
    folders = _folders_of(root, seen) if root.is_dir() else {}
    if len(folders) < 2 or all(looks_like_pairs(root / name) for name in folders):
        raise DataFileError(_no_pairs(root, folders))
    field_of = name_fields(str(root), list(folders))
    files_of = {name: _by_stem(root / name, files) for name, files in folders.items()}
    images = _image_fields(field_of)
    samples = []
    for stem in sorted({stem for files in files_of.values() for stem in files}):
        files = {field_of[name]: of[stem] for name, of in files_of.items() if stem in of}
        lacking = [name for name, of in files_of.items() if stem not in of]
        named_by = files.get(images[0], next(iter(files.values())))
        missing = f"{named_by} has no partner in {root / lacking[0]}" if lacking else ""
        samples.append(Pair(named_by.relative_to(root).as_posix(), files, missing))
    return Pairs(samples, list(field_of.values()), images)


def _no_pairs(root: Path, folders: Iterable[str]) -> str:
    """The message for a source without pairs."""
    meaning = other_meaning(root) if root.is_dir() else None
    if meaning:
        return f"{root} holds splits, {', '.join(folders)}. Name them: {meaning}"
    return (
        f"{root} holds no pairs: expected folders such as {root}/images and {root}/masks, or a "
        f"table with a column of files for each.{_near_hint(root) or hint(root, 'pairs')}"
    )


def _near_hint(root: Path) -> str:
    """The end of that message, when the folder above `root`, or one in it, holds pairs."""
    inside = [path for path in sorted(root.iterdir()) if path.is_dir()] if root.is_dir() else []
    near = [folder for folder in (root.parent, *inside) if looks_like_pairs(folder)]
    if not near:
        return ""
    return f" {near[0]} holds pairs: type {near[0]} in place of {root}"


def _folders_of(root: Path, seen: FilesSeen) -> dict[str, list[Path]]:
    """The image files below each folder of `root` that has some."""
    folders = {}
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        found = walk(folder, SUFFIXES)
        files = [folder / path for path in found.paths]
        if files and not is_hidden(folder.name):
            seen.add(found.seen)
            folders[folder.name] = files
    return folders


def is_image_file(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def _by_stem(folder: Path, files: Sequence[Path]) -> dict[str, Path]:
    """The files of a folder by what their partners are called too: their path without suffix.

    A last word that all of them have, as in a_mask.png, is left out.
    """
    stems = [file.relative_to(folder).with_suffix("").as_posix() for file in files]
    endings = {match[0] if (match := LAST_WORD.search(stem)) else "" for stem in stems}
    ending = endings.pop() if len(endings) == 1 else ""
    of_stem: dict[str, Path] = {}
    for stem, file in zip(stems, files, strict=True):
        other = of_stem.setdefault(stem.removesuffix(ending), file)
        if other != file:
            raise DataFileError(f"{other} and {file} have one name. Remove one of them.")
    return of_stem


def name_fields(where: str, names: Sequence[str]) -> dict[str, str]:
    """The field of each folder or column: x for the images, y for the masks, else its own name."""
    images = [name for name in names if name.lower() in IMAGE_WORDS]
    masks = [name for name in names if name not in images]
    if not images or not masks:
        raise DataFileError(
            f"{where} has {', '.join(names)}; expected `images`, and another one such as `masks`. "
            "Rename them, so that it is plain which are the images."
        )
    called_masks = [name for name in masks if name.lower() in MASK_WORDS]
    field_of = {name: name for name in names}
    if len(images) == 1:
        field_of[images[0]] = "x"
    if len(masks) == 1:
        field_of[masks[0]] = "y"
    elif len(called_masks) == 1:
        field_of[called_masks[0]] = "y"
    return field_of


def _image_fields(field_of: dict[str, str]) -> list[str]:
    return [field for name, field in field_of.items() if name.lower() in IMAGE_WORDS]


# In a table: a row for each sample, its files below the table's own folder


def _pairs_of_table(source: Source, options: PackOptions) -> Pairs:
    group = options.group
    rows = [Row(source, i + 1, values) for i, values in enumerate(rows_of_texts(source, options))]
    if not rows:
        raise DataFileError(f"{source.path} has no rows. Name a table with a head line and rows.")
    columns = [name for name in rows[0].values if _is_column_of_files(rows, name)]
    if len(columns) < 2:
        raise DataFileError(
            f"{source.path} has {len(columns)} columns of image files, expected at least two, such "
            f"as image and mask. Its columns: {', '.join(rows[0].values)}. Paths count from "
            f"{source.path.parent}."
        )
    field_of = name_fields(str(source.path), columns)
    images = _image_fields(field_of)
    key_column = next(column for column, name in field_of.items() if name == images[0])
    unread = [name for name in rows[0].values if name not in (*columns, group, "split")]
    samples = [_pair_of_row(row, field_of, key_column, group) for row in rows]
    return Pairs(samples, list(field_of.values()), images, unread)


@dataclass(frozen=True)
class Row:
    """One row of a table: `number` counts from 1 below the head line."""

    source: Source
    number: int
    values: dict[str, str]

    def __str__(self) -> str:
        return f"{self.source.path}: row {self.number}"


def _is_column_of_files(rows: Sequence[Row], name: str) -> bool:
    values = (row.values[name] for row in rows)
    first = next((value for value in values if value.strip() not in GAPS), "")
    return str(first).lower().endswith(SUFFIXES)


def _pair_of_row(row: Row, field_of: dict[str, str], key_column: str, group: str | None) -> Pair:
    folder = row.source.path.parent
    files = {name: folder / str(row.values[column]) for column, name in field_of.items()}
    missing = ""
    for column, name in field_of.items():
        if row.values[column].strip() in GAPS:
            missing = f"{row} has no {column}"
        elif not files[name].is_file():
            missing = f"{row}: there is no {files[name]}"
    placement = {}
    for place, column in (("split", "split"), ("group", group)):
        if column is not None and column in row.values:
            placement[place] = row.values[column]
            if row.values[column].strip() in GAPS:
                missing = f"{row} has no {column}"
    return Pair(str(row.values[key_column]), files, missing, placement)


# What a folder is that was meant as one of classes.


def looks_like_pairs(root: Path) -> bool:
    """Whether a folder holds one of images, and one of masks or of files with the same names."""
    if not root.is_dir():
        return False
    folders = {path.name: path for path in sorted(root.iterdir()) if path.is_dir()}
    images = [name for name in folders if name.lower() in IMAGE_WORDS]
    if not images:
        return False
    stems = _stems_in(folders[images[0]])
    for name, folder in folders.items():
        if name in images:
            continue
        if name.lower() in MASK_WORDS or len(stems & _stems_in(folder)) > len(stems) / 2:
            return True
    return False


def _stems_in(folder: Path) -> set[str]:
    return {path.stem for path in folder.rglob("*") if is_image_file(path)}


def other_meaning(root: Path, kind: str = "pairs") -> str | None:
    """The words to type for a folder whose sub-directories are pairs or splits; None when they are
    neither. `kind`: of what lies in the splits, unless those are pairs.
    """
    if looks_like_pairs(root):
        return f"{root} --as pairs"
    folders = sorted(path for path in root.iterdir() if path.is_dir())
    splits = [SPLIT_OF_WORD.get(path.name.lower()) for path in folders]
    if "train" not in splits or None in splits:
        return None
    words = [f"{split}={path}" for split, path in zip(splits, folders, strict=True)]
    holds_pairs = all(looks_like_pairs(path) for path in folders)
    return f"{' '.join(words)} --as {'pairs' if holds_pairs else kind}"


def describe_missing(pairs: Iterable[Pair]) -> str:
    """A line for each of the first samples that are not complete, and one for the others."""
    lines = [f"  {pair.missing}" for pair in pairs if pair.missing]
    more = [f"  … and {len(lines) - MAX_SHOWN} more"] if len(lines) > MAX_SHOWN else []
    return "\n".join(lines[:MAX_SHOWN] + more)
