"""Finds pairs of files, such as an image and its mask: by their names in folders, or in a table."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..file.errors import DataFileError
from ..file.names import check_usual_name
from .folders import SPLIT_OF_WORD, is_hidden, walk
from .options import GAPS, PackOptions
from .samples import FilesSeen
from .sources import SUFFIXES_OF_KIND, Source, hint, source_labels
from .table_files import rows_of_texts

# What folders of images and of masks are called; a folder of another name beside them holds masks
IMAGE_WORDS = re.compile("images?|imgs?|inputs?|x", re.IGNORECASE)
MASK_WORDS = re.compile("annotations?|gt|labels?|masks?|segmentations?|targets?|y", re.IGNORECASE)
SUFFIXES = (*SUFFIXES_OF_KIND["images"], ".gif")
LAST_WORD = re.compile(r"[_-][A-Za-z]+$")  # such as _mask


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
    """The pairs of all sources: folders of folders, or tables. `seen` takes what lies in folders."""
    sources = options.sources
    parts = [
        _pairs_of_table(source, options)
        if source.path.suffix.lower() in SUFFIXES_OF_KIND["table"]
        else _pairs_of_folder(source.path, seen)
        for source in sources
    ]
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


# In folders: raw/images/a.png and raw/masks/a.png


def _pairs_of_folder(root: Path, seen: FilesSeen) -> Pairs:
    found = {path.name: walk(path, SUFFIXES) for path in _folders_in(root)}
    folders = {name: of for name, of in found.items() if of[0] and not is_hidden(name)}
    if len(folders) < 2 or all(looks_like_pairs(root / name) for name in folders):
        raise DataFileError(_no_pairs(root, folders))
    field_of = name_fields(str(root), list(folders))
    files_of = {}
    for name, (paths, seen_there) in folders.items():
        seen.add(seen_there)
        files_of[field_of[name]] = _by_stem(root / name, paths)
    images = [field_of[name] for name in folders if IMAGE_WORDS.fullmatch(name)]
    samples = []
    for stem in sorted({stem for files in files_of.values() for stem in files}):
        files = {name: of[stem] for name, of in files_of.items() if stem in of}
        lacking = [name for name in folders if field_of[name] not in files]
        named_by = files.get(images[0], next(iter(files.values())))
        missing = f"{named_by} has no partner in {root / lacking[0]}" if lacking else ""
        samples.append(Pair(named_by.relative_to(root).as_posix(), files, missing))
    return Pairs(samples, list(field_of.values()), images)


def _folders_in(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


def _no_pairs(root: Path, folders: Iterable[str]) -> str:
    """The message for a source without pairs."""
    meaning = other_meaning(root)
    if meaning:
        return f"{root} holds splits, {', '.join(folders)}. Name them: {meaning}"
    near = [folder for folder in (root.parent, *_folders_in(root)) if looks_like_pairs(folder)]
    better = f" {near[0]} holds pairs: type {near[0]} in place of {root}" if near else ""
    return (
        f"{root} holds no pairs: expected folders such as {root}/images and {root}/masks, or a "
        f"table with a column of files for each.{better or hint(root, 'pairs')}"
    )


def _by_stem(folder: Path, paths: Sequence[Path]) -> dict[str, Path]:
    """The files of a folder by what their partners are called too: their path without suffix.

    A last word that all of them have, as in a_mask.png, is left out.
    """
    stems = [path.with_suffix("").as_posix() for path in paths]
    endings = {match[0] if (match := LAST_WORD.search(stem)) else "" for stem in stems}
    ending = endings.pop() if len(endings) == 1 else ""
    if ending:
        print(f"  {folder}: partners are found without {ending}, which ends all names")
    of_stem: dict[str, Path] = {}
    for stem, path in zip(stems, paths, strict=True):
        other = of_stem.setdefault(stem.removesuffix(ending), folder / path)
        if other != folder / path:
            raise DataFileError(f"{other} and {folder / path} have one name. Remove one of them.")
    return of_stem


def name_fields(where: str, names: Sequence[str]) -> dict[str, str]:
    """The field of each folder or column: x for the images, y for the masks, else its own name."""
    images = [name for name in names if IMAGE_WORDS.fullmatch(name)]
    masks = [name for name in names if name not in images]
    if not images or not masks:
        raise DataFileError(
            f"{where} has {', '.join(names)}; expected `images`, and another one such as `masks`. "
            "Rename them, so that it is plain which are the images."
        )
    field_of = {name: name for name in names}
    if len(images) == 1:
        field_of[images[0]] = "x"
    called_masks = [name for name in masks if MASK_WORDS.fullmatch(name)]
    for of_masks in (masks, called_masks):
        if len(of_masks) == 1:
            field_of[of_masks[0]] = "y"
            break
    return field_of


# In a table: a row for each sample, its files below the table's own folder


def _pairs_of_table(source: Source, options: PackOptions) -> Pairs:
    rows = rows_of_texts(source, options)
    if not rows:
        raise DataFileError(f"{source.path} has no rows. Name a table with a head line and rows.")
    columns = []
    for name in rows[0]:
        first = next((row[name] for row in rows if row[name].strip() not in GAPS), "")
        columns += [name] if first.lower().endswith(SUFFIXES) else []
    if len(columns) < 2:
        raise DataFileError(
            f"{source.path} has {len(columns)} columns of image files, expected at least two, such "
            f"as image and mask. Its columns: {', '.join(rows[0])}. Paths count from "
            f"{source.path.parent}."
        )
    field_of = name_fields(str(source.path), columns)
    images = [field_of[name] for name in columns if IMAGE_WORDS.fullmatch(name)]
    column_of = {name: column for column, name in field_of.items()}
    placed_by = {"split": "split", "group": options.group or ""}
    samples = []
    for number, row in enumerate(rows, start=1):  # below the head line
        files = {name: source.path.parent / row[column] for name, column in column_of.items()}
        missing = ""
        for name, file in files.items():
            if row[column_of[name]].strip() in GAPS:
                missing = f"{source.path}: row {number} has no {column_of[name]}"
            elif not file.is_file():
                missing = f"{source.path}: row {number}: there is no {file}"
        placement = {place: row[column] for place, column in placed_by.items() if column in row}
        for place, value in placement.items():
            if value.strip() in GAPS:
                missing = f"{source.path}: row {number} has no {placed_by[place]}"
            elif place == "split":
                check_usual_name(f"{source.path}: row {number}", value)
        samples.append(Pair(row[column_of[images[0]]], files, missing, placement))
    unread = [name for name in rows[0] if name not in (*columns, *placed_by.values())]
    return Pairs(samples, list(field_of.values()), images, unread)


# What a folder is that was meant as one of classes.


def looks_like_pairs(root: Path) -> bool:
    """Whether a folder holds one of images, and one of masks or of files with the same names."""
    folders = {path.name: path for path in _folders_in(root)}
    images = [name for name in folders if IMAGE_WORDS.fullmatch(name)]
    if not images:
        return False
    stems = _stems_in(folders[images[0]])
    return any(
        bool(MASK_WORDS.fullmatch(name)) or len(stems & _stems_in(folder)) > len(stems) / 2
        for name, folder in folders.items()
        if name not in images
    )


def _stems_in(folder: Path) -> set[str]:
    return {path.stem for path in walk(folder, SUFFIXES)[0]}


def other_meaning(root: Path) -> str | None:
    """The words to type for a folder that holds pairs, or splits of pairs; None when it does not."""
    if looks_like_pairs(root):
        return f"{root} --as pairs"
    folders = _folders_in(root)
    splits = [SPLIT_OF_WORD.get(path.name.lower()) for path in folders]
    if "train" not in splits or None in splits or not all(map(looks_like_pairs, folders)):
        return None
    words = [f"{split}={path}" for split, path in zip(splits, folders, strict=True)]
    return f"{' '.join(words)} --as pairs"
