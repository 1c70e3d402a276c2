"""Sources that are split already, HDF5 files of others, resampled audio, categories of tables."""

import csv
import json

import h5py
import numpy as np
import pytest
import soundfile
from hdf5_packing import all_rows, packing  # noqa: F401
from labrig.data import DataFileError
from PIL import Image


def rows_of(layout, split, field):
    return layout.map(layout.arrays[field])[layout.map(layout.splits[split])]


def test_folders_that_are_split_already_share_their_classes(tmp_path, pack):
    for split, name, n in (("train", "cat", 5), ("train", "dog", 4), ("val", "dog", 3)):
        for i in range(n):
            path = tmp_path / "raw" / split / name / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (4, 4)).save(path)
    words = [f"{split}={tmp_path}/raw/{split}" for split in ("train", "val")]
    layout = pack("pets", *words, "--as", "images")
    assert sorted(rows_of(layout, "train", "y")) == [0] * 5 + [1] * 4
    assert sorted(rows_of(layout, "val", "y")) == [1] * 3
    assert json.loads(layout.arrays["y"].attrs["classes"]) == ["cat", "dog"]


def test_arrays_that_are_split_already(tmp_path, pack):
    x = np.arange(60, dtype=np.uint8).reshape(20, 3)
    np.savez(tmp_path / "raw/a.npz", x=x[:15], y=np.arange(15))
    np.savez(tmp_path / "raw/b.npz", x=x[15:], y=np.arange(15, 20))
    words = [f"train={tmp_path}/raw/a.npz", f"test={tmp_path}/raw/b.npz", "--as", "arrays"]
    layout = pack("a", *words)
    assert sorted(rows_of(layout, "train", "y")) == list(range(15))
    assert sorted(rows_of(layout, "test", "y")) == list(range(15, 20))
    packed_x, packed_y = all_rows(layout, "x", "y")
    np.testing.assert_array_equal(packed_x, x[packed_y])
    np.savez(tmp_path / "raw/b.npz", x=x[15:, :2], y=np.arange(15, 20))
    with pytest.raises(DataFileError, match=r"the splits differ.*test has x uint8 \[5, 2\]"):
        pack("a", *words)


def test_a_field_in_two_sources_is_refused(tmp_path, pack):
    for name in "ab":
        (tmp_path / "raw" / name).mkdir()
        np.save(tmp_path / "raw" / name / "x.npy", np.zeros(3))
    with pytest.raises(DataFileError, match="field 'x' is in two sources"):
        pack("a", tmp_path / "raw/a/x.npy", tmp_path / "raw/b/x.npy", "--as", "arrays")


def foreign(path, content, **how):
    with h5py.File(path, "w") as file:
        for name, values in content.items():
            file.create_dataset(name, data=values, **how)
    return path


IMAGES = np.arange(20 * 12, dtype=">f4").reshape(20, 12)


@pytest.mark.parametrize("how", [{}, {"chunks": (3, 5), "compression": "gzip"}])
def test_hdf5_files_of_others(tmp_path, pack, how):
    path = foreign(
        tmp_path / "raw/old.hdf5", {"images": IMAGES, "labels": np.eye(20)[:, :12]}, **how
    )
    layout = pack("a", path, "--as", "hdf5", "--seed", 3)
    images, labels = all_rows(layout, "images", "labels")
    order = [int(row[0]) // 12 for row in images]
    assert sorted(order) == list(range(20))
    np.testing.assert_array_equal(images, IMAGES[order])
    np.testing.assert_array_equal(labels, np.eye(20)[order, :12])


def test_groups_of_an_hdf5_file_are_splits(tmp_path, pack):
    y = np.arange(20)
    content = {"train/x": IMAGES[:15], "train/y": y[:15], "val/x": IMAGES[15:], "val/y": y[15:]}
    layout = pack("a", foreign(tmp_path / "raw/old.h5", content), "--as", "hdf5")
    assert sorted(rows_of(layout, "train", "y")) == list(range(15))
    assert sorted(rows_of(layout, "val", "y")) == list(range(15, 20))
    packed_x, packed_y = all_rows(layout, "x", "y")
    np.testing.assert_array_equal(packed_x, IMAGES[packed_y])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"train/x": IMAGES, "val/z": IMAGES}, "the splits differ. train has x >f4"),
        ({"x": IMAGES, "val/x": IMAGES}, "holds val, x. Expected"),
        ({"a/b/x": IMAGES}, "Expected data sets"),
        ({}, "holds nothing"),
        ({"x": IMAGES, "name": np.array([b"a"] * 20, object)}, "expected numbers"),
        ({"x": IMAGES, "version": 3}, "single value"),
        ({"x y": IMAGES}, "a field's name has letters"),
        ({"x": IMAGES, "y": np.arange(19)}, "differ in number of samples"),
    ],
)
def test_an_hdf5_file_of_another_form_is_reported(tmp_path, pack, content, message):
    path = foreign(tmp_path / "raw/old.h5", {})
    with h5py.File(path, "w") as file:
        for name, values in content.items():
            strings = isinstance(values, np.ndarray) and values.dtype.kind == "O"
            file.create_dataset(name, data=values, dtype=h5py.string_dtype() if strings else None)
    with pytest.raises(DataFileError, match=message):
        pack("a", path, "--as", "hdf5")


