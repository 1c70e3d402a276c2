"""Reads folders of images, as pixels or as the bytes of their files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .images import Size, decode_image
from .raw_folders import class_attrs, open_class_folders, read_class_folders
from .raw_samples import DamagedSamples, RawSamples, require_package
from .raw_sources import SUFFIXES_OF_KIND, Source

SUFFIXES = SUFFIXES_OF_KIND["images"]
CHECKED_SIZE = (8, 8)  # decoding to this small size is quick, and finds damage


def read_images(
    sources: Sequence[Source], size: Size | None, damaged: DamagedSamples
) -> RawSamples:
    """Samples {"x": RGB uint8 (3, height, width), "y": class}.

    Args:
        size: to which images are scaled and cropped; None: all images must have one size."""
    require_package("PIL", "images", "reading images")
    raw = open_class_folders(sources, "images", SUFFIXES)

    def read(path: Path) -> np.ndarray:
        image_HWC = decode_image(path.read_bytes(), size)
        return image_HWC.transpose(2, 0, 1)

    return RawSamples(read_class_folders(raw, "x", read, damaged), class_attrs(raw.classes))


def read_encoded_images(sources: Sequence[Source], damaged: DamagedSamples) -> RawSamples:
    """Samples {"x": uint8, the bytes of an image file, "y": class}, checked by decoding."""
    require_package("PIL", "images", "reading images")
    raw = open_class_folders(sources, "images", SUFFIXES)

    def read(path: Path) -> np.ndarray:
        content = path.read_bytes()
        decode_image(content, CHECKED_SIZE)
        return np.frombuffer(content, np.uint8)

    attrs = {"x": {"encoding": "image", "ragged": 1}} | class_attrs(raw.classes)
    return RawSamples(read_class_folders(raw, "x", read, damaged), attrs)
