"""Reads folders of recordings, all with one channel, at one sample rate."""

import io
import math
import re
from typing import Any, cast

import numpy as np

from ...errors import require_package
from ..file.errors import DataFileError
from .folders import RawFiles, class_attrs, open_class_folders, read_class_folders
from .options import PackOptions
from .samples import DamagedSamples, RawFile, RawSamples
from .sources import SUFFIXES_OF_KIND

# in the log of libsndfile: what a WAV or AIFF file says, and how much is there
CHUNK = re.compile(r"^ *(?:RIFF|data|FORM|SSND) : (\d+) \(should be (\d+)\)$", re.MULTILINE)
NOT_KNOWN = 0xFFFFFFFF  # the length that a program writes to a pipe
INT16 = np.iinfo(np.int16)
# What holds each value of a file as libsndfile names its type; float32 holds those of all others.
TYPE_OF = {"PCM_16": "int16", "PCM_32": "float64", "DOUBLE": "float64", "ALAC_32": "float64"}


def read_audio(options: PackOptions, damaged: DamagedSamples) -> RawSamples:
    """Samples {"wav": (any length,), "y": class}, at the rate of the options; without one at that of the
    first file, and no other is taken.

    16-bit files give int16; all others float32, or float64 where that alone holds their values, with
    -1..1 as the full range. --float32 gives it of all.
    """
    resampled_hz = options.rate
    require_package("soundfile", "reading audio", "soundfile scipy")
    if resampled_hz is not None:
        require_package("scipy", "resampling audio", "soundfile scipy")
    raw = open_class_folders(options, "audio", SUFFIXES_OF_KIND["audio"], damaged)
    first_rate_hz, first_type = _first_rate_and_type(raw)
    rate_hz = resampled_hz or first_rate_hz
    dtype = "float32" if options.float32 else first_type

    def read(file: RawFile) -> np.ndarray:
        content = file.content()
        wav, found_hz = _decode(content, dtype, damaged if options.float32 else None)
        if found_hz == rate_hz:
            return wav
        if resampled_hz is None:
            raise DataFileError(
                f"{found_hz} Hz, expected {rate_hz} Hz as the first file has. "
                f"To resample all: --rate {rate_hz}"
            )
        resampled, n_clipped = _resample(wav, found_hz, resampled_hz)
        if n_clipped:
            damaged.count("recordings were clipped where resampling went over the range of 16 bits")
        return resampled

    rate_attr = {} if rate_hz is None else {"sample_rate_hz": rate_hz}
    attrs = {"wav": {"ragged": 1} | rate_attr} | class_attrs(raw.classes)
    return RawSamples(read_class_folders(raw, "wav", read, damaged), attrs)


def _first_rate_and_type(raw: RawFiles) -> tuple[int | None, str]:
    """The sample rate of the first file that says one, and the type that holds its values."""
    import soundfile

    for file in raw.files:
        try:
            info = soundfile.info(io.BytesIO(file.content()))
        except (soundfile.SoundFileError, OSError):
            continue
        return info.samplerate, TYPE_OF.get(info.subtype, "float32")
    return None, "float32"


def _decode(content: bytes, dtype: str, rounded: DamagedSamples | None) -> tuple[np.ndarray, int]:
    """The values of one channel, (n,) of `dtype`, and their rate in Hz.

    Args:
        rounded: counts the files whose values `dtype` cannot hold; None: they are refused.
    """
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
        _check_whole(content, file.extra_info)
        own_type = TYPE_OF.get(file.subtype, "float32")
        if rounded and own_type == "float64":
            rounded.count("recordings of more bits were rounded to float32")
        if own_type != dtype and not rounded:
            raise DataFileError(
                f"its values ({file.subtype}) are {own_type}, those of the first file {dtype}. Convert "
                "all to one type, or store all as float32: --float32"
            )
        wav = file.read(dtype=cast(Any, dtype))
        if len(wav) != file.frames or not len(wav):
            raise DataFileError(
                f"cut short: {len(wav)} of {file.frames} values found. Copy it again, or remove it"
            )
        return wav, file.samplerate


def _check_whole(content: bytes, log: str) -> None:
    """Raises DataFileError when less is there than was written: libsndfile, whose log it is, reads that."""
    for expected, found in CHUNK.findall(log):
        if int(found) < int(expected) < NOT_KNOWN:
            raise DataFileError(f"cut short: {found} of {expected} bytes found. Copy it again")
    if not content.startswith(b"OggS"):
        return
    page = content[content.rfind(b"OggS") :]
    n_parts = sum(page[26:27])
    n_bytes = 27 + n_parts + sum(page[27 : 27 + n_parts])
    if len(page) < n_bytes or not page[5] & 4:  # 4: the last
        raise DataFileError(
            "cut short: its last page is not whole, or not the end. Copy it again; if nothing is "
            "missing: ffmpeg -i IN -c copy OUT"
        )


def _resample(wav: np.ndarray, from_hz: int, to_hz: int) -> tuple[np.ndarray, int]:
    """The same sound at another rate, in its type, and how many values were outside of that type.

    What is above half of the new rate is filtered out.
    """
    from scipy.signal import resample_poly

    divisor = math.gcd(from_hz, to_hz)
    resampled = resample_poly(wav.astype(np.float64), to_hz // divisor, from_hz // divisor)
    if wav.dtype != np.int16:
        return resampled.astype(wav.dtype), 0
    rounded = np.rint(resampled)
    clipped = np.clip(rounded, INT16.min, INT16.max)
    return clipped.astype(np.int16), int((clipped != rounded).sum())