def test_a_packed_file_needs_no_packing(tmp_path, pack):
    np.save(tmp_path / "raw/x.npy", np.zeros((5, 2)))
    layout = pack("a", tmp_path / "raw/x.npy", "--as", "arrays")
    with pytest.raises(DataFileError, match="is packed already"):
        pack("b", layout.path, "--as", "hdf5")


def test_audio_is_resampled(tmp_path, pack):
    for rate_hz in (8000, 16000):
        time_s = np.arange(rate_hz // 2) / rate_hz
        wav = (10_000 * np.sin(2 * np.pi * 440 * time_s)).astype(np.int16)
        (tmp_path / "raw" / str(rate_hz)).mkdir()
        soundfile.write(tmp_path / "raw" / str(rate_hz) / "a.wav", wav, rate_hz)
    with pytest.raises(
        DataFileError, match=r"as the first file has\. To resample all: --rate 16000"
    ):
        pack("a", tmp_path / "raw", "--as", "audio")
    layout = pack("a", tmp_path / "raw", "--as", "audio", "--rate", 8000, "--split", "train=1")
    flat, offsets = all_rows(layout, "wav", "wav_offsets")
    assert offsets.tolist() == [0, 4000, 8000]
    assert layout.arrays["wav"].attrs["sample_rate_hz"] == 8000
    first, second = flat[200:3800].astype(float), flat[4200:7800].astype(float)
    assert np.abs(first - second).max() < 100  # the same tone


def table(path, rows, head=("age", "sex", "marker", "outcome")):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, *rows])
    return path


ROWS = [(20 + i, "fm"[i % 2], i / 2, ["no", "yes"][i % 2]) for i in range(20)]


def test_texts_of_a_table_become_categories_with_their_names(tmp_path, pack, capsys):
    source = table(tmp_path / "raw/t.csv", ROWS)
    layout = pack("t", source, "--as", "table", "--label", "outcome")
    x, y = all_rows(layout, "x", "y")
    assert json.loads(layout.arrays["x"].attrs["categories"]) == {"sex": ["f", "m"]}
    assert {(age - 20) % 2 == sex == label for (age, sex, _), label in zip(x, y, strict=True)} == {
        True
    }
    assert "column sex of x, 2 categories: 0 f, 1 m" in capsys.readouterr().out


def test_gaps_are_reported_by_column_and_filled_or_dropped(tmp_path, pack):
    rows = [list(row) for row in ROWS]
    rows[3][1] = ""
    rows[4][2] = rows[5][2] = "NA"
    rows[6][0] = "old"
    source = table(tmp_path / "raw/t.csv", rows)
    words = (source, "--as", "table", "--label", "outcome")
    with pytest.raises(DataFileError) as error:
        pack("t", *words)
    message = str(error.value)
    assert "sex: 1 of 20 rows, first in row 4\n" in message
    assert "marker: 2 of 20 rows, first in row 5\n" in message
    assert "age: 1 of 20 rows, first in row 7 ('old' among numbers)\n" in message
    for option in ("--drop-rows", "--fill NUMBER", "--columns"):
        assert option in message
    dropped = pack("t", *words, "--drop-rows")
    assert (dropped.n_samples, dropped.attrs["skipped"]) == (16, '["3", "4", "5", "6"]')
    filled = pack("t", *words, "--fill", -1)
    (x,) = all_rows(filled, "x")
    assert json.loads(filled.arrays["x"].attrs["categories"]) == {"sex": ["", "f", "m"]}
    assert ((x == -1).sum(0).tolist(), (x[:, 1] == 0).sum()) == ([1, 0, 2], 1)


