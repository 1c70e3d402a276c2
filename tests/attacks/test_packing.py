"""What is typed to `lab data pack`: refused in words, before the file that is there loses a byte."""

import io
import os
import warnings
import zipfile

import h5py
import numpy as np
import pytest
from labrig.data import DataFileError, verify_file, write_data_file
from labrig.errors import LabError
from labrig.hdf5.pack.split import Splitter

pytest_plugins = "hdf5_packing"
X, Y = np.arange(60, dtype=np.float32).reshape(20, 3), np.arange(20)


@pytest.fixture
def arrays(tmp_path, pack):
    """A source of arrays, and data/arr.h5 made of it."""
    source = tmp_path / "raw/a.npz"
    np.savez(source, x=X, y=Y)
    pack("arr", source, "--as", "arrays")
    return source


SPLITS = {
    "a/b=0.5,val=0.5": "'a/b' cannot name a split",
    "../a=0.5,val=0.5": "cannot name a split",
    "a b=0.5,val=0.5": "cannot name a split",
    "=0.5,val=0.5": "'' cannot name a split",
    ".=0.5,val=0.5": "cannot name a split",
    "train=nan,val=1": "above 0 and add up to 1",
    "train=inf,val=1": "above 0 and add up to 1",
    "train=inf,val=-inf": "above 0 and add up to 1",
    "train=-0.5,val=1.5": "above 0 and add up to 1",
    "train=0,val=1": "above 0 and add up to 1",
    "train=0.5,train=0.5": "names train twice",
    "train=0.5,train=0.8,val=0.2": "names train twice",
    "train=0.8,test=0.1,val=0.1,val=0.1": "names val twice",
    "train=0.5, train=0.5": "names train twice",
    "train=0.5,val=0.5,": "expected such as train=0.8",
    "": "expected such as train=0.8",
    "train": "expected such as train=0.8",
    "train=": "expected such as train=0.8",
    "train==0.5,val=0.5": "expected such as train=0.8",
    "train=0.5=0.5": "expected such as train=0.8",
    "1=0.5,val=0.5": "read '1' as a number",
    "null=0.5,val=0.5": "read 'null' as nothing",
    "no=0.5,val=0.5": "read 'no' as true or false",
    "2020-01-01=0.5,val=0.5": "read '2020-01-01' as a date",
}


@pytest.mark.parametrize("split", SPLITS)
def test_shares_that_are_none_leave_the_old_file_whole(tmp_path, pack, arrays, split):
    """b-badsplit-destroys, b-split-*."""
    path = tmp_path / "data/arr.h5"
    before = path.read_bytes()
    with pytest.raises(LabError, match=SPLITS[split]):
        pack("arr", arrays, "--as", "arrays", "--split", split)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["arr.h5"]


def test_a_split_of_a_source_that_is_no_name(tmp_path, pack, arrays):
    with pytest.raises(DataFileError, match="read 'null' as nothing"):
        pack("a", f"null={arrays}", f"val={arrays}", "--as", "arrays")


@pytest.mark.parametrize("name", ["a/b", "", "1", "null", "..", "a\x00b", 1, None, b"train"])
def test_a_name_that_is_none_for_a_split_is_refused_wherever_it_comes_from(tmp_path, name):
    path = write_data_file(tmp_path / "a.h5", {"x": X}, {"train": range(20)})
    before = path.read_bytes()
    with pytest.raises(DataFileError, match=r"cannot name a split|not as a name"):
        write_data_file(path, {"x": X}, {name: range(20)})
    with pytest.raises(DataFileError, match=r"cannot name a split|not as a name"):
        Splitter({"train": 1.0}).add({"split": name})
    assert path.read_bytes() == before


def test_a_split_file_names_the_line_of_a_name_that_is_none(tmp_path, pack, arrays):
    (tmp_path / "raw/splits.csv").write_text("0,train\n1,a/b\n")
    words = ("--as", "arrays", "--split-file", tmp_path / "raw/splits.csv")
    with pytest.raises(DataFileError, match=r"splits.csv:2: 'a/b' cannot name a split"):
        pack("arr", arrays, *words)


