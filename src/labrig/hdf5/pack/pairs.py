"""Reads pairs, such as images and masks, found by their names; the values of a mask stay exactly as they are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import require_package
from ..file.errors import DataFileError
from ..file.images import ORIENTATION, TURNED, Size, bits_of, on_background, open_image
from ..file.names import check_usual_name
from ..file.parallel import map_in_order
from .folders import SPLIT_OF_WORD, is_hidden, walk
from .options import GAPS, PackOptions
from .samples import DamagedSamples, FilesSeen, RawSamples, UnchangedFiles
from .sources import SUFFIXES_OF_KIND, Source, hint, source_labels
from .table_files import rows_of_texts

MAX_SHOWN = 5  # samples that are not complete
MAX_CLASSES = 256  # different values of a mask of classes; one with more numbers its objects
Palette = list[int] | None  # red, green and blue of each number; None: they are greys
Pixels = tuple[np.ndarray, Palette]
Sample = dict[str, Pixels]  # by the names of its fields
Colours = dict[int, tuple[list[int], Path]]  # of each number, and where it was found first
# What folders of images and of masks are called; a folder of another name beside them holds masks
IMAGE_WORDS = re.compile("images?|imgs?|inputs?|x", re.IGNORECASE)
MASK_WORDS = re.compile("annotations?|gt|labels?|masks?|segmentations?|targets?|y", re.IGNORECASE)
SUFFIXES = (*SUFFIXES_OF_KIND["images"], ".gif")
LAST_WORD = re.compile(r"[_-][A-Za-z]+$")  # such as _mask


def read_pairs(options: PackOptions, damaged: DamagedSamples) -> RawSamples:
    """Samples {"x": image (channels, height, width), "y": mask (height, width)}.

    Images are RGB uint8, those of more bits have one channel of their own type. Both are scaled and
    cropped to the size of the options alike; a mask takes the nearest pixel. The attribute `values` of
    a mask lists the different values, once all samples were taken.
    """
    require_package("PIL", "reading images", "pillow")
    pairs = find_pairs(options, damaged.files)
    damaged.files_of_sample = len(pairs.fields)
    complete = [pair for pair in pairs.samples if not pair.missing]
    incomplete = [pair for pair in pairs.samples if pair.missing]
    if incomplete and not damaged.skip:
        listed = "\n".join(f"  {pair.missing}" for pair in incomplete[:MAX_SHOWN])
        more = f"\n  … and {len(incomplete) - MAX_SHOWN} more" if incomplete[MAX_SHOWN:] else ""
        raise DataFileError(
            f"{len(incomplete)} of {len(pairs.samples)} samples are not complete:\n{listed}{more}\n"
            "Add what is missing, or use --skip-damaged."
        )
    for pair in incomplete:
        damaged.leave_out(pair.key, pair.missing)
    if pairs.unread:
        print(f"  columns that are not read: {', '.join(pairs.unread)}")
    attrs: dict[str, dict[str, Any]] = {}
    samples = _samples(pairs, complete, options, damaged, attrs)
    return RawSamples(samples, attrs)


def _samples(
    pairs: Pairs,
    complete: Sequence[Pair],
    options: PackOptions,
    damaged: DamagedSamples,
    attrs: dict[str, dict[str, Any]],
) -> Iterator[dict[str, Any]]:
    """The samples, read ahead in threads; at the end `attrs` gets the values of the masks."""
    # of the masks; None: their values are no classes
    values: dict[str, Colours | None] = {
        name: {} for name in pairs.fields if name not in pairs.images
    }
    first: tuple[Pair, Sample] | None = None
    read = partial(_read_pair, images=pairs.images, options=options, damaged=damaged)
    for pair, sample in zip(complete, map_in_order(read, complete), strict=True):
        if sample is None:
            continue
        first = first or (pair, sample)
        for name, (array, palette) in sample.items():
            _check_form(pair.files[name], array, first[0].files[name], first[1][name][0])
            different = values.get(name)
            if different is None or array.dtype.kind == "f":
                continue
            _add_colours(different, pair.files[name], array, palette)
            if len(different) > MAX_CLASSES:
                values[name] = None
        yield {"key": pair.key, **pair.placement} | {name: of[0] for name, of in sample.items()}
    for name, different in values.items():
        if different:
            attrs[name] = {"values": json.dumps(sorted(different))}


def _read_pair(
    pair: Pair, images: Sequence[str], options: PackOptions, damaged: DamagedSamples
) -> Sample | None:
    """The fields of a sample; None when one is damaged and is to be left out."""
    files = UnchangedFiles(list(pair.files.values()))
    sample: Sample = {}
    sides: dict[Path, Size] = {}
    for name, path in pair.files.items():
        with damaged.handle(path, pair.key):
            found, sides[path] = _read_file(path, name in images, options)
            first, other = next(iter(sides)), next(iter(sides.values()))
            if sides[path] != other:
                raise DataFileError(
                    f"it has {_pixels(sides[path])}, its partner {first} {_pixels(other)}. "
                    "Give both one size"
                )
            sample[name] = found
        if name not in sample:
            return None
    files.check()
    return sample


def _pixels(side: Size) -> str:
    height, width = side
    return f"{width}x{height} pixels"


def _check_form(path: Path, array: np.ndarray, first_path: Path, first: np.ndarray) -> None:
    """Raises DataFileError unless a file gives what that of the first sample gave."""
    if array.dtype != first.dtype:
        raise DataFileError(
            f"{path} gives {array.dtype}, but {first_path} {first.dtype}. Save all in one type."
        )
    if array.shape != first.shape:
        raise DataFileError(
            f"{path} has {_pixels(array.shape[-2:])}, but {first_path} "
            f"{_pixels(first.shape[-2:])}. Give all one size: --size HEIGHT WIDTH"
        )


def _add_colours(known: Colours, path: Path, mask: np.ndarray, palette: Palette) -> None:
    """Raises DataFileError when a number has another colour than before: it means another class."""
    for number in np.unique(mask).tolist():
        colour = palette[3 * number : 3 * number + 3] if palette else [number] * 3
        before, first_path = known.setdefault(number, (colour, path))
        if colour != before:
            raise DataFileError(
                f"{path}: the number {number} has the colour {colour}, but {before} in {first_path}. "
                "Save all masks with one palette, or the number of the class in one grey channel."
            )


def _read_file(path: Path, is_image: bool, options: PackOptions) -> tuple[Pixels, Size]:
    """An image (channels, height, width) or a mask (height, width); and its height and width in the file.

    An image is RGB uint8; of one channel, and as it is, when its pixels have more than 8 bits. A mask
    has the values in its file: of a palette the numbers of the colours, of one bit 0 and 1.
    """
    from PIL import Image, ImageOps  # only data sets of images need it

    encoded = path.read_bytes()
    with open_image(encoded) as image:
        if not is_image and image.format in ("JPEG", "MPO"):
            raise DataFileError(
                "it is a JPEG, which changes the values of a mask. Save masks as PNG"
            )
        orientation = image.getexif().get(ORIENTATION)
        if orientation in TURNED:
            raise DataFileError(
                f"its pixels are stored turned (EXIF orientation {orientation}), so an image and its "
                "mask may not fit. Save it upright"
            )
        side = (image.height, image.width)
        bits = bits_of(image, encoded)
        if is_image and bits > 8 and len(image.getbands()) > 1:
            raise DataFileError(
                f"its colours have {bits} bits, which Pillow cuts to 8. Save it with "
                "8, or read it in samples() of data.py"
            )
        pixels = on_background(image, options.background) if is_image and bits <= 8 else image
        pixels.load()
        if options.size:
            how = Image.Resampling.BILINEAR if is_image else Image.Resampling.NEAREST
            pixels = ImageOps.fit(pixels, (options.size[1], options.size[0]), how)
        values = np.asarray(pixels)
        if not is_image:
            values = _mask_values(values, bits, image.mode)
        elif values.ndim == 2:
            values = values[None]
        else:
            values = values.transpose(2, 0, 1)
        array = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
        return (array, image.getpalette()), side


def _mask_values(values: np.ndarray, bits: int, mode: str) -> np.ndarray:
    """The values of a mask as its file has them; of channels that are all the same, those of one."""
    if bits in (2, 4) and mode == "L":
        values = values // (255 // (2**bits - 1))  # Pillow spreads grey values over 0..255
    if values.ndim == 3:
        if bits > 8:
            raise DataFileError(f"its channels have {bits} bits. Save it with one channel")
        if mode in ("LA", "PA", "RGBA") and (values[..., -1] == 255).all():
            values = values[..., :-1]
        if (values != values[..., :1]).any():
            raise DataFileError(
                f"its channels ({mode}) differ, a mask has one number for each pixel. Save the number of "
                "the class in place of colour and transparency, as PNG"
            )
        values = values[..., 0]
    return values.astype(np.uint8) if values.dtype == bool else values


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
