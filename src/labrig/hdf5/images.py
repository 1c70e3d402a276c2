"""Decodes an image to the size asked for."""

import io

import numpy as np

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
        Exception: of Pillow's choice, when the bytes are no image or cut short.
    """
    from PIL import Image, ImageOps  # only data sets of images need it

    with Image.open(io.BytesIO(encoded)) as image:
        height, width = size or (image.height, image.width)
        # a JPEG is decoded at the smallest eighth of its size that still covers this
        image.draft("RGB", (width, height))
        fitted = ImageOps.fit(
            image.convert("RGB"), (width, height), Image.Resampling.BILINEAR, centering=centre
        )
        return np.asarray(fitted)
