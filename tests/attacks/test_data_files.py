"""Crafted data files: whatever is edited, with hashes set anew, is damage in words or another hash."""

import hashlib
import json
import os
import shutil
from contextlib import suppress

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labrig.data import DataFileError, H5Dataset, read_layout, verify_file
from labrig.errors import Failed
from labrig.hdf5.file.attributes import HASH
from labrig.hdf5.file.checksum import sha256_of_arrays, sha256_of_hashes
from labrig.hdf5.file.info import info_command, verify_command
from labrig.hdf5.pack.collect import RaggedField
from labrig.hdf5.pack.writer import write_fields
from projects import project_in

X = np.arange(60, dtype=np.float32).reshape(20, 3)
WAV = [np.arange(n, dtype=np.int16) for n in range(20)]
FIELDS = {
    "x": X,
    "y": np.arange(20) % 2,
    "wav": RaggedField(np.dtype("i2"), np.arange(20), WAV.__getitem__),
}
SPLITS = {"train": range(15), "test": range(15, 20)}
CLASSES = {"y": {"classes": json.dumps(["cat", "dog"])}}


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return write(tmp_path / "a.h5")


def write(path, field_attrs=CLASSES, **provenance):
    return write_fields(
        path, FIELDS, SPLITS, provenance={"source": "a", **provenance}, field_attrs=field_attrs
    )


def edited(path, edit):
    """`path` after edit(file) through h5py."""
    with h5py.File(path, "r+", libver=("v110", "v110")) as file:
        edit(file)
    return path


def put(name, values):
    """An edit: the array `name` holds `values`, and the right hash of them."""
    array = np.asarray(values)

    def edit(file):
        if name in file:
            del file[name]
        file[name] = array
        file[name].attrs[HASH] = hashlib.sha256(array.tobytes()).hexdigest()

    return edit


def link(name, other):
    def edit(file):
        if name in file:
            del file[name]
        file[name] = other

    return edit


def of_group(file):
    file["data"].attrs["note"] = "n"


def further(file):
    file["extra"] = X


STRUCTURE = {
    "mid": (put("splits/test", [15, 99, 16]), "not in order"),
    "neg": (put("splits/test", [-1, 15]), "rows outside 0..19"),
    "large": (put("splits/test", [15, 20]), "rows outside 0..19"),
    "twice": (put("splits/test", [15, 15]), "not in order"),
    "overlap": (put("splits/test", [3, 15]), "row 3 is in split 'train' and in another one"),
    "whole": (put("splits/val", range(15)), "row 0 is in split 'val' and in another one"),
    "split2d": (put("splits/test", [[15, 16]]), "no list of row numbers"),
    "split32": (put("splits/test", np.arange(15, 20, dtype="i4")), "no list of row numbers"),
    "softsplit": (link("splits/val", h5py.SoftLink("/splits/train")), "splits/val is a link"),
    "softfield": (link("data/z", h5py.SoftLink("/data/x")), "data/z is a link"),
    "softgroup": (link("splits", h5py.SoftLink("/data")), "/splits is a link"),
    "external": (link("data/x", h5py.ExternalLink("b.h5", "/data/x")), "data/x is a link"),
    "externalgroup": (link("data", h5py.ExternalLink("b.h5", "/data")), "/data is a link"),
    "dangling": (link("splits/val", h5py.SoftLink("/nowhere")), "splits/val is a link"),
    "group": (lambda file: file.create_group("splits/a"), "splits/a is no array"),
    "scalar": (put("data/x", np.float32(1)), "data/x is no array"),
    "empty": (link("data/z", h5py.Empty("f4")), "data/z is no array"),
    "dtype": (link("data/z", np.dtype("f4")), "data/z is no array"),
    "offsets2d": (put("data/wav_offsets", np.zeros((21, 1), int)), "wav_offsets does not fit"),
    "offsetstype": (put("data/wav_offsets", np.zeros(21, "f8")), "wav_offsets does not fit"),
}


@pytest.mark.parametrize("name", STRUCTURE)
def test_a_structure_that_was_never_written_is_damage(path, tmp_path, name):
    """b-h5v-mid, -neg, -overlap, -softsplit, -split2d."""
    write(tmp_path / "b.h5")
    edit, message = STRUCTURE[name]
    edited(path, edit)
    for read in (read_layout, lambda file: H5Dataset(file, "train")):
        with pytest.raises(DataFileError, match=message) as error:
            read(path)
        assert "pack it again: lab data pack a" in str(error.value)
    with pytest.raises(Failed, match=message):
        verify_command(project_in(tmp_path), [str(path)])


def attr(place, name, value):
    return lambda file: file[place].attrs.__setitem__(name, value)


