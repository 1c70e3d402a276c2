"""Reads folders and archives of images, as pixels or as the bytes of their files."""

from typing import Any

import numpy as np

from ...errors import require_package
from ..file.images import decode_image
from .folders import class_attrs, open_class_folders, read_class_folders
from .options import PackOptions
from .samples import DamagedSamples, RawFile, RawSamples
from .sources import SUFFIXES_OF_KIND

SUFFIXES = SUFFIXES_OF_KIND["images"]
CHECKED_SIZE = (8, 8)  # decoding to this small size is quick, and finds damage


def read_images(options: PackOptions, damaged: DamagedSamples) -> RawSamples:
    """Samples {"x": RGB uint8 (3, height, width), "y": class}, scaled and cropped to the size of the
    options; without one, all images must have one size.
    """
    require_package("PIL", "reading images", "pillow")
    raw = open_class_folders(options, "images", SUFFIXES, damaged)

    def read(file: RawFile) -> np.ndarray:
        image_HWC = decode_image(file.content(), options.size, background=options.background)
        return image_HWC.transpose(2, 0, 1)

    samples = read_class_folders(raw, "x", read, damaged, options.part)
    return RawSamples(samples, class_attrs(raw.classes), files=raw.files)


def read_encoded_images(options: PackOptions, damaged: DamagedSamples) -> RawSamples:
    """Samples {"x": uint8, the bytes of an image file, "y": class}, checked by decoding."""
    require_package("PIL", "reading images", "pillow")
    raw = open_class_folders(options, "images", SUFFIXES, damaged)

    def read(file: RawFile) -> np.ndarray:
        content = file.content()
        decode_image(content, CHECKED_SIZE, background=options.background)
        return np.frombuffer(content, np.uint8)

    x_attrs: dict[str, Any] = {"encoding": "image", "ragged": 1}
    if options.background:
        x_attrs["background"] = options.background
    attrs = {"x": x_attrs} | class_attrs(raw.classes)
    samples = read_class_folders(raw, "x", read, damaged, options.part)
    return RawSamples(samples, attrs, files=raw.files)
