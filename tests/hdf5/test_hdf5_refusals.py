"""Raw data and data files that are refused, with what to do."""

import os
from contextlib import nullcontext
from dataclasses import replace

import h5py
import numpy as np
import pytest
from hdf5_packing import packing  # noqa: F401
from labrig.data import DataFileError, H5DataModule, H5Dataset, read_layout, write_data_file
from labrig.errors import LabError
from labrig.hdf5.file import find, hashes
from labrig.hdf5.file import layout as file_layout
from labrig.hdf5.file.checksum import verify_layout
from labrig.hdf5.file.find import find_data_file, read_data_config
from labrig.hdf5.pack import audio as raw_audio
from labrig.hdf5.pack.own_samples import load_data_class
from labrig.hdf5.pack.split import Splitter, read_split_file
from labrig.hdf5.read.field_readers import ImageReader, RaggedReader, build_reader
from labrig.hdf5.read.loader import Loader
from projects import project_in

X, Y = np.arange(60, dtype=np.float32).reshape(20, 3), np.arange(20)
RAGGED = [np.zeros(length, np.uint8) for length in (2, 3, 1)]
SPLITS = {"train": range(15), "test": range(15, 20)}
SHARES = {"train": 1.0}


@pytest.fixture
def path(tmp_path):
    return write_data_file(tmp_path / "a.h5", {"x": X, "y": Y}, SPLITS)


@pytest.fixture
def ragged(tmp_path):
    return write_data_file(tmp_path / "a.h5", {"x": RAGGED}, {"train": range(3)})


def edited(path, edit):
    with h5py.File(path, "r+", libver=("v110", "v110")) as file:
        edit(file)
    return path


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([{"x": X[0]}, {"y": X[0]}], r"sample 1 has the fields \['y'\].*Give all samples the same"),
        ([{"x": X[0]}, {"x": Y[:3]}], "int64.*expected float32.*Convert all to one type"),
        ([{"x": np.array(["a"])}], "Convert it to numbers"),
    ],
)
def test_samples_that_differ(tmp_path, samples, message):
    from labrig.hdf5.pack.collect import collect_fields

    with pytest.raises(DataFileError, match=message):
        collect_fields(tmp_path / "a.h5", tmp_path, samples, on_sample=lambda _: None)


def test_a_name_that_offsets_have(tmp_path):
    with pytest.raises(DataFileError, match=r"this is the name of the offsets of 'x'. Use another"):
        write_data_file(tmp_path / "a.h5", {"x": RAGGED, "x_offsets": np.arange(3)}, {})


def test_a_shape_for_a_field_that_has_one(path):
    with pytest.raises(
        DataFileError, match=r"field 'x' has one shape, .*shapes are for ragged fields"
    ):
        build_reader(read_layout(path), "x", {"x": 3}, "start")


def test_offsets_and_images_that_were_damaged_after_the_check(ragged):
    layout = read_layout(ragged)
    reader = RaggedReader(layout, "x", None, "start")
    reader.__dict__["offsets"] = np.array([0, 2, 1, 6])
    with pytest.raises(DataFileError, match=r"x_offsets are damaged. See: lab data verify"):
        reader.starts_and_lengths(np.array([1]))
    images = ImageReader(layout, "x", (4, 4), "start")
    with pytest.raises(
        DataFileError, match=r"image 2 of field 'x' cannot be decoded.*See: lab data verify"
    ):
        images._decode(b"no image", 2, (0.5, 0.5))


def no_samples(file):
    file.attrs["n"] = 0


def other_offsets(file):
    file["data/x_offsets"][-1] = 5


def offsets_that_go_backwards(file):
    file["data/x_offsets"][1] = 6


DAMAGES = {no_samples: "it holds no samples", other_offsets: "x_offsets does not fit 'x'"}


@pytest.mark.parametrize("edit", DAMAGES)
def test_a_damaged_file_says_how_to_get_it_again(ragged, edit):
    with pytest.raises(
        DataFileError,
        match=f"{DAMAGES[edit]}. Copy the file again, or pack it again: lab data pack a",
    ):
        read_layout(edited(ragged, edit))


def test_offsets_that_go_backwards(ragged, monkeypatch):
    layout = read_layout(edited(ragged, offsets_that_go_backwards))
    monkeypatch.setattr(
        "labrig.hdf5.file.checksum._sha256_of", lambda layout, array, bar: array.sha256
    )
    with pytest.raises(DataFileError, match=r"x_offsets go backwards. Copy the file again"):
        verify_layout(layout)


