"""Rows of public reports that no other test names: each as a small input with the values expected of it."""

import fcntl
import json
import unicodedata

import h5py
import numpy as np
import pytest
import soundfile
from hdf5_packing import all_rows, packing  # noqa: F401
from labrig.data import DataFileError, H5Dataset
from PIL import Image


def folder(root, *classes, n=2):
    """Grey images, 4x4, each of one value: that of its class."""
    for value, name in enumerate(classes):
        (root / name).mkdir(parents=True)
        for i in range(n):
            Image.new("L", (4, 4), value).save(root / name / f"{i}.png")
    return root


def test_a_banner_line_above_the_head_is_refused(tmp_path, pack):
    """R06"""
    (tmp_path / "raw/t.csv").write_text("Data of 1970\na,b\n1,2\n3,4\n")
    with pytest.raises(DataFileError, match="row 1 has 2 values, the head line 1"):
        pack("t", tmp_path / "raw/t.csv", "--as", "table")


def test_a_turned_image_and_its_mask_are_refused(tmp_path, pack):
    """R14"""
    exif = Image.Exif()
    exif[274] = 6
    for name in ("images", "masks"):
        (tmp_path / "raw/r" / name).mkdir(parents=True)
        image = Image.new("L", (4, 6), 1)
        image.save(
            tmp_path / "raw/r" / name / "0.png", **{"exif": exif} if name == "images" else {}
        )
    with pytest.raises(DataFileError, match=r"EXIF orientation 6.*Save it upright"):
        pack("r", tmp_path / "raw/r", "--as", "pairs")


def test_files_of_tools_are_no_samples_and_classes_keep_their_names(tmp_path, pack, capsys):
    """R17, R23"""
    root = folder(tmp_path / "raw/r", "1", "10", "2")
    for place in (root, root / "10"):
        (place / ".DS_Store").write_bytes(b"x")
    layout = pack("r", root, "--as", "images")
    x, y = all_rows(layout, "x", "y")
    assert json.loads(layout.arrays["y"].attrs["classes"]) == ["1", "10", "2"]
    np.testing.assert_array_equal(x[:, 0, 0, 0], y)
    assert "files: 8 found, 6 packed, 2 hidden" in capsys.readouterr().out


def test_a_class_that_test_lacks_moves_no_number(tmp_path, pack):
    """R24"""
    folder(tmp_path / "raw/train", "a", "b", "c")
    folder(tmp_path / "raw/test", "a", "c")
    words = [f"{split}={tmp_path}/raw/{split}" for split in ("train", "test")]
    layout = pack("r", *words, "--as", "images")
    (y,) = all_rows(layout, "y")
    assert sorted(y[layout.map(layout.splits["test"])].tolist()) == [0, 0, 2, 2]


def test_names_that_look_alike_are_no_pair(tmp_path, pack):
    """R26"""
    for name, form in (("images", "NFC"), ("masks", "NFD")):
        (tmp_path / "raw/r" / name).mkdir(parents=True)
        stem = unicodedata.normalize(form, "café")
        Image.new("L", (4, 4)).save(tmp_path / "raw/r" / name / f"{stem}.png")
    with pytest.raises(DataFileError, match="2 of 2 samples are not complete"):
        pack("r", tmp_path / "raw/r", "--as", "pairs")


@pytest.mark.parametrize(
    "dtype",
    [
        np.dtype([("a", "i4"), ("b", "f4")]),
        h5py.vlen_dtype(np.int32),
        h5py.string_dtype(),
        np.dtype("V4"),
        h5py.ref_dtype,
    ],
    ids=["compound", "of varying length", "text", "opaque", "reference"],
)
def test_types_that_are_no_numbers_are_refused(tmp_path, pack, dtype):
    """R33"""
    with h5py.File(tmp_path / "raw/a.h5", "w") as file:
        file.create_dataset("x", (3,), dtype)
    with pytest.raises(DataFileError, match="x"):
        pack("a", tmp_path / "raw/a.h5", "--as", "hdf5")


def test_a_locked_file_is_read(tmp_path, pack):
    """R36; R37 is test_hdf5_processes.py"""
    layout = pack("r", folder(tmp_path / "raw/r", "a", "b"), "--as", "images", "--split", "train=1")
    with open(layout.path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        samples = [*H5Dataset(layout.path, "train")]
    assert len(samples) == 4
    assert all(x.unique().tolist() == [y] for x, y in samples)


def test_a_smaller_mask_has_no_other_values(tmp_path, pack):
    """R38"""
    mask = np.random.default_rng(0).choice(np.array([0, 1, 255], np.uint8), (40, 40))
    for name in ("images", "masks"):
        (tmp_path / "raw/r" / name).mkdir(parents=True)
        Image.fromarray(mask).save(tmp_path / "raw/r" / name / "0.png")
    layout = pack("r", tmp_path / "raw/r", "--as", "pairs", "--size", 11, 11)
    assert np.unique(all_rows(layout, "y")[0]).tolist() == [0, 1, 255]


# What is rounded, or too large for float32, is counted and said


@pytest.mark.parametrize(
    ("values", "dtype", "said"),
    [
        ([0.1, 0.3, 0.7], "float32", "it rounds the fractions of 1 of 2 columns, such as 'v'"),
        ([0.5, 0.25, 2.0], "float32", ""),
        ([1e39, 2.5, 0.1], "float64", "v has values beyond 3e38"),
        ([1e-50, 0.5, 1], "float64", "v has values below 1e-45"),
        ([2**24 + 1, 0, 1], "float64", "v has whole numbers that float32 rounds"),
    ],
)
def test_what_float32_would_change_is_said(tmp_path, pack, capsys, values, dtype, said):
    rows = "".join(f"{value!r},{i}\n" for i, value in enumerate(values))
    (tmp_path / "raw/t.csv").write_text(f"v,row\n{rows}")
    layout = pack("t", tmp_path / "raw/t.csv", "--as", "table")
    (x,) = all_rows(layout, "x")
    expected = np.array(values, dtype)[x[:, 1].astype(int)]
    assert x.dtype == dtype
    np.testing.assert_array_equal(x[:, 0], expected)
    out = capsys.readouterr().out
    assert said in out if said else "x is" not in out


def test_recordings_that_float32_rounds_are_counted(tmp_path, pack, capsys):
    (tmp_path / "raw/r/a").mkdir(parents=True)
    for i in range(3):
        wav = np.random.default_rng(i).normal(0, 0.1, 50)
        soundfile.write(
            tmp_path / f"raw/r/a/{i}.wav", wav, 8000, subtype=["DOUBLE", "PCM_16"][i // 2]
        )
    pack("r", tmp_path / "raw/r", "--as", "audio", "--float32")
    assert "2 recordings of more bits were rounded to float32" in capsys.readouterr().out
