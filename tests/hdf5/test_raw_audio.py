"""What is packed of a recording is what its own library reads."""

import io
import struct
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import soundfile
from hdf5_packing import all_rows, packing  # noqa: F401
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from labrig.data import DataFileError

SINE = 0.5 * np.sin(np.arange(400) / 9)
REASONS = ("channels", "cut short", "no recording")
# each subtype, its format, and the type that holds every value of it
SUBTYPES = [
    ("PCM_16", "WAV", "int16"),
    ("PCM_16", "FLAC", "int16"),
    ("PCM_U8", "WAV", "float32"),
    ("PCM_24", "WAV", "float32"),
    ("PCM_24", "FLAC", "float32"),
    ("PCM_32", "WAV", "float64"),
    ("FLOAT", "WAV", "float32"),
    ("DOUBLE", "WAV", "float64"),
    ("ULAW", "WAV", "float32"),
    ("VORBIS", "OGG", "float32"),
    ("PCM_16", "AIFF", "int16"),
]


def write(folder, wavs, subtype, container="WAV"):
    (folder / "a").mkdir(parents=True, exist_ok=True)
    for i, wav in enumerate(wavs):
        path = folder / "a" / f"{i}.{container.lower()}"
        soundfile.write(path, wav, 8000, subtype=subtype, format=container)
    return folder


def packed_wavs(layout):
    flat, offsets = all_rows(layout, "wav", "wav_offsets")
    return [flat[first:end] for first, end in pairwise(offsets)]


@pytest.mark.parametrize(("subtype", "container", "dtype"), SUBTYPES)
def test_a_recording_keeps_its_values_in_a_type_that_holds_them(
    tmp_path, pack, subtype, container, dtype
):
    """R01: ten sines in FLOAT became zeros. R02: all others were right."""
    root = write(tmp_path / "raw/r", [SINE * (i + 1) / 10 for i in range(10)], subtype, container)
    layout = pack("r", root, "--as", "audio")
    assert layout.field("wav").dtype == dtype
    own = [soundfile.read(path, dtype=dtype)[0] for path in sorted((root / "a").iterdir())]
    assert {wav.tobytes() for wav in packed_wavs(layout)} == {wav.tobytes() for wav in own}
    if dtype.startswith("float"):
        exact = [soundfile.read(path, dtype="float64")[0] for path in (root / "a").iterdir()]
        for wav in packed_wavs(layout):
            assert (
                any(len(wav) == len(x) and (wav == x).all() for x in exact) or subtype == "VORBIS"
            )
    largest = max(np.abs(wav.astype(np.float64)).max() for wav in packed_wavs(layout))
    assert largest == pytest.approx(0.5 * (32768 if dtype == "int16" else 1), rel=0.1)


def test_a_recording_of_another_type_is_named_and_stored_as_float32_where_asked(tmp_path, pack):
    root = write(tmp_path / "raw/r", [SINE] * 3, "PCM_16")
    soundfile.write(root / "a/9.wav", SINE, 8000, subtype="FLOAT")
    with pytest.raises(DataFileError, match=r"9\.wav.*\(FLOAT\) are float32.*int16.*--float32"):
        pack("r", root, "--as", "audio")
    wavs = packed_wavs(pack("r", root, "--as", "audio", "--float32"))
    assert {wav.dtype.name for wav in wavs} == {"float32"}
    for wav in wavs:
        np.testing.assert_allclose(wav, SINE, atol=1 / 32768)


def test_values_that_resampling_clips_are_counted(tmp_path, pack, capsys):
    square = np.where(np.arange(4000) % 40 < 20, 32767, -32768).astype(np.int16)
    root = write(tmp_path / "raw/r", [square] * 2, "PCM_16")
    pack("r", root, "--as", "audio", "--rate", 6000)
    assert "2 recordings were clipped" in capsys.readouterr().out
    (wav, _) = packed_wavs(pack("r", root, "--as", "audio", "--rate", 6000, "--float32"))
    assert np.abs(wav).max() > 1


@pytest.mark.slow
def test_scipys_own_recordings_are_what_they_are_or_refused(tmp_path, pack):
    n_packed = n_refused = 0
    for path in sorted((Path(scipy.io.__file__).parent / "tests/data").glob("*.wav")):
        root = tmp_path / "raw" / path.stem
        (root / "a").mkdir(parents=True)
        (root / "a/0.wav").write_bytes(path.read_bytes())
        try:
            layout = pack("r", root, "--as", "audio")
        except DataFileError as error:
            n_refused += any(word in str(error) for word in REASONS)
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _, own = scipy.io.wavfile.read(path)
        except ValueError:  # ULAW, which scipy does not know
            continue
        (wav,) = packed_wavs(layout)
        assert own.ndim == 1
        np.testing.assert_allclose(as_fraction(wav), as_fraction(own), rtol=0, atol=1e-9)
        n_packed += 1
    assert (n_packed >= 3, n_refused >= 3) == (True, True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("early-eof", "cut short: 1016 of 17700 bytes found"),
        ("early-eof-no-data", "it is no recording .*No 'data' chunk"),
        ("incomplete-chunk", "it is no recording .*No 'data' chunk"),
    ],
)
def test_a_recording_that_was_cut_short_is_refused(tmp_path, pack, name, message):
    """R03."""
    file = Path(scipy.io.__file__).parent / f"tests/data/test-44100Hz-le-1ch-4bytes-{name}.wav"
    (tmp_path / "raw/r/a").mkdir(parents=True)
    (tmp_path / "raw/r/a/0.wav").write_bytes(file.read_bytes())
    with pytest.raises(DataFileError, match=message):
        pack("r", tmp_path / "raw/r", "--as", "audio")


