"""Every mistake and damage is a DataFileError that names path and remedy; nothing is left."""

import errno
import os
import pickle

import h5py
import hdf5_programs
import numpy as np
import pytest
from labrig.data import DataFileError, H5Dataset, read_layout, verify_file, write_data_file
from labrig.errors import LabError
from torch.utils.data import DataLoader

X, Y = np.arange(60, dtype=np.float32).reshape(20, 3), np.arange(20)
SPLITS = {"train": range(15), "test": range(15, 20)}


@pytest.fixture
def path(tmp_path):
    return write_data_file(tmp_path / "a.h5", {"x": X, "y": Y}, SPLITS)


def edited(path, edit):
    """`path` after edit(file) through h5py."""
    with h5py.File(path, "r+", libver=("v110", "v110")) as file:
        edit(file)
    return path


def test_the_error_is_a_mistake_of_the_user_and_a_value_error():
    assert issubclass(DataFileError, LabError)
    assert issubclass(DataFileError, ValueError)
    assert str(pickle.loads(pickle.dumps(DataFileError("text")))) == "text"


@pytest.mark.parametrize(
    ("fields", "splits", "message"),
    [
        ({"x": X, "y": Y[:19]}, SPLITS, "differ in number of samples"),
        ({"x": X[:0], "y": Y[:0]}, {}, "no samples"),
        ({}, {}, "no samples"),
        ({"x": []}, {}, "no samples"),
        ({"x": np.float32(3)}, {}, "single value"),
        ({"x": X, "y": np.array(["a"] * 20)}, SPLITS, "ragged uint8"),
        ({"x": X, "y": np.array([{}] * 20, object)}, SPLITS, "ragged uint8"),
        ({"x": X, "y": X.astype(np.longdouble)}, SPLITS, "expected numbers"),
        ({"x": [np.zeros(2), np.zeros(3, np.int8)]}, {}, "mixes types"),
        ({"x": X, "y": np.where(Y == 7, np.nan, 1.0)}, SPLITS, "label y of sample 7 is NaN"),
        ({"x/y": X}, {}, "letters, digits"),
        (
            {"x": X},
            {"train": [0, 1], "test": [1, 2]},
            "row 1 is listed twice, in split 'train' and 'test'",
        ),
        ({"x": X}, {"train": [0, 0]}, "twice"),
        ({"x": X}, {"train": [0, 20]}, "0..19"),
        ({"x": X}, {"train": [-1]}, "0..19"),
        ({"x": X}, {"train": [0.5]}, "row numbers"),
    ],
)
def test_write_refuses_and_leaves_nothing(tmp_path, fields, splits, message):
    with pytest.raises(DataFileError, match=message):
        write_data_file(tmp_path / "a.h5", fields, splits)
    assert os.listdir(tmp_path) == []


