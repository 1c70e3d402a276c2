"""What is written is what is read, whatever the shapes; and nothing damaged passes for right."""

import os
import shutil

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from labrig.data import (
    DataFileError,
    H5DataModule,
    H5Dataset,
    read_layout,
    verify_file,
    write_data_file,
)

DTYPES = ["bool", "uint8", "int8", "uint16", "int16", "int32", "uint32", "int64", "uint64"]
DTYPES += ["float16", "float32", "float64", ">f4", ">i8", "complex64"]


@st.composite
def files(draw):
    """Fields (fixed and ragged) and disjoint splits, of any size."""
    n = draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    fields = {}
    for i in range(draw(st.integers(1, 3))):
        shape = (n, *draw(st.lists(st.integers(0, 5), max_size=3)))
        fields[f"fixed{i}"] = rng.integers(0, 2**31, shape).astype(draw(st.sampled_from(DTYPES)))
    for i in range(draw(st.integers(0, 2))):
        dtype, longest = draw(st.sampled_from(DTYPES)), draw(st.integers(0, 9))
        lengths = rng.integers(0, longest, n, endpoint=True)
        fields[f"ragged{i}"] = [rng.integers(0, 2**31, length).astype(dtype) for length in lengths]
    owner = rng.integers(0, 4, n)  # 3: in no split
    splits = {
        name: rng.permutation(np.flatnonzero(owner == k))
        for k, name in enumerate(("train", "val", "test"))
    }
    return fields, splits


@pytest.mark.release
@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(files())
def test_what_is_written_is_read(tmp_path_factory, file):
    fields, splits = file
    path = tmp_path_factory.mktemp("roundtrip") / "a.h5"
    write_data_file(path, fields, splits, source="hypothesis")
    assert verify_file(path).attrs["source"] == "hypothesis"
    for split, rows in splits.items():
        dataset = H5Dataset(path, split, tuple(fields))
        rows = np.sort(rows)
        assert len(dataset) == len(rows)
        for i in range(len(rows)):
            for (name, values), tensor in zip(fields.items(), dataset[i], strict=True):
                expected = values[rows[i]]
                assert tensor.numpy().dtype == expected.dtype.newbyteorder("="), name
                np.testing.assert_array_equal(tensor.numpy(), expected)
        if len(rows):
            _check_batch(dataset, fields, rows)
    shutil.rmtree(path.parent)


def _check_batch(dataset, fields, rows):
    """Any order, and repeats."""
    indices = np.random.default_rng(0).integers(0, len(rows), 7)
    batch = dataset.__getitems__(indices.tolist())
    assert isinstance(batch, tuple)
    for (name, values), tensor in zip(fields.items(), batch, strict=True):
        ragged = isinstance(values, list)
        for row, sample in zip(rows[indices], tensor.numpy(), strict=True):
            expected = values[row]
            if ragged:
                assert not sample[len(expected) :].any()
                sample = sample[: len(expected)]
            np.testing.assert_array_equal(sample, expected, err_msg=name)


@pytest.fixture
def path(tmp_path):
    """A small file with a fixed and a ragged field."""
    rng = np.random.default_rng(1)
    fields = {
        "x": rng.integers(0, 255, (40, 3, 8, 8)).astype(np.uint8),
        "y": rng.integers(0, 9, 40),
        "wav": [rng.integers(-99, 99, n).astype(np.int16) for n in rng.integers(0, 90, 40)],
    }
    return write_data_file(
        tmp_path / "größe und raum.h5", fields, {"train": range(30), "val": range(30, 40)}, seed=1
    )


def content(path):
    """All that a reader can get from a file."""
    layout = read_layout(path)
    arrays = [
        layout.map(array).tobytes() for array in (*layout.arrays.values(), *layout.splits.values())
    ]
    return (
        arrays,
        [(array.name, array.shape) for array in layout.arrays.values()],
        sorted(layout.splits),
        layout.n_samples,
    )


@pytest.mark.release
@pytest.mark.slow
def test_no_flipped_byte_is_verified_as_right(path):
    right, original = content(path), path.read_bytes()
    rng = np.random.default_rng(2)
    places = [*range(600), *rng.integers(0, len(original), 900).tolist()]
    caught = 0
    for place in places:
        damaged = bytearray(original)
        damaged[place] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        try:
            verify_file(path)
        except DataFileError:
            caught += 1
        else:
            assert content(path) == right, f"byte {place} is wrong and was not noticed"
    assert caught > 0.5 * len(places)


