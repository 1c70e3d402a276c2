"""Reads pairs, such as images and masks; the values of a mask stay exactly as they are."""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import require_package
from ..file.errors import DataFileError
from ..file.images import ORIENTATION, TURNED, Size, bits_of, on_background, open_image
from ..file.parallel import map_in_order
from .options import PackOptions
from .pair_files import Pair, Pairs, find_pairs
from .samples import DamagedSamples, RawSamples, UnchangedFiles

MAX_SHOWN = 5  # samples that are not complete
MAX_CLASSES = 256  # different values of a mask of classes; one with more numbers its objects
Palette = list[int] | None  # red, green and blue of each number; None: they are greys
Pixels = tuple[np.ndarray, Palette]
Sample = dict[str, Pixels]  # by the names of its fields
Colours = dict[int, tuple[list[int], Path]]  # of each number, and where it was found first


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