SEALED = {
    "classes": attr("data/y", "classes", '["dog", "cat"]'),
    "source": attr("/", "source", "elsewhere"),
    "created": attr("/", "created", "1999"),
    "seed": attr("/", "seed", 7),
    "new": attr("/", "mean", 0.5),
    "new-field": attr("data/x", "unit", "mm"),
    "new-split": attr("splits/test", "note", "n"),
    "renamed": lambda file: file.move("data/x", "data/z"),
    "group": of_group,
    "further": further,
    "rows": put("data/x", X + 1),
    "seal": attr("/", HASH, "0" * 64),
    "unsealed": lambda file: file.attrs.pop(HASH),
    "sealtype": attr("/", HASH, [1, 2]),
}


@pytest.mark.parametrize("name", SEALED)
def test_an_attribute_that_was_edited_is_damage(path, name):
    """b-h5v-attr, with its siblings."""
    edited(path, SEALED[name])
    with pytest.raises(DataFileError, match=r"attributes were changed|something else than data"):
        read_layout(path)


def test_what_the_data_mean_is_in_the_hash_and_where_they_are_from_is_not(tmp_path):
    one = read_layout(write(tmp_path / "a.h5"))
    other_place = read_layout(write(tmp_path / "b.h5", source="b", seed=3))
    other_classes = read_layout(write(tmp_path / "c.h5", {"y": {"classes": '["dog", "cat"]'}}))
    other_mean = read_layout(write(tmp_path / "d.h5", mean=0.5))
    assert sha256_of_hashes(one) == sha256_of_hashes(other_place)
    assert len({sha256_of_hashes(layout) for layout in (one, other_classes, other_mean)}) == 3
    assert sha256_of_arrays(one) == sha256_of_arrays(other_classes)


def test_a_field_that_only_has_the_name_of_offsets_may_fall(tmp_path):
    path = tmp_path / "a.h5"
    write_fields(path, {"char_offsets": np.array([3, 1])}, {}, provenance={})
    assert verify_file(path).fields.keys() == {"char_offsets"}


VALUES = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.booleans(),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9),
    st.binary(min_size=1, max_size=9).map(np.bytes_).filter(lambda text: b"\0" not in text),
    st.lists(st.integers(-9, 9), max_size=3),
    st.lists(st.sampled_from(["a", "é", ""]), min_size=1, max_size=3),
    st.sampled_from([h5py.Empty("f4"), h5py.Empty("S3"), np.zeros((2, 2)), np.void(b"ab")]),
    st.sampled_from(["[]", "{}", "[1]", "[[]]", '{"a": 1}', '{"a": [1, null]}', "null", "[" * 99]),
)
PLACES = ["/", "data", "splits", "data/x", "data/y", "data/wav", "data/wav_offsets", "splits/test"]
NAMES = ["format", "version", "n", "complete", HASH, "classes", "categories", "encoding", "skipped"]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return write(tmp_path_factory.mktemp("original") / "a.h5")


def read_test_split(path):
    dataset = H5Dataset(path, "test", ("x", "y", "wav"))
    return dataset.__getitems__(range(len(dataset)))


def use_in_any_way(path):
    """Reads, verifies and shows a file; what is wrong with it is a DataFileError."""
    for use in (
        verify_file,
        lambda path: sha256_of_hashes(read_layout(path)),
        read_test_split,
        lambda path: info_command(project_in(path.parent), [str(path)]),
    ):
        with suppress(DataFileError):
            use(path)


@pytest.mark.release
@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PLACES), st.sampled_from([*NAMES, "source", "other"]), VALUES)
def test_any_value_of_any_attribute_is_read_or_refused_in_words(
    tmp_path_factory, original, place, name, value
):
    """b-h5v-nstr: also when the layout's own attributes have other types, lengths and values."""
    path = tmp_path_factory.mktemp("fuzz") / "a.h5"
    shutil.copyfile(original, path)
    before = read_layout(path)
    use_in_any_way(edited(path, attr(place, name, value)))
    with suppress(DataFileError):
        assert read_layout(path).attrs == before.attrs
    os.remove(path)


ARRAYS = st.one_of(
    st.sampled_from(["?", "i1", "<i4", ">i8", "u8", "f2", "f8", "c8", "S3", "M8[s]", "i4,f4"]).map(
        lambda dtype: np.zeros(20, "i8").astype(dtype) if dtype != "i4,f4" else np.zeros(20, dtype)
    ),
    st.lists(st.integers(0, 21), max_size=3).map(lambda shape: np.zeros(shape, "i8")),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=21).map(lambda rows: np.array(rows, "i8")),
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.sampled_from([*PLACES[3:], "data/z", "splits/a"]), ARRAYS)
def test_any_array_in_any_place_is_read_or_refused_in_words(
    tmp_path_factory, original, place, array
):
    path = tmp_path_factory.mktemp("fuzz") / "a.h5"
    shutil.copyfile(original, path)
    with suppress(TypeError):  # HDF5 has no such type
        edited(path, put(place, array))
    use_in_any_way(path)
    with suppress(DataFileError):
        layout = read_layout(path)
        rows = [row for split in layout.splits.values() for row in layout.map(split)]
        assert len(set(rows)) == len(rows)
        assert set(rows) <= set(range(layout.n_samples))
    os.remove(path)
