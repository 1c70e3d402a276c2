"""Reads pairs, such as images and masks; the values of a mask stay exactly as they are."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import require_package
from ..file.errors import DataFileError
from ..file.images import (
    ORIENTATION,
    UPRIGHT,
    Colour,
    Size,
    bits_of,
    on_background,
    open_image,
)
from ..file.parallel import map_in_order
from .merge import MAX_CLASSES, ROW
from .options import PackOptions
from .pair_files import Pair, Pairs, describe_missing, find_pairs
from .samples import DamagedSamples, FilesSeen, RawSamples, UnchangedFiles

Sample = dict[str, np.ndarray]  # by the names of its fields


def read_pairs(options: PackOptions, damaged: DamagedSamples) -> RawSamples:
    """Samples {"x": image (channels, height, width), "y": mask (height, width)}.

    Images are RGB uint8, those of more bits have one channel of their own type. Both are scaled and
    cropped to the size of the options alike; a mask takes the nearest pixel. The attribute `values` of
    a mask lists the different values, once all samples were taken. In a part, each sample has its
    number among all as the field `row`; what is not complete is told by whoever joins the parts.
    """
    require_package("PIL", "reading images", "pillow")
    pairs = find_pairs(options, FilesSeen() if options.part else damaged.files)
    damaged.files_of_sample = len(pairs.fields)
    if ROW in pairs.fields and (options.jobs or options.part):
        raise DataFileError(
            f"{options.sources[0].path} has {ROW!r}, which parts need as a name of their own. Rename "
            "it, or pack without --jobs and --part"
        )
    complete = [pair for pair in pairs.samples if not pair.missing]
    incomplete = [pair for pair in pairs.samples if pair.missing]
    if incomplete and not damaged.skip:
        raise DataFileError(
            f"{len(incomplete)} of {len(pairs.samples)} samples are not complete:\n"
            f"{describe_missing(incomplete)}\nAdd what is missing, or use --skip-damaged."
        )
    if options.part is None:
        for pair in incomplete:
            damaged.leave_out(pair.key, pair.missing)
        if pairs.unread:
            print(f"  columns that are not read: {', '.join(pairs.unread)}")
    attrs: dict[str, dict[str, Any]] = {}
    samples = _samples(pairs, complete, options, damaged, attrs)
    return RawSamples(samples, attrs, files=complete)


def _samples(
    pairs: Pairs,
    complete: Sequence[Pair],
    options: PackOptions,
    damaged: DamagedSamples,
    attrs: dict[str, dict[str, Any]],
) -> Iterator[dict[str, Any]]:
    """The samples, read ahead in threads; at the end `attrs` gets the values of the masks."""
    values = {name: MaskValues() for name in pairs.fields if name not in pairs.images}
    first: tuple[Pair, Sample] | None = None
    part = options.part
    rows = part.of(range(len(complete))) if part else range(len(complete))
    chosen = [complete[row] for row in rows]

    def read(pair: Pair) -> Sample | None:
        return _read_pair(pair, pairs.images, options, damaged)

    for row, pair, sample in zip(rows, chosen, map_in_order(read, chosen), strict=True):
        if sample is None:
            continue
        first = first or (pair, sample)
        for name, array in sample.items():
            _check_form(pair.files[name], array, first[0].files[name], first[1][name])
        for name, seen in values.items():
            seen.add(sample[name])
        yield {"key": pair.key, **pair.placement, **sample} | ({ROW: np.int64(row)} if part else {})
    for name, seen in values.items():
        if seen.classes is not None:
            attrs[name] = {"values": json.dumps(seen.classes)}


class MaskValues:
    """The different values of the masks of one field."""

    def __init__(self) -> None:
        self.different: set[int] | None = set()  # None: they are no classes

    def add(self, mask: np.ndarray) -> None:
        if self.different is None or mask.dtype.kind == "f":
            self.different = None
            return
        self.different.update(np.unique(mask).tolist())
        if len(self.different) > MAX_CLASSES:
            self.different = None

    @property
    def classes(self) -> list[int] | None:
        """The values in their order; None when they are not whole numbers, or too many."""
        return None if self.different is None else sorted(self.different)


def _read_pair(
    pair: Pair, images: Sequence[str], options: PackOptions, damaged: DamagedSamples
) -> Sample | None:
    """The fields of a sample; None when one is damaged and is to be left out."""
    files = UnchangedFiles(list(pair.files.values()))
    sample: Sample = {}
    sides: dict[Path, Size] = {}
    for name, path in pair.files.items():
        with damaged.handle(path, pair.key):
            if name in images:
                array, sides[path] = read_image(path, options.size, options.background)
            else:
                array, sides[path] = read_mask(path, options.size)
            _check_sides(path, sides)
            sample[name] = array
        if name not in sample:
            return None
    files.check()
    return sample


def _check_sides(path: Path, sides: Mapping[Path, Size]) -> None:
    """Raises DataFileError unless the file `path` has as many pixels as its partners."""
    other = next(iter(sides))
    if sides[path] != sides[other]:
        raise DataFileError(
            f"it has {_pixels(sides[path])}, its partner {other} {_pixels(sides[other])}. "
            "Give both one size"
        )


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


def read_image(
    path: Path, size: Size | None, background: Colour | None = None
) -> tuple[np.ndarray, Size]:
    """An image as (channels, height, width), and its height and width in the file.

    It is RGB uint8; of one channel, and as it is, when its pixels have more than 8 bits.
    """
    from PIL import Image, ImageOps  # only data sets of images need it

    encoded = path.read_bytes()
    with open_image(encoded) as image:
        _require_upright(image)
        side = (image.height, image.width)
        is_wide = bits_of(image, encoded) > 8
        if is_wide and len(image.getbands()) > 1:
            raise DataFileError(
                f"its colours have {bits_of(image, encoded)} bits, which Pillow cuts to 8. Save it with "
                "8, or read it in samples() of data.py"
            )
        pixels = image if is_wide else on_background(image, background)
        pixels.load()
        if size:
            pixels = ImageOps.fit(pixels, (size[1], size[0]), Image.Resampling.BILINEAR)
        values = _native(np.asarray(pixels))
        return values[None] if values.ndim == 2 else values.transpose(2, 0, 1), side


def _require_upright(image: Any) -> None:
    orientation = image.getexif().get(ORIENTATION, UPRIGHT)
    if orientation != UPRIGHT:
        raise DataFileError(
            f"its pixels are stored turned (EXIF orientation {orientation}), so an image and its mask "
            "may not fit. Save it upright"
        )


def read_mask(path: Path, size: Size | None) -> tuple[np.ndarray, Size]:
    """A mask (height, width) of the values in its file, and its height and width there.

    Of a palette these are the numbers of the colours. Black and white are 0 and 1 where a pixel has
    one bit.
    """
    from PIL import Image, ImageOps  # only data sets of images need it

    encoded = path.read_bytes()
    with open_image(encoded) as image:
        if image.format in ("JPEG", "MPO"):
            raise DataFileError(
                "it is a JPEG, which changes the values of a mask. Save masks as PNG"
            )
        _require_upright(image)
        side = (image.height, image.width)
        bits = bits_of(image, encoded)
        image.load()
        pixels = (
            ImageOps.fit(image, (size[1], size[0]), Image.Resampling.NEAREST) if size else image
        )
        values = np.asarray(pixels)
        if bits in (2, 4) and image.mode == "L":
            values = values // (255 // (2**bits - 1))  # Pillow spreads grey values over 0..255
        if values.ndim == 3:
            if bits > 8:
                raise DataFileError(f"its channels have {bits} bits. Save it with one channel")
            values = _one_channel(values, image.mode)
        return _native(values.astype(np.uint8) if values.dtype == bool else values), side


def _one_channel(values_HWC: np.ndarray, mode: str) -> np.ndarray:
    """The values of a mask that was saved with channels which are all the same."""
    has_alpha = mode in ("LA", "PA", "RGBA")
    colours = values_HWC[..., :-1] if has_alpha else values_HWC
    if (colours != colours[..., :1]).any():
        raise DataFileError(
            f"it has colours ({mode}), a mask has one number for each pixel. Save the number of the "
            "class in place of its colour, as PNG"
        )
    return colours[..., 0]


def _native(values: np.ndarray) -> np.ndarray:
    """The values in this machine's byte order."""
    return np.ascontiguousarray(values, values.dtype.newbyteorder("="))
