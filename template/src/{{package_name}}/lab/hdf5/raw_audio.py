# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Reads folders of recordings, all with one channel and one sample rate."""

import io
from pathlib import Path
from typing import Any

import numpy as np

from .file_errors import DataFileError
from .raw_folders import ClassFolder, class_attrs, open_class_folder, read_class_folder
from .raw_samples import DamagedSamples, RawSamples, require_package

SUFFIXES = (".wav", ".flac", ".ogg", ".aiff")
LARGEST_RIFF_BYTES = 0xFFFFFFFF


def read_audio(root: Path, damaged: DamagedSamples) -> RawSamples:
    """Samples {"wav": int16 (any length,), "y": class} at the sample rate of the first file."""
    require_package("soundfile", "soundfile", "reading audio")
    folder = open_class_folder(root, "audio", SUFFIXES)
    rate_hz = _first_rate_hz(folder)

    def read(path: Path) -> np.ndarray:
        content = path.read_bytes()
        _check_riff_length(content)
        return _decode(content, rate_hz)

    wav_attrs: dict[str, Any] = {"ragged": 1}
    if rate_hz is not None:
        wav_attrs["sample_rate_hz"] = rate_hz
    attrs = {"wav": wav_attrs} | class_attrs(folder.classes)
    return RawSamples(read_class_folder(folder, "wav", read, damaged), attrs)


def _first_rate_hz(folder: ClassFolder) -> int | None:
    """The sample rate of the first file that says one."""
    import soundfile

    for file in folder.files:
        try:
            return soundfile.info(folder.root / file).samplerate
        except soundfile.SoundFileError:
            continue
    return None


def _check_riff_length(content: bytes) -> None:
    """libsndfile reads what is left of a WAV file; its header says how long it was."""
    if content[:4] != b"RIFF":
        return
    expected_bytes = int.from_bytes(content[4:8], "little") + 8
    if len(content) < expected_bytes <= LARGEST_RIFF_BYTES:
        raise DataFileError(f"cut short: {len(content)} bytes found, {expected_bytes} expected")


def _decode(content: bytes, rate_hz: int | None) -> np.ndarray:
    import soundfile

    with soundfile.SoundFile(io.BytesIO(content)) as file:
        if (file.samplerate, file.channels) != (rate_hz, 1):
            raise DataFileError(
                f"{file.samplerate} Hz, {file.channels} channels; "
                f"expected {rate_hz} Hz, 1 channel. Convert it first"
            )
        wav = file.read(dtype="int16")
        if len(wav) != file.frames:
            raise DataFileError(f"cut short: {len(wav)} of {file.frames} values found")
    return wav
