"""Reads folders of recordings, all with one channel, at one sample rate."""

import io
import math
from typing import Any

import numpy as np

from ...errors import require_package
from ..file.errors import DataFileError
from .folders import RawFiles, class_attrs, open_class_folders, read_class_folders
from .options import PackOptions
from .samples import DamagedSamples, RawFile, RawSamples
from .sources import SUFFIXES_OF_KIND

SUFFIXES = SUFFIXES_OF_KIND["audio"]
LARGEST_RIFF_BYTES = 0xFFFFFFFF
INT16 = np.iinfo(np.int16)


def read_audio(options: PackOptions, damaged: DamagedSamples) -> RawSamples:
    """Samples {"wav": int16 (any length,), "y": class}, at the rate of the options; without one at that
    of the first file, and no other is taken.
    """
    resampled_hz = options.rate
    require_package("soundfile", "reading audio", "soundfile scipy")
    if resampled_hz is not None:
        require_package("scipy", "resampling audio", "soundfile scipy")
    raw = open_class_folders(options.sources, "audio", SUFFIXES, options.known.classes)
    rate_hz = resampled_hz or _first_rate_hz(raw)

    def read(file: RawFile) -> np.ndarray:
        content = file.content()
        _check_riff_length(content)
        wav, found_hz = _decode(content)
        if found_hz == rate_hz:
            return wav
        if resampled_hz is None:
            raise DataFileError(
                f"{found_hz} Hz, expected {rate_hz} Hz as the first file has. "
                f"To resample all: --rate {rate_hz}"
            )
        return _resample(wav, found_hz, resampled_hz)

    wav_attrs: dict[str, Any] = {"ragged": 1}
    if rate_hz is not None:
        wav_attrs["sample_rate_hz"] = rate_hz
    attrs = {"wav": wav_attrs} | class_attrs(raw.classes)
    samples = read_class_folders(raw, "wav", read, damaged, options.part)
    return RawSamples(samples, attrs, files=raw.files)


def _first_rate_hz(raw: RawFiles) -> int | None:
    """The sample rate of the first file that says one."""
    import soundfile

    for file in raw.files:
        try:
            return soundfile.info(io.BytesIO(file.content())).samplerate
        except soundfile.SoundFileError:
            continue
    return None


def _check_riff_length(content: bytes) -> None:
    """libsndfile reads what is left of a WAV file; its header says how long it was."""
    if content[:4] != b"RIFF":
        return
    expected_bytes = int.from_bytes(content[4:8], "little") + 8
    if len(content) < expected_bytes <= LARGEST_RIFF_BYTES:
        raise DataFileError(
            f"cut short: {len(content)} bytes found, {expected_bytes} expected. Copy it again"
        )


def _decode(content: bytes) -> tuple[np.ndarray, int]:
    """The values of one channel, int16 (n,), and their rate in Hz."""
    import soundfile

    try:
        opened = soundfile.SoundFile(io.BytesIO(content))
    except soundfile.LibsndfileError as error:
        raise DataFileError(
            f"it is no recording ({error.error_string.rstrip('.')}). Remove it, or use --skip-damaged"
        ) from error
    with opened as file:
        if file.channels != 1:
            raise DataFileError(
                f"{file.channels} channels, expected 1. Convert it first: ffmpeg -i IN -ac 1 OUT"
            )
        wav = file.read(dtype="int16")
        if len(wav) != file.frames:
            raise DataFileError(
                f"cut short: {len(wav)} of {file.frames} values found. Copy it again"
            )
        return wav, file.samplerate


def _resample(wav: np.ndarray, from_hz: int, to_hz: int) -> np.ndarray:
    """The same sound at another rate, int16; what is above half of the new rate is filtered out."""
    from scipy.signal import resample_poly

    divisor = math.gcd(from_hz, to_hz)
    resampled = resample_poly(wav.astype(np.float64), to_hz // divisor, from_hz // divisor)
    return np.clip(np.rint(resampled), INT16.min, INT16.max).astype(np.int16)
