# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Raw data that can be packed: folders of images and audio, arrays, tables."""

import csv
import io
import json
import zipfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from .checksum import key_of
from .file_layout import DataFileError, require
from .parallel import map_in_order

Size = tuple[int, int]  # height, width
Samples = tuple[
    Iterator[dict[str, Any]], dict[str, dict[str, Any]]
]  # and the attributes of their fields
Skipped = list[str] | None  # where to note what was left out; None: nothing may be
SUFFIXES = {
    "images": (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff"),
    "audio": (".wav", ".flac", ".ogg", ".aiff"),
}
MAX_CLASSES = 65536


def require_package(module: str, package: str, work: str) -> None:
    require(find_spec(module), f"{work} needs {package}: pip install {package}")


@contextmanager
def report_damage(where: str, key: str, skipped: Skipped) -> Iterator[None]:
    """What is raised inside is told, with `where` in front; or noted by its `key`, when samples may be skipped."""
    try:
        yield
    except Exception as error:  # whatever a decoder raises for a damaged file
        if skipped is None:
            raise DataFileError(f"{where}{error}. Repair it, or use --skip-damaged.") from error
        skipped.append(key)


def detect_changes(files: Sequence[Path]) -> Callable[[], None]:
    """A check that these files are as they are now."""
    before = [key_of(file) for file in files]

    def check() -> None:
        changed = f"{', '.join(map(str, files))} changed while it was packed"
        require(
            [key_of(file) for file in files] == before,
            f"{changed}. Pack again when nothing writes to it.",
        )

    return check


def from_images(root: Path, options: Namespace, skipped: Skipped) -> Samples:
    """Samples {"x": image, "y": class} and the attributes of their fields.

    x is RGB uint8 (3, height, width), scaled to cover `options.size` and cropped to it; of the kind `encoded` the file's
    bytes as they are, checked by decoding. Without a size all images must have one size.
    """
    require_package("PIL", "pillow", "reading images")
    encoded = options.kind == "encoded"

    def read(path: Path) -> np.ndarray:
        content = path.read_bytes()
        image_HWC = decode_image(content, (8, 8) if encoded else options.size)
        return np.frombuffer(content, np.uint8) if encoded else image_HWC.transpose(2, 0, 1)

    return _from_folder(
        root, "images", "x", read, {"encoding": "image", "ragged": 1} if encoded else {}, skipped
    )


def decode_image(
    encoded: bytes, size: Size | None, centre: Sequence[float] = (0.5, 0.5)
) -> np.ndarray:
    """An encoded image as RGB uint8 (height, width, 3), scaled to just cover `size` (height, width) and cropped to it,
    `centre` (right, down) in 0..1 of the way.

    Raises:
        Exception: of Pillow's choice, when the bytes are no image or cut short.
    """
    from PIL import Image, ImageOps  # only data sets of images need it

    with Image.open(io.BytesIO(encoded)) as image:
        size = size or (image.height, image.width)
        image.draft(
            "RGB", size[::-1]
        )  # a JPEG is decoded at the smallest eighth that still covers it
        return np.asarray(
            ImageOps.fit(
                image.convert("RGB"), size[::-1], Image.Resampling.BILINEAR, centering=centre
            )
        )


def from_audio(root: Path, options: Namespace, skipped: Skipped) -> Samples:
    """Samples {"wav": int16 of any length, "y": class, when there are sub-directories}, all of one sample rate."""
    require_package("soundfile", "soundfile", "reading audio")
    import soundfile

    attrs = {"ragged": 1}

    def read(path: Path) -> np.ndarray:
        content = path.read_bytes()
        riff = int.from_bytes(content[4:8], "little") + 8 if content[:4] == b"RIFF" else 0
        require(
            riff <= len(content) or riff > 0xFFFFFFFF,
            f"cut short: {len(content)} bytes found, {riff} expected",
        )
        with soundfile.SoundFile(io.BytesIO(content)) as file:
            rate_hz = attrs.setdefault("sample_rate_hz", file.samplerate)  # of the first file
            found = (
                f"{file.samplerate} Hz, {file.channels} channels; expected {rate_hz} Hz, 1 channel"
            )
            require((file.samplerate, file.channels) == (rate_hz, 1), f"{found}. Convert it first")
            wav = file.read(dtype="int16")
            require(len(wav) == file.frames, f"cut short: {len(wav)} of {file.frames} values found")
        return wav

    return _from_folder(root, "audio", "wav", read, attrs, skipped)


def _from_folder(
    root: Path,
    kind: str,
    field: str,
    read: Callable[[Path], np.ndarray],
    attrs: dict,
    skipped: Skipped,
) -> Samples:
    require(
        root.is_dir(),
        f"{root} is no directory; expected one with {kind} in a sub-directory per class.",
    )
    files = sorted(
        path.relative_to(root) for path in root.rglob("*") if path.suffix.lower() in SUFFIXES[kind]
    )
    require(files, f"{root} has no {kind} ({', '.join(SUFFIXES[kind])}) in it.")
    classes = sorted({file.parts[0] for file in files if len(file.parts) > 1})
    loose = next((file for file in files if classes and len(file.parts) == 1), None)
    require(
        not loose,
        f"{root / str(loose)} is in no sub-directory, others are; a sub-directory is a class.",
    )
    empty = sorted({place.name for place in root.iterdir() if place.is_dir()} - set(classes))
    require(
        not empty,
        f"{root} has classes without {kind}: {', '.join(empty)}. Remove them, or fill them.",
    )
    number_of = {name: np.int64(number) for number, name in enumerate(classes)}

    def one(file: Path) -> dict[str, Any]:
        sample, check = {}, detect_changes([root / file])
        with report_damage(f"{root / file} cannot be read: ", file.as_posix(), skipped):
            sample = {"key": file.as_posix(), field: read(root / file)}
        check()
        return sample | ({"y": number_of[file.parts[0]]} if sample and classes else {})

    return filter(None, map_in_order(one, files)), {field: attrs} | _class_names(classes)


def _class_names(names: Sequence[str]) -> dict[str, dict[str, str]]:
    return {"y": {"classes": json.dumps(names, ensure_ascii=False)}} if names else {}


def open_arrays(sources: Sequence[Path], scratch: Path) -> dict[str, np.ndarray]:
    """Memory maps of .npy files by their stems, and of the members of .npz files, unpacked into `scratch`."""
    arrays = {}
    for source in sources:
        try:
            if source.suffix == ".npz":
                with zipfile.ZipFile(source) as archive:
                    members = [
                        Path(archive.extract(member, scratch)) for member in archive.namelist()
                    ]
                arrays |= open_arrays(members, scratch)
            else:
                arrays[source.stem] = np.load(source, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise DataFileError(
                f"{source} cannot be read as .npy or .npz of numbers: {error}"
            ) from error
    return arrays


def from_table(path: Path, options: Namespace, skipped: Skipped) -> Samples:
    """Samples {"x": float32 of the columns (default: all but label and group), "y": the label} and field attributes.

    A label column of whole numbers is int64, of other numbers float32, of names the class number (sorted names).
    """
    label, group = options.label, options.group
    first = next(_rows(path), None)
    require(first, f"{path} has no rows.")
    unknown = [
        name for name in (label, group, *options.columns) if name is not None and name not in first
    ]
    require(not unknown, f"{path} has no column {unknown}. It has: {', '.join(map(str, first))}")
    chosen = options.columns or [name for name in first if name not in (label, group)]
    classes, kind = _labels(path, label) if label else ({}, np.int64)

    def samples() -> Iterator[dict[str, Any]]:
        for number, row in enumerate(_rows(path)):
            with report_damage(f"{path}: row {number + 1}, ", str(number), skipped):
                sample = {
                    "key": str(number),
                    "x": np.array([_number(row, name) for name in chosen], np.float32),
                }
                if label:
                    sample["y"] = kind(
                        classes[row[label]] if row[label] in classes else _number(row, label)
                    )
                yield sample | ({"group": row[group]} if group else {})

    return samples(), {"x": {"columns": json.dumps(chosen, ensure_ascii=False)}} | _class_names(
        list(classes)
    )


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        if path.suffix in (".parquet", ".pq"):
            require_package("pyarrow", "pyarrow", "reading Parquet")
            from pyarrow.parquet import ParquetFile

            with ParquetFile(path) as file:
                for batch in file.iter_batches(8192):
                    yield from batch.to_pylist()
        else:
            with path.open(newline="", encoding="utf-8-sig") as file:
                yield from csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ",")
    except (
        OSError,
        ValueError,
        csv.Error,
    ) as error:  # a damaged Parquet file is a ValueError, and so is no UTF-8
        raise DataFileError(
            f"{path} cannot be read as a table with a head line: {error}"
        ) from error


def _number(row: Mapping[str, Any], name: str) -> float:
    with suppress(ValueError, TypeError, KeyError):
        if (value := float(row[name])) == value:  # which NaN is not
            return value
    raise DataFileError(
        f"column {name!r}: {row.get(name)!r} is no number; correct it, or choose other --columns"
    )


def _labels(path: Path, label: str) -> tuple[dict[str, int], type]:
    """({name: number}, int64) of a column of names; ({}, int64 or float32) of numbers."""

    def rows() -> Iterator[dict[str, Any]]:  # a hole is told later, with its row
        return (row for row in _rows(path) if str(row[label]) not in ("", "None", "nan", "NaN"))

    try:
        whole = {_number(row, label).is_integer() for row in rows()}
        return {}, np.float32 if False in whole else np.int64
    except DataFileError:
        names = sorted({row[label] for row in rows()}, key=str)
    many = f"column {label!r} has {len(names)} different texts, over {MAX_CLASSES}: no label"
    require(len(names) <= MAX_CLASSES, f"{path}: {many}. Choose another, or leave it out.")
    return {name: number for number, name in enumerate(names)}, np.int64


READERS = {"images": from_images, "encoded": from_images, "audio": from_audio, "table": from_table}
