"""Decodes an image to the size asked for."""

import io
from typing import Any

import numpy as np

from .errors import DataFileError

WIDE_MODES = ("I", "F")  # Pillow's names begin so when a pixel has more than 8 bits
Size = tuple[int, int]  # height, width


def decode_image(
    encoded: bytes, size: Size | None, centre: tuple[float, float] = (0.5, 0.5)
) -> np.ndarray:
    """An encoded image as RGB uint8 (height, width, 3).

    Args:
        encoded: the content of a JPEG, PNG ... file.
        size: it is scaled to just cover this, then cropped to it; None: as it is.
        centre: of the crop, (right, down) in 0..1 of the way.

    Raises:
        DataFileError: its pixels have more than 8 bits, which Pillow would cut off at 255.
        Exception: of Pillow's choice, when the bytes are no image or cut short.
    """
    from PIL import Image, ImageOps  # only data sets of images need it

    with Image.open(io.BytesIO(encoded)) as image:
        if has_wide_pixels(image):
            raise DataFileError(
                f"its pixels have more than 8 bits ({image.mode}), an RGB image has 8. "
                "Scale its values to 0..255 first; or keep them, with samples() in data.py"
            )
        if size is None:
            return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
        height, width = size
        # a JPEG is decoded at the smallest eighth of its size that still covers this
        image.draft("RGB", (width, height))
        pixels = image if image.mode == "RGB" else image.convert("RGB")  # else it would be copied
        fitted = ImageOps.fit(pixels, (width, height), Image.Resampling.BILINEAR, centering=centre)
        return np.asarray(fitted)


def has_wide_pixels(image: Any) -> bool:
    """Whether a pixel of an image of Pillow has more than 8 bits, as those of microscopes have."""
    return image.mode.startswith(WIDE_MODES)