def test_a_split_outside_of_the_samples(path):
    import hashlib

    def edit(file):
        rows = file["splits/test"]
        rows[-1] = 20
        rows.attrs["sha256"] = hashlib.sha256(rows[:].data).hexdigest()

    with pytest.raises(DataFileError, match=r"split 'test' has rows outside 0\.\.19"):
        read_layout(edited(path, edit))


def test_files_that_are_too_short(path):
    layout = read_layout(path)
    with (
        h5py.File(path, "r") as file,
        pytest.raises(DataFileError, match=r"cut short: /data/x ends at byte .*the file at 100"),
    ):
        file_layout._read_array(path, "x", file["data/x"], 100)
    os.truncate(path, 100)
    with pytest.raises(
        DataFileError, match=r"was cut by .* bytes while it was read. Copy the file again"
    ):
        verify_layout(layout)


def test_a_file_that_is_replaced_while_it_is_opened(path, monkeypatch):
    real = file_layout._check_splits
    other = write_data_file(path.with_name("b.h5"), {"x": X}, {})

    def replace_then_check(layout):
        real(layout)
        os.rename(other, path)

    monkeypatch.setattr(file_layout, "_check_splits", replace_then_check)
    with pytest.raises(
        DataFileError, match=r"is another file now than the one that was opened .*Start again"
    ):
        read_layout(path)


def test_a_worker_gives_the_message_alone(path, monkeypatch):
    loader = Loader(H5Dataset(path, "train"), order=None, num_workers=1)

    def workers():
        raise DataFileError(
            "Caught DataFileError in a worker\nDataFileError: a.h5 is gone. Copy it"
        )
        yield

    loader._workers = workers()
    with pytest.raises(DataFileError, match=r"^a.h5 is gone. Copy it$"):
        next(loader._read_in_workers())


def test_a_data_class_and_its_settings(tmp_path, monkeypatch):
    with pytest.raises(LabError, match=r"H5DataModule has no samples.*--as images"):
        H5DataModule.samples(None)
    with pytest.raises(LabError, match=r"cannot be loaded: .*Write the name of a class of data.py"):
        load_data_class("myproj.data.Digitss")
    project = project_in(tmp_path)
    file = tmp_path / "cats.yaml"
    file.write_text("path: cats.h5\n")
    monkeypatch.setattr(find, "config_file_of", lambda *_: file)
    with pytest.raises(LabError, match=r"cats.yaml has no line for _target_. Add one such as"):
        read_data_config(project, "cats")
    with pytest.raises(
        DataFileError, match=r"cats.h5: No such file. Make it with: lab data pack cats"
    ):
        find_data_file(tmp_path / "cats.h5", [])
    for name in ("answers-of-a-llama.h5", "cells.h5"):  # the first is that of a trial
        (tmp_path / name).touch()
    monkeypatch.setattr(find, "this_project", lambda: project)
    with pytest.raises(DataFileError, match=r"Make it with: lab data pack digits$"):
        find_data_file("digits.h5", [tmp_path])
    (project.source / "conf/data").mkdir(parents=True, exist_ok=True)
    (project.source / "conf/data/cells.yaml").touch()
    with pytest.raises(DataFileError, match=r"pack digits. Or choose other data: data=cells$"):
        find_data_file("digits.h5", [tmp_path])


