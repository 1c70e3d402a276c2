"""JPEG to RGB pixels in one thread: what a worker does for each image of `lab data pack --as encoded`.

Two photographs (scikit-learn's) in the size of ImageNet, in rounds that are interleaved over the
decoders; a rate is images per CPU-second, a ratio the median over the rounds of rate / Pillow's.
Peers: pip install simplejpeg opencv-python-headless. One that is not installed is named and left out.
"""

from __future__ import annotations

import io
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from labrig.hdf5.file.images import decode_image
from PIL import Image, ImageOps
from sklearn.datasets import load_sample_images

N_ROUNDS = 15
N_IMAGES = 20  # a round
STORED = (375, 500)  # height, width
SIZE = (224, 224)
Decoder = Callable[[bytes], np.ndarray]


def encoded_photographs() -> list[bytes]:
    """The two photographs, scaled and cropped to STORED, as JPEG of quality 90."""
    contents = []
    for pixels in load_sample_images().images:
        file = io.BytesIO()
        photograph = ImageOps.fit(Image.fromarray(pixels), STORED[::-1])
        photograph.save(file, "jpeg", quality=90)
        contents.append(file.getvalue())
    return contents


def fitted(pixels: np.ndarray) -> np.ndarray:
    image = Image.fromarray(pixels)
    return np.asarray(ImageOps.fit(image, SIZE[::-1], Image.Resampling.BILINEAR))


def decoders() -> dict[str, dict[str, Decoder]]:
    """The decoders by their names: of all pixels, and of an image that is scaled to SIZE."""
    whole: dict[str, Decoder] = {"Pillow": lambda content: decode_image(content, None)}
    scaled: dict[str, Decoder] = {"Pillow (labrig)": lambda content: decode_image(content, SIZE)}
    if find_spec("simplejpeg"):
        import simplejpeg

        whole["simplejpeg"] = simplejpeg.decode_jpeg
        scaled["simplejpeg, scaled by Pillow"] = lambda content: fitted(
            simplejpeg.decode_jpeg(content)
        )
    if find_spec("cv2"):
        import cv2

        cv2.setNumThreads(1)

        def decode(content: bytes) -> np.ndarray:
            return cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR_RGB)

        def decode_and_scale(content: bytes) -> np.ndarray:
            pixels = decode(content)
            side = min(STORED)
            left = (STORED[1] - side) // 2
            return cv2.resize(pixels[:, left : left + side], SIZE, interpolation=cv2.INTER_AREA)

        whole["OpenCV"] = decode
        scaled["OpenCV, INTER_AREA (other pixels)"] = decode_and_scale
    for name in ("simplejpeg", "cv2"):
        if not find_spec(name):
            print(f"{name} is not installed, so it is left out")
    return {"all pixels": whole, f"scaled to {SIZE[0]}x{SIZE[1]}": scaled}


def rate(decode: Decoder, contents: list[bytes]) -> float:
    """Images per CPU-second."""
    started_s = time.process_time()
    for _ in range(N_IMAGES // len(contents)):
        for content in contents:
            decode(content)
    return N_IMAGES / (time.process_time() - started_s)


def main() -> None:
    contents = encoded_photographs()
    for what, ways in decoders().items():
        rates: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(N_ROUNDS):
            for name, decode in ways.items():
                rates[name].append(rate(decode, contents))
        pillow = next(iter(rates.values()))
        for name, of_name in rates.items():
            ratio = statistics.median(a / b for a, b in zip(of_name, pillow, strict=True))
            per_s = statistics.median(of_name)
            print(f"{what:<20}{name:<36}{per_s:8,.0f} images/CPU-s   {ratio:.2f} of Pillow")


if __name__ == "__main__":
    main()
