"""Arrays and tables become one file; what cannot be read, or changes meanwhile, is named."""

import csv
import json
import os
import time

import numpy as np
import pytest
from hdf5_packing import all_rows, packing  # noqa: F401
from labrig.data import DataFileError
from labrig.errors import LabError
from labrig.hdf5.pack import writer


@pytest.mark.parametrize("how", ["npy", "npz", "npz_compressed"])
def test_arrays(tmp_path, pack, how):
    x, y = np.random.default_rng(0).normal(size=(50, 4)).astype(">f4"), np.arange(50)
    np.save(tmp_path / "raw/x.npy", x)
    np.save(tmp_path / "raw/y.npy", y)
    (np.savez if how == "npz" else np.savez_compressed)(tmp_path / "raw/all.npz", x=x, y=y)
    sources = ["x.npy", "y.npy"] if how == "npy" else ["all.npz"]
    layout = pack(
        "table", *(tmp_path / "raw" / name for name in sources), "--as", "arrays", "--seed", 5
    )
    packed_x, packed_y = all_rows(layout, "x", "y")
    np.testing.assert_array_equal(packed_x, x[packed_y])
    assert sorted(packed_y) == list(range(50))
    assert packed_y.tolist() != list(range(50))
    assert layout.attrs["seed"] == 5


def test_arrays_split_by_a_group_or_a_file(tmp_path, pack):
    np.save(tmp_path / "raw/x.npy", np.arange(60.0))
    np.save(tmp_path / "raw/patient.npy", np.arange(60) % 7)
    sources = [tmp_path / "raw/x.npy", tmp_path / "raw/patient.npy"]
    layout = pack(
        "a", *sources, "--as", "arrays", "--group", "patient", "--split", "train=0.7,test=0.3"
    )
    (patient,) = all_rows(layout, "patient")
    sides = [set(patient[layout.map(split)]) for split in layout.splits.values()]
    assert sides[0] | sides[1] == set(range(7))
    assert not sides[0] & sides[1]
    (tmp_path / "splits").write_text(
        "".join(f"{i},{'train' if i < 50 else 'test'}\n" for i in range(60))
    )
    layout = pack("a", *sources, "--as", "arrays", "--split-file", tmp_path / "splits")
    assert set(layout.map(layout.arrays["x"])[layout.map(layout.splits["test"])]) == set(
        range(50, 60)
    )
    np.save(tmp_path / "raw/pair.npy", np.zeros((60, 2)))
    for group in ("patent", "pair"):
        with pytest.raises(
            LabError, match=r"no such array \(N,\)\. .*patient \[60\], pair \[60, 2\]"
        ):
            pack("a", *sources, tmp_path / "raw/pair.npy", "--as", "arrays", "--group", group)


@pytest.mark.parametrize("kind", ["arrays", "table"])
def test_a_file_that_changes_while_packed_is_reported(tmp_path, pack, monkeypatch, kind):
    source = tmp_path / "raw" / ("x.npy" if kind == "arrays" else "t.csv")
    np.save(source, np.zeros((9, 1))) if kind == "arrays" else table(source, [(1, 2, 3, 4)])
    write_array = writer._write_array

    def slow(*args):
        os.utime(source, ns=(time.time_ns(), time.time_ns()))
        write_array(*args)

    monkeypatch.setattr(writer, "_write_array", slow)
    with pytest.raises(LabError, match="changed while it was packed"):
        pack("a", source, "--as", kind)
    assert os.listdir(tmp_path / "data") == []


def test_arrays_that_cannot_be_read(tmp_path, pack):
    np.save(tmp_path / "raw/x.npy", np.zeros((20, 5)))
    np.save(tmp_path / "raw/y.npy", np.zeros(19))
    with pytest.raises(DataFileError, match="number"):
        pack("a", tmp_path / "raw/x.npy", tmp_path / "raw/y.npy", "--as", "arrays")
    os.truncate(tmp_path / "raw/x.npy", 300)
    with pytest.raises(DataFileError, match=r"x\.npy cannot be read"):
        pack("a", tmp_path / "raw/x.npy", "--as", "arrays")
    np.save(tmp_path / "raw/o.npy", np.array([{}], object))
    with pytest.raises(DataFileError, match=r"o\.npy cannot be read"):
        pack("a", tmp_path / "raw/o.npy", "--as", "arrays")


def table(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("größe", "b", "patient", "label"), *rows])
    return path


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables(tmp_path, pack, kind):
    rows = [(i, i / 2, f"p{i % 5}", "yes" if i % 3 else "no") for i in range(40)]
    source = table(tmp_path / "raw/t.csv", rows)
    if kind == "parquet":
        import pyarrow.csv
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.csv.read_csv(source), tmp_path / "raw/t.parquet")
        source = tmp_path / "raw/t.parquet"
    layout = pack(
        "t",
        source,
        "--as",
        "table",
        "--label",
        "label",
        "--group",
        "patient",
        "--split",
        "train=0.6,test=0.4",
    )
    x, y = all_rows(layout, "x", "y")
    assert json.loads(layout.arrays["y"].attrs["classes"]) == ["no", "yes"]
    assert json.loads(layout.arrays["x"].attrs["columns"]) == ["größe", "b"]
    assert {(float(a), float(b), int(c)) for (a, b), c in zip(x, y, strict=True)} == {
        (i, i / 2, int(i % 3 > 0)) for i in range(40)
    }
    sides = [{int(row[0]) % 5 for row in x[layout.map(split)]} for split in layout.splits.values()]
    assert sides[0]
    assert sides[1]
    assert not sides[0] & sides[1]


@pytest.mark.parametrize(
    ("value", "column"), [("", "b"), ("nan", "b"), ("many", "b"), ("", "label"), ("nan", "label")]
)
def test_a_table_with_a_hole_names_row_and_column(tmp_path, pack, value, column):
    rows = [[i, i / 2, "p", i % 2] for i in range(10)]
    rows[6][1 if column == "b" else 3] = value
    source = table(tmp_path / "raw/t.csv", rows)
    words = (source, "--as", "table", "--label", "label", "--group", "patient")
    with pytest.raises(DataFileError, match=rf"{column}: 1 of 10 rows, first in row 7") as error:
        pack("t", *words)
    assert "--drop-rows" in str(error.value)
    assert ("--fill" in str(error.value)) == (column == "b")
    for option in ("--drop-rows", "--skip-damaged"):
        layout = pack("t", *words, option)
        assert (layout.n_samples, json.loads(layout.attrs["skipped"])) == (9, ["6"])


def test_a_table_without_rows_or_with_another_column(tmp_path, pack):
    with pytest.raises(DataFileError, match="has no rows"):
        pack("t", table(tmp_path / "raw/t.csv", []), "--as", "table")
    with pytest.raises(DataFileError, match=r"no column \['lable'\].*größe"):
        pack(
            "t", table(tmp_path / "raw/t.csv", [(1, 2, 3, 4)]), "--as", "table", "--label", "lable"
        )
