# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Samples from folders of images or recordings, one file a sample, one sub-directory a class."""

import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from .file_layout import DataFileError, require
from .gather import Size, crop, decode
from .parallel import in_order

SUFFIXES = {
    "images": (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff"),
    "audio": (".wav", ".flac", ".ogg", ".aiff"),
}
Samples = tuple[Iterator[dict[str, Any]], dict[str, dict[str, Any]]]  # and the attributes of their fields
Skipped = list[str] | None  # where to note what was left out; None: nothing may be


def from_images(root: Path, size: Size | None, encoded: bool, skipped: Skipped) -> Samples:
    """Samples {"x": image, "y": class} and the attributes of their fields.

    x is RGB uint8 (3, height, width), scaled to cover `size` and cropped to it; with `encoded` the file's
    bytes as they are, checked by decoding. Without `size` all images must have one size.
    """

    require(find_spec("PIL"), "reading images needs Pillow: pip install pillow")

    def read(path: Path) -> np.ndarray:
        content = path.read_bytes()
        image_HWC = decode(content, (8, 8) if encoded else size)
        if encoded:
            return np.frombuffer(content, np.uint8)
        return (crop(image_HWC, size) if size else image_HWC).transpose(2, 0, 1)

    return _samples(root, "images", "x", read, {"encoding": "image", "ragged": 1} if encoded else {}, skipped)


def from_audio(root: Path, skipped: Skipped) -> Samples:
    """Samples {"wav": int16 of any length, "y": class, when there are sub-directories}, all of one sample
    rate."""
    try:
        import soundfile
    except ImportError as error:
        raise DataFileError("reading audio needs soundfile: pip install soundfile") from error
    first = next((path for path in sorted(root.rglob("*")) if path.suffix.lower() in SUFFIXES["audio"]), None)
    rate_hz = soundfile.info(first).samplerate if first else 0

    def read(path: Path) -> np.ndarray:
        head, size = path.open("rb").read(8), path.stat().st_size
        riff = int.from_bytes(head[4:], "little") + 8 if head[:4] == b"RIFF" else 0
        require(riff <= size or riff > 0xFFFFFFFF, f"cut short: {size} bytes found, {riff} expected")
        with soundfile.SoundFile(path) as file:
            found = f"{file.samplerate} Hz, {file.channels} channels; expected {rate_hz} Hz, 1 channel"
            require((file.samplerate, file.channels) == (rate_hz, 1), f"{found}. Convert it first")
            wav = file.read(dtype="int16")
            require(len(wav) == file.frames, f"cut short: {len(wav)} of {file.frames} values found")
        return wav

    return _samples(root, "audio", "wav", read, {"sample_rate_hz": rate_hz, "ragged": 1}, skipped)


def _samples(
    root: Path, kind: str, field: str, read: Callable[[Path], np.ndarray], attrs: dict, skipped: Skipped
) -> Samples:
    require(root.is_dir(), f"{root} is no directory; expected one with {kind} in a sub-directory per class.")
    suffixes = SUFFIXES[kind]
    files = sorted(path.relative_to(root) for path in root.rglob("*") if path.suffix.lower() in suffixes)
    require(files, f"{root} has no {kind} ({', '.join(suffixes)}) in it.")
    classes = sorted({file.parts[0] for file in files if len(file.parts) > 1})
    loose = next((file for file in files if classes and len(file.parts) == 1), None)
    require(not loose, f"{root / str(loose)} is in no sub-directory, others are; a sub-directory is a class.")
    empty = sorted({place.name for place in root.iterdir() if place.is_dir()} - set(classes))
    require(not empty, f"{root} has classes without {kind}: {', '.join(empty)}. Remove them, or fill them.")
    number_of = {name: np.int64(number) for number, name in enumerate(classes)}

    def one(file: Path) -> dict[str, Any] | None:
        before = (root / file).stat()
        try:
            value = read(root / file)
        except Exception as error:  # whatever a decoder raises for a damaged file
            if skipped is None:
                what = f"{root / file} cannot be read: {error}"
                raise DataFileError(f"{what}. Repair it, or use --skip-damaged.") from error
            skipped.append(str(file))
            return None
        after = (root / file).stat()
        same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
        require(same, f"{root / file} changed while it was packed. Pack again when nothing writes to it.")
        return {"key": file.as_posix(), field: value} | ({"y": number_of[file.parts[0]]} if classes else {})

    label = {"y": {"classes": json.dumps(classes, ensure_ascii=False)}} if classes else {}
    return (sample for sample in in_order(one, files) if sample), {field: attrs} | label
