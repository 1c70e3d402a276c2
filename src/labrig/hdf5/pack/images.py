"""Reads folders and archives of images, as pixels or as the bytes of their files."""

from typing import Any

import numpy as np

from ...errors import require_package
from ..file.images import decode_image
from .folders import class_attrs, open_class_folders, read_class_folders
from .options import PackOptions
from .samples import DamagedSamples, RawFile, RawSamples
from .sources import SUFFIXES_OF_KIND

CHECKED_SIZE = (8, 8)  # decoding to this small size is quick, and finds damage


def read_images(options: PackOptions, damaged: DamagedSamples) -> RawSamples:
    """Samples {"x": RGB uint8 (3, height, width), "y": class}, scaled and cropped to the size of the
    options; without one, all images must have one size. Of the kind `encoded` x are the bytes of the
    file, uint8, checked by decoding.
    """
    require_package("PIL", "reading images", "pillow")
    raw = open_class_folders(options, "images", SUFFIXES_OF_KIND["images"], damaged)
    is_encoded = options.kind == "encoded"
    size = CHECKED_SIZE if is_encoded else options.size

    def read(file: RawFile) -> np.ndarray:
        content = file.content()
        image_HWC = decode_image(content, size, background=options.background)
        return np.frombuffer(content, np.uint8) if is_encoded else image_HWC.transpose(2, 0, 1)

    attrs: dict[str, dict[str, Any]] = class_attrs(raw.classes)
    if is_encoded:
        background = {"background": options.background} if options.background else {}
        attrs["x"] = {"encoding": "image", "ragged": 1} | background
    return RawSamples(read_class_folders(raw, "x", read, damaged), attrs)
