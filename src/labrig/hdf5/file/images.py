"""Decodes an image to the size asked for; what its file says beyond its pixels is obeyed or refused."""

import io
from typing import Any

import numpy as np

from .errors import DataFileError

WIDE_MODES = ("I", "F")  # Pillow's names begin so when a pixel has more than 8 bits
FORMATS = ("BMP", "GIF", "JPEG", "MPO", "PNG", "TIFF", "WEBP")  # of which the bits are known
PNG = b"\x89PNG\r\n\x1a\n"
PNG_BITS, PNG_KIND = (
    24,
    25,
)  # bytes of the head of a PNG: bits of a value, and what it holds (0: grey)
# tags of a TIFF: the bits of a value of each channel, the channels, and what the values are (1: unsigned)
TIFF_BITS, TIFF_CHANNELS, TIFF_VALUES = 258, 277, 339
# Bits and kind of values (2: with a sign) that Pillow reads as others
READ_WRONG = {(8, 2): "8 bits with a sign", (32, 1): "32 bits without a sign"}
ORIENTATION = 274  # the EXIF tag that says how an image is turned when it is shown
TURNED = range(2, 9)  # 0: it is not known, 1: upright
TURNED_BY_A_QUARTER = range(5, 9)
Size = tuple[int, int]  # height, width
Colour = tuple[int, int, int]  # red, green, blue


def decode_image(
    encoded: bytes,
    size: Size | None,
    centre: tuple[float, float] = (0.5, 0.5),
    background: Colour | None = None,
) -> np.ndarray:
    """An encoded image as RGB uint8 (height, width, 3), turned as it is shown.

    Args:
        encoded: the content of a JPEG, PNG ... file.
        size: it is scaled to just cover this, then cropped to it; None: as it is.
        centre: of the crop, (right, down) in 0..1 of the way.
        background: what is seen through its transparent pixels; None: it has none.
    """
    from PIL import Image, ImageOps  # only data sets of images need it

    with open_image(encoded) as image:
        if bits_of(image, encoded) > 8:
            raise DataFileError(
                f"its pixels have more than 8 bits ({image.mode}), an RGB image has 8. "
                "Scale its values to 0..255 first; or keep them, with samples() in data.py"
            )
        if size:
            height, width = size
            is_turned = orientation_of(image) in TURNED_BY_A_QUARTER
            # a JPEG is decoded at the smallest eighth of its size that still covers this
            image.draft("RGB", (height, width) if is_turned else (width, height))
        if orientation_of(image) in TURNED:
            image = ImageOps.exif_transpose(image)
        is_rgb = image.mode == "RGB" and "transparency" not in image.info
        pixels = (
            image if is_rgb else on_background(image, background)
        )  # to convert RGB is to copy it
        if size is None:
            return np.asarray(pixels)
        fitted = ImageOps.fit(pixels, (width, height), Image.Resampling.BILINEAR, centering=centre)
        return np.asarray(fitted)


def open_image(encoded: bytes) -> Any:
    """One image of Pillow, whose pixels are read when they are used."""
    from PIL import Image, UnidentifiedImageError

    try:
        image = Image.open(io.BytesIO(encoded))
    except UnidentifiedImageError as error:
        raise DataFileError(
            f"it is no image that Pillow reads, it begins with {encoded[:8]!r}. Save it in another "
            "format, remove it, or use --skip-damaged"
        ) from error
    if image.format not in FORMATS:
        raise DataFileError(
            f"it is a {image.format}, expected one of {', '.join(FORMATS)}. Save it so"
        )
    n_images = getattr(image, "n_frames", 1)
    if n_images > 1:
        raise DataFileError(f"it holds {n_images} images, expected one. Save each in its own file")
    if image.format == "TIFF":
        _check_tiff(image)
    return image


def _check_tiff(image: Any) -> None:
    """Raises DataFileError when Pillow would drop channels, or the sign or first bit of its values."""
    n_channels = image.tag_v2.get(TIFF_CHANNELS, 1)
    n_read = len(image.getbands())
    if n_channels > n_read:
        raise DataFileError(
            f"it has {n_channels} channels, of which Pillow reads {n_read}. Read it in samples() of data.py"
        )
    bits = max(image.tag_v2.get(TIFF_BITS, (1,)))
    values = max(image.tag_v2.get(TIFF_VALUES, (1,)))
    if wrong := READ_WRONG.get((bits, values)):
        raise DataFileError(
            f"its values are {wrong}, which Pillow reads as others. Save them as uint8, uint16 or int32"
        )


def bits_of(image: Any, encoded: bytes) -> int:
    """The bits of a value as the file has them: Pillow opens 16-bit RGB as RGB of 8."""
    bits = 32 if image.mode.startswith(WIDE_MODES) else 8
    if encoded.startswith(PNG):
        return encoded[PNG_BITS]
    if image.format == "TIFF":
        return max(image.tag_v2.get(TIFF_BITS, (bits,)))
    return bits


def orientation_of(image: Any) -> int:
    """How it is turned when it is shown; Pillow turns a TIFF by itself."""
    return 0 if image.format == "TIFF" else image.getexif().get(ORIENTATION, 0)


def on_background(image: Any, background: Colour | None) -> Any:
    """An image as RGB; where it is transparent, the background is seen."""
    from PIL import Image

    if not image.has_transparency_data:
        return image.convert("RGB")
    pixels = image.convert("RGBA")
    if pixels.getextrema()[3][0] == 255:
        return pixels.convert("RGB")
    if background is None:
        raise DataFileError(
            "it is transparent in places, and RGB is not. Name the colour that is seen there: "
            "--background white"
        )
    return Image.alpha_composite(Image.new("RGBA", pixels.size, background), pixels).convert("RGB")