@pytest.mark.parametrize("kept", [0, 1, 100, "25 %", "50 %", "75 %", "all but one"])
def test_a_file_cut_short_says_so(path, kept):
    size = path.stat().st_size
    sizes = {"25 %": size // 4, "50 %": size // 2, "75 %": 3 * size // 4, "all but one": size - 1}
    n_bytes = sizes.get(kept, kept)
    os.truncate(path, n_bytes)
    with pytest.raises(DataFileError, match=rf"{n_bytes} bytes") as error:
        read_layout(path)
    assert str(path) in str(error.value)
    assert "lab data pack" in str(error.value)


@pytest.mark.slow
def test_random_bytes_and_swapped_blocks_are_never_verified(path):
    right, original = content(path), path.read_bytes()
    rng = np.random.default_rng(3)
    for _ in range(200):
        damaged = bytearray(original)
        start, size = int(rng.integers(0, len(original) - 600)), int(rng.integers(1, 600))
        damaged[start : start + size] = rng.bytes(size)
        path.write_bytes(damaged)
        try:
            verify_file(path)
        except DataFileError:
            continue
        assert content(path) == right


def test_each_array_is_named_when_it_is_damaged(path):
    original, layout = path.read_bytes(), read_layout(path)
    for array in layout.arrays.values():
        damaged = bytearray(original)
        damaged[array.offset + array.n_bytes // 2] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(
            DataFileError, match=rf"/data/{array.name} is damaged|{array.name} does not fit"
        ):
            verify_file(path)


def test_a_batch_is_padded_to_its_longest_sample(path):
    dataset = H5Dataset(path, "val", ("wav", "wav_lengths"))
    singly = [dataset[i][0] for i in (3, 0, 3)]
    wav, lengths = dataset.__getitems__([3, 0, 3])
    assert lengths.tolist() == [len(sample) for sample in singly]
    assert wav.shape == (3, max(lengths))
    for padded, sample in zip(wav, singly, strict=True):
        assert torch.equal(padded[: len(sample)], sample)
        assert not padded[len(sample) :].any()


def test_crops_are_taken_from_the_sample(path):
    dataset = H5Dataset(path, "train", ("wav", "wav_lengths"), shapes={"wav": 20}, crop="random")
    whole = H5Dataset(path, "train", ("wav",))
    torch.manual_seed(0)
    moved = 0
    for i in range(30):
        wav, length = dataset[i]
        (full,) = whole[i]
        assert length == min(len(full), 20)
        windows = [full[k : k + 20].tolist() for k in range(max(1, len(full) - 19))]
        assert wav[:length].tolist() in windows
        assert not wav[length:].any()
        moved += wav[:length].tolist() != windows[0]
    assert moved > 5


class HalfOf(H5DataModule):
    """Validates on a part of the file of its own."""

    part = range(2, 4)

    def rows(self, split):
        return np.array(self.part) if split == "val" else None


def test_the_fingerprint_names_the_samples_of_a_split_of_ones_own(tmp_path):
    splits = {"train": range(2), "val": range(2, 6)}
    path = write_data_file(tmp_path / "a.h5", {"x": np.arange(6)}, splits)
    own = HalfOf(str(path))
    before = own.fingerprint()
    assert before["rows"].keys() == {"val"}
    assert "rows" not in H5DataModule(str(path)).fingerprint(), "the file's own splits"
    own.part = (3, 2)
    assert own.fingerprint() == before, "the order is not what is evaluated"
    own.part = (4, 5)
    after = own.fingerprint()
    assert after["sha256"] == before["sha256"]
    assert after["rows"] != before["rows"]


@pytest.mark.parametrize("large_bytes", [0, 10**9])
def test_threads_copy_the_rows_that_one_reads(path, module, monkeypatch, large_bytes):
    """For a GPU, a large batch goes straight to page-locked memory."""
    readers = module("hdf5.read.field_readers")
    monkeypatch.setattr(readers, "LARGE_BYTES", large_bytes)
    monkeypatch.setattr(readers, "cores", lambda: 3)
    (reader,) = H5Dataset(path, "train", ("x",)).readers
    assert isinstance(reader, readers.RowReader)
    for n_rows in (0, 1, 2, 7, 100):
        rows = np.random.default_rng(n_rows).integers(0, 40, n_rows)
        out = np.zeros((n_rows, 3, 8, 8), np.uint8)
        reader.read_into(rows, out)
        np.testing.assert_array_equal(out, reader.read(rows, None))


@pytest.mark.parametrize("row", [-1, 40])
def test_a_row_that_is_not_there_is_not_copied(path, row):
    (reader,) = H5Dataset(path, "train", ("x",)).readers
    with pytest.raises(IndexError, match="of 40"):
        reader.read_into(np.array([0, row]), np.zeros((2, 3, 8, 8), np.uint8))