def test_what_becomes_of_gaps_is_told_mistakes_first(tmp_path, pack, capsys):
    rows = [list(row) for row in ROWS]
    rows[2][0] = rows[6][3] = ""
    rows[8][2] = "0x.657"
    words = (table(tmp_path / "raw/t.csv", rows), "--as", "table", "--label", "outcome")
    pack("t", *words, "--drop-rows", "--fill", 0)
    told = [line for line in capsys.readouterr().err.splitlines() if "first in row" in line]
    assert told == [
        "lab: marker: 1 of 20 rows, first in row 9 ('0x.657' among numbers): filled with 0",
        "lab: age: 1 of 20 rows, first in row 3: filled with 0",
        "lab: outcome: 1 of 20 rows, first in row 7: left out",
    ]
    pack("t", *words, "--skip-damaged")
    assert "row 9 ('0x.657' among numbers): left out" in capsys.readouterr().err


def test_a_row_that_is_cut_is_left_out_and_never_filled(tmp_path, pack):
    """A line of which the end is missing has its label still, when that comes first."""
    source = tmp_path / "raw/t.csv"
    lines = ["label,a,b", *(f"{n % 2},{n},{n}.5" for n in range(20))]
    lines[10] = "1,9"
    source.write_text("\n".join(lines))
    words = (source, "--as", "table", "--label", "label")
    with pytest.raises(DataFileError, match="row 10 is cut: it has 2 of 3 values"):
        pack("t", *words, "--fill", 0)
    layout = pack("t", *words, "--fill", 0, "--drop-rows")
    assert (layout.n_samples, layout.attrs["skipped"]) == (19, '["9"]')


def test_a_gap_in_label_or_group_is_never_filled(tmp_path, pack):
    rows = [list(row) for row in ROWS]
    rows[3][3] = rows[5][1] = ""
    words = (table(tmp_path / "raw/t.csv", rows), "--as", "table", "--label", "outcome")
    with pytest.raises(DataFileError, match="outcome: 1 of 20 rows, first in row 4"):
        pack("t", *words, "--fill", 0)
    with pytest.raises(DataFileError, match="sex: 1 of 20 rows, first in row 6"):
        pack("t", *words, "--fill", 0, "--group", "sex")
    layout = pack("t", *words, "--group", "sex", "--drop-rows", "--split", "train=0.5,test=0.5")
    assert layout.n_samples == 18


def test_a_column_of_names_is_no_category(tmp_path, pack):
    rows = [(i, f"name {i}", 0, "no") for i in range(1002)]
    with pytest.raises(DataFileError, match="column 'sex' has 1002 different texts in 1002 rows"):
        pack("t", table(tmp_path / "raw/t.csv", rows), "--as", "table", "--label", "outcome")
    rows *= 2
    with pytest.raises(DataFileError, match="column 'sex' has more than 1000 different texts"):
        pack("t", table(tmp_path / "raw/t.csv", rows), "--as", "table", "--label", "outcome")


def test_two_tables_have_one_head_line_and_one_set_of_categories(tmp_path, pack):
    train = table(tmp_path / "raw/train.csv", [row for row in ROWS if row[1] == "m"])
    val = table(tmp_path / "raw/val.csv", [row for row in ROWS if row[1] == "f"])
    words = (f"train={train}", f"val={val}", "--as", "table", "--label", "outcome")
    layout = pack("t", *words)
    assert set(rows_of(layout, "train", "x")[:, 1]) == {1}
    assert set(rows_of(layout, "val", "x")[:, 1]) == {0}
    table(val, ROWS, head=("age", "gender", "marker", "outcome"))
    with pytest.raises(DataFileError, match=r"val\.csv: row 1 has the columns age, gender"):
        pack("t", *words)
    table(val, [(1, "f", 2, "no", 5)])
    with pytest.raises(DataFileError, match=r"row 1 .*the head line 4 \(age"):
        pack("t", *words)