def test_groups_of_hdf5_that_cannot_be_splits(tmp_path, pack):
    with h5py.File(tmp_path / "raw/a.h5", "w") as file:
        file["null/x"] = X
        file["val/x"] = X
    with pytest.raises(
        DataFileError, match=r"holds null, val. Expected .* groups called train, val"
    ):
        pack("a", tmp_path / "raw/a.h5", "--as", "hdf5")


NAMES = ["1", "null", "nan", "inf", "true", "no", "Off", "2020-01-01", "1e3", "0x1f", "1_000"]


@pytest.mark.parametrize("name", NAMES)
def test_a_data_set_whose_name_is_no_text_is_refused(tmp_path, pack, arrays, name):
    """b-name2-1: `data=1` is a number."""
    with pytest.raises(LabError, match=rf"read '{name}' as .*such as data_{name}"):
        pack(name, arrays, "--as", "arrays")
    assert os.listdir(tmp_path / "data") == ["arr.h5"]


@pytest.mark.parametrize("name", ["null", "nan", "no", "true"])
def test_a_field_whose_name_is_no_text_is_refused(tmp_path, pack, name):
    np.savez(tmp_path / "raw/a.npz", **{name: X})
    with pytest.raises(LabError, match=rf"read '{name}' as .*such as field_{name}"):
        pack("a", tmp_path / "raw/a.npz", "--as", "arrays")
    with pytest.raises(LabError, match="letters, digits and _ only"):
        write_data_file(tmp_path / "a.h5", {1: X}, {})


def test_equal_names_of_which_only_one_would_be_read(tmp_path, pack):
    raw = tmp_path / "raw"
    (raw / "twice.csv").write_text("a,a,y\n1,2,0\n3,4,1\n")
    (raw / "t.csv").write_text("a,b,y\n1,2,0\n3,4,1\n")
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(raw / "a.npz", "w") as archive:
        for value in (1, 2):
            content = io.BytesIO()
            np.save(content, np.full(8, value))
            archive.writestr("x.npy", content.getvalue())
    label = ("--as", "table", "--label", "y")
    with pytest.raises(DataFileError, match=r"twice.csv has the column 'a' twice"):
        pack("t", raw / "twice.csv", *label)
    with pytest.raises(DataFileError, match=r"--columns has the column 'a' twice"):
        pack("t", raw / "t.csv", *label, "--columns", "a,a")
    with pytest.raises(DataFileError, match=r"--columns has the label 'y': x would hold"):
        pack("t", raw / "t.csv", *label, "--columns", "a,y")
    with pytest.raises(DataFileError, match=r"a.npz holds field 'x' twice"):
        pack("t", raw / "a.npz", "--as", "arrays")


def test_names_that_only_look_odd_are_taken(tmp_path):
    splits = {"train-1": [0], "fold.2": [1], "3a": [2], "y": [3], "none": [4]}
    path = write_data_file(tmp_path / "a.h5", {"y": X, "n": X, "none": X, "nanos": X}, splits)
    assert verify_file(path).splits.keys() == splits.keys()


ATTRIBUTES = {
    "format": "cannot name an attribute",
    "version": "cannot name an attribute",
    "n": "cannot name an attribute",
    "complete": "cannot name an attribute",
    "sha256": "cannot name an attribute",
    "none": "Give a text, a number or a list",
    "dict": "Give a text, a number or a list",
    "uneven": "Give a text, a number or a list",
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_an_attribute_that_cannot_be_stored_leaves_the_old_file(tmp_path, name):
    """A number of samples of one's own, for instance, would have made a file that cannot be read."""
    path = write_data_file(tmp_path / "a.h5", {"x": X}, {})
    before = path.read_bytes()
    value = {"none": None, "dict": {"a": 1}, "uneven": [[1], [1, 2]]}.get(name, 5)
    with pytest.raises(DataFileError, match=ATTRIBUTES[name]):
        write_data_file(path, {"x": X}, {}, **{name: value})
    assert path.read_bytes() == before


def test_a_text_that_hdf5_cannot_store_is_escaped(tmp_path):
    odd = os.fsdecode(b"a\0/\xff")
    path = write_data_file(tmp_path / "a.h5", {"x": X}, {}, source=odd, names=["a", odd])
    attrs = verify_file(path).attrs
    assert attrs["source"] == "a\\0/\\udcff"
    assert attrs["names"].tolist() == ["a", "a\\0/\\udcff"]