def encoded(container, n=80000):
    buffer = io.BytesIO()
    soundfile.write(buffer, 0.5 * np.sin(np.arange(n) / 20), 8000, format=container)
    return buffer.getvalue()


def with_outer_size_mended(content):
    return content[:4] + struct.pack("<I", len(content) - 8) + content[8:]


@pytest.mark.parametrize("rest", [0.05, 0.67, 0.9, 0.999])
@pytest.mark.parametrize(
    ("container", "mend"),
    [
        ("OGG", bytes),
        ("AIFF", bytes),
        ("WAV", bytes),
        ("WAV", with_outer_size_mended),
        ("FLAC", bytes),
    ],
)
def test_what_is_left_of_a_recording_is_refused_in_every_format(
    tmp_path, pack, container, mend, rest
):
    """libsndfile reads as many values as are there."""
    root = write(
        tmp_path / "raw/r", [SINE], "VORBIS" if container == "OGG" else "PCM_16", container
    )
    whole = encoded(container)
    for content in (whole, mend(whole[: int(rest * len(whole))])):
        (root / f"a/9.{container.lower()}").write_bytes(content)
        if content is whole:
            assert len(packed_wavs(pack("r", root, "--as", "audio"))) == 2
            continue
        with pytest.raises(
            DataFileError, match=r"a/9\.\w+ cannot be read: (cut|it is no rec|Error : flac)"
        ):
            pack("r", root, "--as", "audio")


@pytest.mark.parametrize("container", ["WAV", "AIFF"])
def test_a_recording_without_a_value_is_refused(tmp_path, pack, container):
    root = write(tmp_path / "raw/r", [SINE, SINE[:0]], "PCM_16", container)
    with pytest.raises(DataFileError, match="cut short: 0 of 0 values found"):
        pack("r", root, "--as", "audio")


def test_a_recording_that_was_written_to_a_pipe_has_no_length(tmp_path, pack):
    root = write(tmp_path / "raw/r", [SINE], "PCM_16")
    content = bytearray((root / "a/0.wav").read_bytes())
    content[4:8] = content[40:44] = b"\xff" * 4
    (root / "a/0.wav").write_bytes(content)
    (wav,) = packed_wavs(pack("r", root, "--as", "audio"))
    assert len(wav) == len(SINE)


def as_fraction(wav):
    if wav.dtype == np.uint8:
        return (wav.astype(np.float64) - 128) / 128
    return wav if wav.dtype.kind == "f" else wav / -float(np.iinfo(wav.dtype).min)


@pytest.mark.slow
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    kind=st.sampled_from(SUBTYPES),
    lengths=st.lists(st.integers(1, 300), min_size=1, max_size=4),
    loud=st.floats(0.001, 1),
    seed=st.integers(0, 99),
)
def test_any_recording(tmp_path_factory, pack, kind, lengths, loud, seed):
    subtype, container, dtype = kind
    rng = np.random.default_rng(seed)
    wavs = [np.clip(rng.normal(0, loud, n), -1, 1) for n in lengths]
    root = write(tmp_path_factory.mktemp("raw"), wavs, subtype, container)
    paths = sorted((root / "a").iterdir())
    own = sorted(soundfile.read(path, dtype=dtype)[0].tobytes() for path in paths)
    assert sorted(w.tobytes() for w in packed_wavs(pack("r", root, "--as", "audio"))) == own


def test_a_wave_file_of_scipy_and_one_with_a_wrong_length(tmp_path, pack):
    (tmp_path / "raw/r/a").mkdir(parents=True)
    scipy.io.wavfile.write(tmp_path / "raw/r/a/0.wav", 8000, SINE.astype(np.float32))
    (wav,) = packed_wavs(pack("r", tmp_path / "raw/r", "--as", "audio"))
    np.testing.assert_array_equal(wav, SINE.astype(np.float32))
    buffer = io.BytesIO()
    soundfile.write(buffer, SINE, 8000, format="WAV", subtype="FLOAT")
    content = bytearray(buffer.getvalue())
    content[4:8] = struct.pack("<I", len(content) + 5000)
    (tmp_path / "raw/r/a/0.wav").write_bytes(content)
    with pytest.raises(DataFileError, match="cut short"):
        pack("r", tmp_path / "raw/r", "--as", "audio")
