# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Samples from what people have: folders of images or audio, arrays, tables."""

import csv
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..machine.node import in_order
from .dataset import Size, crop, decode
from .file_layout import DataFileError, require

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


MAX_CLASSES = 65536


def open_arrays(sources: Sequence[Path], scratch: Path) -> dict[str, np.ndarray]:
    """Memory maps of .npy files by their stems, and of the members of .npz files, unpacked into `scratch`."""
    arrays = {}
    for source in sources:
        try:
            if source.suffix == ".npz":
                with zipfile.ZipFile(source) as archive:
                    for member in archive.namelist():
                        unpacked = scratch / Path(member).name
                        with archive.open(member) as packed, unpacked.open("wb") as plain:
                            shutil.copyfileobj(packed, plain, 1 << 20)
                        arrays |= open_arrays([unpacked], scratch)
            else:
                arrays[source.stem] = np.load(source, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise DataFileError(f"{source} cannot be read as .npy or .npz of numbers: {error}") from error
    return arrays


def from_table(path: Path, label: str | None, columns: Sequence[str], group: str | None, skipped: Skipped) -> Samples:
    """Samples {"x": float32 of the `columns` (all but label and group), "y": the label} and field attributes.

    A label column of whole numbers is int64, of other numbers float32, of names the class number (sorted
    names).
    """
    first = next(_rows(path), None)
    require(first, f"{path} has no rows.")
    named = [name for name in (label, group, *columns) if name is not None]
    unknown = [name for name in named if name not in first]
    require(not unknown, f"{path} has no column {unknown}. It has: {', '.join(map(str, first))}")
    chosen = list(columns) or [name for name in first if name not in (label, group)]
    classes, kind = _kind_of(path, label) if label else ({}, None)

    def samples() -> Iterator[dict[str, Any]]:
        for number, row in enumerate(_rows(path)):
            name = None
            try:
                sample: dict[str, Any] = {"key": str(number), "x": np.empty(len(chosen), np.float32)}
                for i, name in enumerate(chosen):
                    sample["x"][i] = _number(row[name])
                if label:
                    name = label
                    sample["y"] = np.int64(classes[row[label]]) if classes else kind(_number(row[label]))
            except (ValueError, TypeError, KeyError) as error:
                where = f"{path}: row {number + 1}, column {name!r}: {row.get(name)!r} is no number"
                if skipped is None:
                    raise DataFileError(f"{where}. Correct it, or use --columns or --skip-damaged.") from error
                skipped.append(str(number))
                continue
            yield sample | ({"group": row[group]} if group else {})

    attrs = {"x": {"columns": json.dumps(chosen, ensure_ascii=False)}}
    names = {"y": {"classes": json.dumps(list(classes), ensure_ascii=False)}} if classes else {}
    return samples(), attrs | names


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix in (".parquet", ".pq"):
        try:
            from pyarrow import ArrowException
            from pyarrow.parquet import ParquetFile
        except ImportError as error:
            raise DataFileError("reading Parquet needs pyarrow: pip install pyarrow") from error
        try:
            with ParquetFile(path) as file:
                for batch in file.iter_batches(8192):
                    yield from batch.to_pylist()
        except (ArrowException, OSError) as error:
            raise DataFileError(f"{path} cannot be read: {error}") from error
        return
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            yield from csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ",")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataFileError(f"{path} is no UTF-8 table with a head line: {error}") from error


def _number(text: Any) -> float:
    value = float(text)
    if value != value:
        raise ValueError("NaN")
    return value


def _kind_of(path: Path, label: str) -> tuple[dict[str, int], type | None]:
    """({name: number}, None) for names; ({}, int64 or float32) for numbers."""
    every, kind, named = set(), np.int64, False
    for row in _rows(path):
        if (value := row[label]) in (None, "", "nan", "NaN"):
            continue  # told later, with its row
        try:
            kind = kind if _number(value).is_integer() else np.float32
        except (ValueError, TypeError):
            named = True
        if len(every) <= MAX_CLASSES:
            every.add(value)
    many = named and len(every) > MAX_CLASSES
    require(not many, f"{path}: column {label!r} has over {MAX_CLASSES} different texts: no label.")
    return ({name: i for i, name in enumerate(sorted(every, key=str))}, None) if named else ({}, kind)
