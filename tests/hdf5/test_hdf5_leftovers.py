"""What a killed packing left is removed by the next one; a living one's is not."""

import os
import signal
import time

import numpy as np
import pytest
from hdf5_packing import packing  # noqa: F401
from hdf5_programs import start
from labrig.data import DataFileError, verify_file, write_data_file
from labrig.errors import LabError
from labrig.hdf5.pack.collect import collect_fields


def begin_packing(path):
    process = start("pack_many", path, 10**6, 1 << 30)
    assert process.stdout.readline() == "begun\n"
    return process


def test_the_next_packing_removes_what_a_killed_one_left(tmp_path):
    path = write_data_file(tmp_path / "a.h5", {"x": np.arange(9)}, {})
    before = path.read_bytes()
    with begin_packing(path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
    assert len(os.listdir(tmp_path)) == 2
    assert path.read_bytes() == before
    write_data_file(tmp_path / "b.h5", {"x": np.arange(9)}, {})
    assert len(os.listdir(tmp_path)) == 3  # of another file
    write_data_file(path, {"x": np.arange(5)}, {})
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "b.h5"]
    assert verify_file(path).n_samples == 5


@pytest.mark.traceback("Ctrl-C ends a program of the tests")
def test_a_packing_that_lives_is_left_alone(tmp_path):
    path = tmp_path / "a.h5"
    with begin_packing(path) as process:
        write_data_file(path, {"x": np.arange(9)}, {})
        assert len(os.listdir(tmp_path)) == 2
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert os.listdir(tmp_path) == ["a.h5"]


def test_a_directory_of_an_older_version_goes_after_a_minute(tmp_path):
    path = tmp_path / "a.h5"
    for name, age_s in ((".a.h5.old", 3600), (".a.h5.new", 1)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (time.time() - age_s,) * 2)
    write_data_file(path, {"x": np.arange(9)}, {})
    assert sorted(os.listdir(tmp_path)) == [".a.h5.new", "a.h5"]


@pytest.mark.parametrize("name", ["x/../evil", "../evil", "/tmp/evil", "a b", "", ".lock"])
def test_the_name_of_a_field_leads_nowhere(tmp_path, name):
    inside = tmp_path / "scratch"
    inside.mkdir()
    samples = [{name: np.zeros(3)}]
    with pytest.raises(DataFileError, match="a field's name has letters, digits and _ only"):
        collect_fields(tmp_path / "a.h5", inside, samples, on_sample=lambda _: None)
    assert os.listdir(tmp_path) == ["scratch"]
    assert os.listdir(inside) == []


def test_an_array_with_a_slash_in_its_name_is_refused(tmp_path, pack):
    np.savez(tmp_path / "raw/a.npz", **{"x/../evil": np.zeros(3)})
    with pytest.raises(DataFileError, match="a field's name has letters"):
        pack("a", tmp_path / "raw/a.npz", "--as", "arrays")
    assert os.listdir(tmp_path / "data") == []


@pytest.mark.parametrize("name", ["../evil", "a/b", "a.h5", "", ".", "-a"])
def test_the_name_of_a_data_set_leads_nowhere(tmp_path, pack, name):
    np.save(tmp_path / "raw/x.npy", np.zeros(3))
    with pytest.raises(LabError, match="cannot name a data set"):
        pack(*(["--"] if name == "-a" else []), name, tmp_path / "raw/x.npy", "--as", "arrays")
