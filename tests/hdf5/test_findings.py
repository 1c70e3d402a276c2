"""Told, not refused, when packing: NaN and inf, equal samples in two splits, groups in two splits."""

import io
from contextlib import redirect_stderr

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labrig.data import write_data_file
from labrig.hdf5.pack import collect

pytest_plugins = "hdf5_packing"


def told(capsys):
    """The lines that packing said."""
    lines = capsys.readouterr().err.splitlines()
    return [line.removeprefix("lab: ") for line in lines if line.startswith("lab: ")]


def test_values_that_are_no_numbers_are_counted_by_field(tmp_path, pack, capsys):
    """b-nan: the file is made, since a gap may be what was measured."""
    x = np.arange(80, dtype=np.float32).reshape(20, 4)
    x[3, 1] = x[3, 2] = np.nan
    x[7, 0] = -np.inf
    z = np.zeros(20, np.float16)
    z[5] = np.inf
    np.savez(tmp_path / "raw/a.npz", x=x, z=z, w=np.ones((20, 2), np.complex64), n=np.arange(20))
    pack("a", tmp_path / "raw/a.npz", "--as", "arrays")
    assert told(capsys) == [
        "2 of 20 samples have NaN or inf in field x",
        "1 of 20 samples have NaN or inf in field z",
    ]


def test_large_numbers_are_numbers(tmp_path, capsys):
    """Their squares are not: the quick look must not be the last one."""
    x = np.full((20, 2), 1e38, np.float32)
    x[:, 0] = np.arange(20)
    write_data_file(tmp_path / "a.h5", {"x": x}, {"train": range(20)})
    assert told(capsys) == []


def test_samples_of_varying_length_are_counted_too(tmp_path, capsys):
    wav = [np.full(n, np.nan if n in (3, 9) else n, np.float32) for n in range(12)]
    write_data_file(tmp_path / "a.h5", {"wav": wav}, {"train": range(12)})
    assert told(capsys) == ["2 of 12 samples have NaN or inf in field wav"]


def test_the_same_sample_in_train_and_test_is_told(tmp_path, pack, capsys):
    """b-dup: each sample ten times in the source."""
    x = np.repeat(np.arange(40, dtype=np.float32).reshape(20, 2), 10, 0)
    np.savez(tmp_path / "raw/a.npz", x=x, y=np.arange(200))
    layout = pack("a", tmp_path / "raw/a.npz", "--as", "arrays")
    rows = {
        name: layout.map(layout.arrays["x"])[layout.map(s)] for name, s in layout.splits.items()
    }
    expected = []
    for small, large in (("test", "val"), ("test", "train"), ("val", "train")):
        n_equal = sum((row == rows[large]).all(1).any() for row in rows[small])
        expected.append(
            f"{n_equal} of 20 samples of {small} are in {large} too: their field x is equal"
        )
    assert told(capsys) == expected


def test_samples_of_one_split_may_be_equal(tmp_path, capsys):
    x = np.zeros((20, 2))
    x[10:] = np.arange(10)[:, None] + 1
    write_data_file(tmp_path / "a.h5", {"x": x}, {"train": range(10), "test": range(10, 20)})
    write_data_file(
        tmp_path / "b.h5", {"x": [[]] * 20}, {"train": range(10), "test": range(10, 20)}
    )
    assert told(capsys) == []


KINDS = st.sampled_from(["?", "u1", "i2", "f4", "f8", "c16"])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data(), KINDS, st.integers(2, 30), st.booleans(), st.sampled_from([1, 9, 100, 2000]))
def test_exactly_the_equal_samples_are_counted(tmp_path_factory, data, kind, n, ragged, width):
    """Also where all keys collide, and in samples of which only a part makes the key."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    numbers = rng.integers(0, max(1, n // 2), n)
    samples = [np.zeros(width + number if ragged else width) for number in numbers]
    for number, sample in zip(numbers, samples, strict=True):
        sample[number * 7919 % width] = number
    samples = [sample.astype(kind) for sample in samples]
    n_train = data.draw(st.integers(1, n - 1))
    splits = {"train": range(n_train), "test": range(n_train, n)}
    path = tmp_path_factory.mktemp("findings") / "a.h5"
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(output):
        if data.draw(st.booleans()):
            patch.setattr(collect, "_weights", lambda n: np.zeros(n, np.uint64))
        field = samples if ragged else np.stack(samples)
        write_data_file(path, {"y": np.arange(n), "x": field, "b": np.arange(n) % 2}, splits)
    contents = [sample.tobytes() for sample in samples]
    parts = {name: [contents[row] for row in splits[name]] for name in ("test", "train")}
    small, large = sorted(parts, key=lambda name: len(parts[name]))
    n_equal = sum(content in parts[large] for content in parts[small])
    line = (
        f"{n_equal} of {len(parts[small])} samples of {small} are in {large} too: "
        "their field x is equal"
    )
    assert output.getvalue() == (f"lab: {line}\n" if n_equal else "")


def test_the_largest_field_that_is_no_label_is_compared(tmp_path, capsys):
    fields = {"y": np.zeros((4, 9)), "id": np.arange(4), "image": np.ones((4, 5))}
    write_data_file(tmp_path / "a.h5", fields, {"train": [0, 1, 2], "test": [3]})
    assert told(capsys) == ["1 of 1 samples of test are in train too: their field image is equal"]


def test_groups_that_were_divided_are_told(tmp_path, pack, capsys):
    raw = tmp_path / "raw"
    np.savez(raw / "a.npz", x=np.arange(12.0), patient=np.arange(12) // 3)
    (raw / "s.csv").write_text("".join(f"{i},{'train' if i < 7 else 'val'}\n" for i in range(12)))
    words = ("--as", "arrays", "--split-file", raw / "s.csv")
    pack("a", raw / "a.npz", *words, "--group", "patient")
    assert told(capsys) == ["1 of 4 groups are in more than one split, such as 2 in train and val"]
    pack("a", raw / "a.npz", "--as", "arrays", "--group", "patient")
    too_few = "nothing is left for test: there are too few groups, 4. Look at --group."
    assert told(capsys) == [too_few], "and none is in more than one split"
    pack("a", raw / "a.npz", "--as", "arrays", "--split", "train=0.98,test=0.02")
    assert told(capsys) == ["nothing is left for test: there are too few samples, 12."]
