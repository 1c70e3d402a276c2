"""A data file that is replaced, touched, written to or cut short while it is read."""

import ctypes
import multiprocessing
import os
import pickle
import shutil
import signal
import time

import numpy as np
import pytest
from labrig.data import (
    DataFileError,
    H5DataModule,
    H5Dataset,
    fingerprint,
    verify_file,
    write_data_file,
)
from labrig.hdf5.read import dataset as dataset_module

X, Y = np.arange(60, dtype=np.float32).reshape(20, 3), np.arange(20)
SPLITS = {"train": range(15), "test": range(15, 20)}


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return write_data_file(tmp_path / "data" / "a.h5", {"x": X, "y": Y}, SPLITS)


def pack_again(path):
    write_data_file(path, {"x": X + 1, "y": Y, "z": X}, {"train": range(3)})


def write_in_place(path, offset, content):
    time.sleep(0.01)  # longer than a tick of the clock that files are stamped with
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


@pytest.mark.parametrize("act", [pack_again, os.remove])
def test_packing_again_leaves_whoever_reads_unharmed(path, act):
    dataset = H5Dataset(path, "train")
    act(path)
    np.testing.assert_array_equal(dataset[3][0], X[3])
    assert len(H5Dataset(dataset.layout, "test")) == 5


def read_one(pickled, queue):
    queue.put(pickle.loads(pickled)[3][0].numpy())


def test_a_worker_process_reads_the_file_that_was_opened_too(path):
    dataset = H5Dataset(path, "train")
    pickled = pickle.dumps(dataset)
    pack_again(path)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=read_one, args=(pickled, queue))
    process.start()
    np.testing.assert_array_equal(queue.get(), X[3])
    process.join(timeout=60)
    del dataset
    with pytest.raises(DataFileError, match="another file now"):
        pickle.loads(pickled)


def test_the_hash_is_of_the_file_that_is_read(path):
    recorded = fingerprint(path)["sha256"]
    data = H5DataModule(str(path))
    next(iter(data.train_dataloader()))
    pack_again(path)
    assert data.fingerprint()["sha256"] == recorded
    assert data.fingerprint()["path"] == str(path)
    assert H5DataModule(str(path)).fingerprint()["sha256"] != recorded


def test_a_file_cut_short_in_place_is_a_sentence(path):
    dataset = H5Dataset(path, "train")
    dataset[0]  # the map is made
    os.truncate(path, 3000)
    with pytest.raises(DataFileError, match="was cut short while it was read: 3000 bytes"):
        dataset[0]
    os.truncate(path, 0)
    with pytest.raises(DataFileError, match="was cut short"):
        dataset.layout.map(dataset.layout.field("x"))


def cut_after_the_check(path):
    """What a child does: reads a batch of a file that is cut between the check and the copy."""
    dataset = H5Dataset(path, "train")
    dataset[0]
    dataset_module.verify_if_written_to = lambda layout: os.truncate(path, 0)
    dataset[0]


@pytest.mark.parametrize("another_handler_came_between", [False, True])
def test_a_file_cut_while_a_batch_is_copied_is_a_sentence(
    path, capfd, another_handler_came_between
):
    H5Dataset(path, "train")[0]
    if another_handler_came_between:
        # torch's handler leaves that of the system
        ctypes.CDLL(None).signal(signal.SIGBUS, None)
    process = multiprocessing.get_context("fork").Process(target=cut_after_the_check, args=(path,))
    process.start()
    process.join(timeout=60)
    assert process.exitcode == 1
    assert "cut short while it was read, or its disk failed (SIGBUS)" in capfd.readouterr().err


def test_values_written_in_place_are_never_trained_on(path):
    dataset = H5Dataset(path, "train")
    dataset[0]
    write_in_place(path, dataset.layout.field("x").offset, b"\x01\x02\x03")
    with pytest.raises(DataFileError, match="data/x is damaged"):
        dataset[0]


def test_a_touch_against_a_purge_is_checked_once_and_then_right(path, capfd):
    dataset = H5Dataset(path, "train")
    os.utime(path, (1, 1))
    for _ in range(2):
        np.testing.assert_array_equal(dataset[3][0], X[3])
    assert capfd.readouterr().err.count("Checking its content") == 1


def test_another_file_of_the_same_size_and_time_has_its_own_hash(path, tmp_path):
    first = fingerprint(path)["sha256"]
    stat = os.stat(path)
    other = write_data_file(tmp_path / "other" / "a.h5", {"x": X[::-1].copy(), "y": Y}, SPLITS)
    assert other.stat().st_size == stat.st_size
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    second = fingerprint(other)["sha256"]
    assert second != first
    shutil.copyfile(other, path)  # in place: the inode stays
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert fingerprint(path)["sha256"] == second
    assert verify_file(path).n_samples == 20