def test_a_failed_write_leaves_the_old_file(path):
    before = path.read_bytes()
    with pytest.raises(DataFileError):
        write_data_file(path, {"x": X, "y": np.full(20, np.nan)}, SPLITS)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["a.h5"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_named_and_nothing_is_lost(path, monkeypatch, number):
    before = path.read_bytes()

    def full(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataFileError, match=r"full or over its quota.*--to"):
        write_data_file(path, {"x": X + 1, "y": Y}, SPLITS)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["a.h5"]


def test_more_than_the_disk_holds_is_refused_before_writing(tmp_path):
    endless = np.broadcast_to(np.uint8(0), (4, 1 << 50))
    with pytest.raises(DataFileError, match=r"MB needed, .* MB free"):
        write_data_file(tmp_path / "a.h5", {"x": endless}, {})
    assert os.listdir(tmp_path) == []


def test_a_small_disk_that_fills_up_while_writing(tmp_path):
    output = hdf5_programs.run("fill_small_disk", tmp_path / "a.h5")
    assert "answered:" in output
    assert "cannot be written" in output
    assert os.listdir(tmp_path) == []


def test_a_missing_file_names_the_command(tmp_path):
    with pytest.raises(DataFileError, match=r"No such file.*lab data pack cats"):
        read_layout(tmp_path / "cats.h5")
    with pytest.raises(DataFileError, match="not a file"):
        read_layout(tmp_path)


def test_an_unknown_split_or_field_lists_what_there_is(path):
    with pytest.raises(
        DataFileError, match=r"no split 'trian'; did you mean: train. It has: test, train"
    ):
        H5Dataset(path, "trian")
    with pytest.raises(DataFileError, match=r"no field 'z'.*It has: x, y"):
        H5Dataset(path, "train", ("x", "z"))


def foreign(file):
    del file.attrs["format"]


def unfinished(file):
    file.attrs["complete"] = 0


def newer(file):
    file.attrs["version"] = 99


def chunked(file):
    replace(file, chunks=(5, 3))


def compressed(file):
    replace(file, compression="gzip")


def big_endian(file):
    replace(file, dtype=">f4")


def strings(file):
    replace(file, data=np.array([b"a"] * 20, object), dtype=h5py.string_dtype())


def replace(file, data=X, **how):
    del file["data/x"]
    file.create_dataset("data/x", data=data, **how).attrs["sha256"] = "0"


def never_written(file):
    del file["data/x"]
    file.create_dataset("data/x", (20, 3), "f4")


def one_row_less(file):
    replace(file, data=X[:19])


def no_split_group(file):
    del file["splits"]


def shifted_split(file):
    file["splits/train"][...] = np.arange(1, 16)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (foreign, "was not written by `lab data pack`"),
        (unfinished, "never finished"),
        (newer, "copier update"),
        (chunked, "h5repack -l CONTI -f NONE"),
        (compressed, "h5repack -l CONTI -f NONE"),
        (big_endian, "byte order"),
        (strings, "ragged uint8"),
        (never_written, "never written"),
        (one_row_less, "has 19 samples, expected 20"),
        (no_split_group, "/splits is missing"),
        (shifted_split, "does not match its sha256"),
    ],
)
def test_a_file_that_is_not_right_says_what_and_what_to_do(path, edit, message):
    edited(path, edit)
    with pytest.raises(DataFileError, match=message) as error:
        H5Dataset(path, "train")
    assert str(path) in str(error.value)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04" + bytes(5000)])
def test_a_file_of_another_kind_says_how_it_begins(tmp_path, content):
    (tmp_path / "a.h5").write_bytes(content)
    with pytest.raises(DataFileError, match=rf"not an HDF5 file: {len(content)} bytes"):
        read_layout(tmp_path / "a.h5")


def test_an_unreadable_file_says_why(path, monkeypatch):
    def denied(*_, **__):
        raise PermissionError(errno.EACCES, "denied")

    monkeypatch.setattr(h5py, "File", denied)
    with pytest.raises(DataFileError, match="Permission denied"):
        read_layout(path)


def test_a_writer_that_was_killed_left_no_file_to_read(tmp_path):
    with hdf5_programs.start("die_while_writing", tmp_path / "a.h5") as process:
        process.communicate(timeout=120)
    with pytest.raises(DataFileError, match=r"killed|not written by"):
        read_layout(tmp_path / "a.h5")


def test_a_file_that_is_being_written_in_place_says_so(path):
    with hdf5_programs.start("hold_open", path) as writer:
        assert writer.stdout.readline() == "open\n"
        with pytest.raises(DataFileError, match="open for writing"):
            read_layout(path)
        writer.communicate("\n", timeout=60)
    assert read_layout(path).n_samples == 20


def test_an_index_out_of_range_is_an_index_error(path):
    dataset = H5Dataset(path, "train")
    np.testing.assert_array_equal(dataset[-1][0], X[14])
    for index in (15, -16):
        with pytest.raises(IndexError, match="which has 15"):
            dataset[index]
    with pytest.raises(IndexError):
        dataset.__getitems__([0, 15])


def test_nothing_is_a_view_of_the_file(path):
    x, _ = H5Dataset(path, "train").__getitems__([0, 1])
    x += 1
    assert verify_file(path).n_samples == 20


def test_an_error_in_a_worker_is_the_message_and_no_traceback(path):
    dataset = H5Dataset(path, "train")
    os.truncate(path, 3000)
    loader = DataLoader(dataset, batch_size=5, num_workers=1)
    with pytest.raises(DataFileError, match="was cut short while it was read"):
        next(iter(loader))