def test_a_folder_that_cannot_be_read(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("1")
    versions = iter(["1", "2"])
    monkeypatch.setattr(hashes, "version_key", lambda _: next(versions))
    with pytest.raises(
        DataFileError, match=r"changed while it was read. Start again when it rests"
    ):
        hashes.fingerprint_folder(tmp_path, cached=False)
    with pytest.raises(
        DataFileError, match=r"b cannot be read: No such file.*look at its permissions"
    ):
        hashes._hash_contents(tmp_path, ["b"])


def test_sources_that_do_not_fit(tmp_path, pack):
    with pytest.raises(LabError, match=r"--as images needs a source: lab data pack NAME SOURCE"):
        pack("a", "--as", "images")
    (tmp_path / "raw/a.txt").write_text("")
    with pytest.raises(
        DataFileError,
        match=r"is not a directory, and no .tar; expected one with images in a sub-directory per class",
    ):
        pack("a", tmp_path / "raw/a.txt", "--as", "images")


def test_recordings_that_do_not_fit(monkeypatch):
    import io

    import soundfile

    content = io.BytesIO()
    soundfile.write(content, np.zeros((8, 2), np.int16), 8000, format="WAV")
    with pytest.raises(DataFileError, match=r"2 channels, expected 1. Convert it first: ffmpeg"):
        raw_audio._decode(content.getvalue(), "int16", False)
    content = io.BytesIO()
    soundfile.write(content, np.zeros(8, np.int16), 8000, format="WAV")
    monkeypatch.setattr(soundfile.SoundFile, "read", lambda *_, **__: np.zeros(5, np.int16))
    with pytest.raises(DataFileError, match=r"cut short: 5 of 8 values found. Copy it again"):
        raw_audio._decode(content.getvalue(), "int16", False)


def test_splits_that_do_not_fit(tmp_path):
    splitter = Splitter(SHARES, group_pattern="p([0-9])")
    with pytest.raises(
        DataFileError, match=r"--group .* finds nothing in 'cat.png'. Write a regular expression"
    ):
        splitter.add({"key": "cat.png"})
    splitter = Splitter(SHARES, group_pattern=r"p(\d+")
    with pytest.raises(DataFileError, match=r"is no regular expression: missing \)"):
        splitter.add({"key": "p1_cat.png"})
    splitter = Splitter(SHARES)
    splitter.add({"split": "train"})
    splitter.add({})
    with pytest.raises(
        DataFileError, match=r"only 1 of 2 samples have a split. Give all of them one, or none"
    ):
        splitter.arrange(2)
    (tmp_path / "splits.csv").write_text("a,train\na,test\n")
    with pytest.raises(
        DataFileError, match=r"splits.csv:2: found 'a,test', expected `sample,split`"
    ):
        read_split_file(tmp_path / "splits.csv")


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ({"group": []}, r"sample a: group is \[\]\. Give a text or a number"),
        ({"group": None}, r"sample a: group is None\. Give a text"),
        ({"group": float("nan")}, r"sample a: group is nan\. Give a text"),
        (
            {"split": "training"},
            r"sample a: trainings do not read the split 'training'\. Call it train",
        ),
        ({"split": "Val"}, r"read the split 'Val'\. Call it val"),
        ({"split": "train", "group": "p1"}, ""),
        ({"split": "train"}, r"is no column, and finds nothing in 'a'"),
    ],
)
def test_where_a_sample_goes_is_plain_or_refused(sample, message):
    splitter = Splitter({"train": 1.0}, group_pattern=r"p\d")
    if not message:
        splitter.add({"key": "a", **sample})
        assert splitter.all_groups == ["p1"]
        return
    with pytest.raises(DataFileError, match=message):
        splitter.add({"key": "a", **sample})


@pytest.mark.parametrize("keeps_keys", [True, False])
def test_two_samples_of_one_name_are_refused_where_names_are_kept(keeps_keys):
    splitter = Splitter({"train": 1.0}, keeps_keys=keeps_keys)
    splitter.add({"key": "a"})
    with pytest.raises(DataFileError, match="two samples") if keeps_keys else nullcontext():
        splitter.add({"key": "a"})
    assert splitter.n_samples == 2


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_split_file_in_another_encoding_is_refused(tmp_path, encoding):
    """It was a traceback."""
    file = tmp_path / "splits.csv"
    file.write_text("é.png,train\nè.png,val\n", encoding=encoding)
    with pytest.raises(DataFileError, match=r"sample,split` (for each, )?in UTF-8"):
        Splitter(SHARES, split_of_key=read_split_file(file)).add({"key": "é.png"})


def test_a_split_file_shows_how_it_spells_samples():
    splitter = Splitter(SHARES, split_of_key={"./a/0.png": "train"})
    with pytest.raises(DataFileError, match=r"no line for 'a/0\.png', but for '\./a/0\.png'"):
        splitter.add({"key": "a/0.png"})


def test_files_whose_parts_are_something_else(path):
    with h5py.File(path, "r+") as file:
        del file["splits"]
        file["splits"] = np.arange(3)
    with pytest.raises(DataFileError, match=r"/splits is no group. Copy the file again"):
        read_layout(path)


def test_more_samples_than_bytes(path):
    layout = replace(read_layout(path), n_samples=10**12)
    with pytest.raises(DataFileError, match=r"it cannot hold the 1000000000000 samples that it"):
        file_layout._check_fields(layout)
