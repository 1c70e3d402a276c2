"""Series: each row is where its time says, gaps are NaN, and no two splits share a step."""

import itertools
import json
import sys
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch
from hdf5_packing import all_rows, packing  # noqa: F401
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from labrig.data import DataFileError, H5DataModule, H5Dataset
from labrig.errors import LabError

HOUR = timedelta(hours=1)
START = datetime(2024, 1, 1)
DATES = ("2024-01-03", "2024-01-04")


def table(n=120, name="north", first=0.0, start=START, left_out=()):
    """Hours of one series: `load` counts up from `first`, so that a value says where it lies."""
    kept = [i for i in range(n) if i not in left_out]
    return pa.table(
        {
            "region": [name] * len(kept),
            "hour": [start + i * HOUR for i in kept],
            "load": [float(first + i) for i in kept],
            "wind speed": [i % 7 for i in kept],
        }
    )


def write(path, *tables):
    whole = pa.concat_tables(tables)
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = pa.csv.write_csv if path.suffix == ".csv" else pa.parquet.write_table
    writer(whole, path)
    return path


def regions(path, **how):
    return write(path, table(name="north", **how), table(name="south", first=1000, **how))


def series_of(layout, split, name="load"):
    values, ends = all_rows(layout, name, f"{name}_offsets")
    return [values[a:b] for a, b in np.array([*pairwise(ends)])[layout.map(layout.split(split))]]


LONG = ("--as", "series", "--series", "region", "--time", "hour")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("shuffles", [False, True])
def test_rows_lie_where_their_times_say_in_any_order_of_the_table(
    tmp_path, pack, suffix, shuffles, capsys
):
    file = regions(tmp_path / f"raw/a.{suffix}")
    if shuffles:
        whole = pa.concat_tables([table(name="north"), table(name="south", first=1000)])
        write(file, whole.take(np.random.default_rng(0).permutation(len(whole))))
    layout = pack("a", file, *LONG, "--split-by-time", ",".join(DATES), "--gap", "3")
    found = {split: sorted(map(list, series_of(layout, split))) for split in layout.splits}
    hours = {"train": range(45), "val": range(48, 69), "test": range(72, 120)}
    for split, part in hours.items():
        assert found[split] == [[first + i for i in part] for first in (0, 1000)], split
    times = series_of(layout, "val", "time")[0]
    assert np.datetime64(int(times[0]), "s") == np.datetime64("2024-01-03")
    assert (np.diff(times) == 3600).all()
    assert {*layout.fields} == {"load", "wind_speed", "time", "group"}
    said = capsys.readouterr()
    assert "'wind speed' is wind_speed" in said.out
    assert ("rows not in the order of hour" in said.err) == shuffles


def test_a_folder_has_a_series_in_each_table(tmp_path, pack):
    for i in range(10):
        file = tmp_path / f"raw/s/{i % 2}/{i // 2}.csv"  # two are called 0, and are two series
        write(file, table(50 + i, first=i * 1000).drop_columns("region"))
    with pytest.raises(DataFileError, match="looks like series: --as series"):
        pack("s", tmp_path / "raw/s", "--as", "table")
    layout = pack("s", tmp_path / "raw/s", "--as", "series", "--time", "hour")
    assert {split: array.n_rows for split, array in layout.splits.items()} == {
        "train": 8, "val": 1, "test": 1,
    }  # fmt: skip
    lengths = sorted(map(len, itertools.chain(*(series_of(layout, s) for s in layout.splits))))
    assert lengths == [*range(50, 60)]
    assert len({*all_rows(layout, "group")[0]}) == 10


def test_a_column_that_is_called_as_a_mask_is_read_as_it_is(tmp_path, pack):
    whole = table(100).append_column("load_mask", pa.array([float(i % 2) for i in range(100)]))
    write(tmp_path / "raw/a.csv", whole)
    layout = pack("a", tmp_path / "raw/a.csv", *LONG, "--split-by-time", "2024-01-03,2024-01-04")
    data = H5Dataset(layout, "train", ("load", "load_mask"), windows={"past": 8, "next": 4})
    assert [x.tolist() for x in data[3]] == [
        [float(i) for i in range(3, 15)],
        [float(i % 2) for i in range(3, 15)],
    ]


def test_a_table_of_a_folder_without_a_row_is_named(tmp_path, pack):
    for i in range(4):
        write(tmp_path / f"raw/s/{i}.csv", table(0 if i == 2 else 50).drop_columns("region"))
    with pytest.raises(DataFileError, match=r"2\.csv has no rows"):
        pack("s", tmp_path / "raw/s", "--as", "series", "--time", "hour")
    with pytest.raises(LabError, match="needs a source"):
        pack("s", "--as", "series", "--split-by-time", "2024-01-02")


def test_a_row_that_is_cut_is_refused_or_left_out_by_name(tmp_path, pack):
    file = write(tmp_path / "raw/a.csv", table(100))
    file.write_text(file.read_text() + '"north",2024-01-05 04:00:00.000000\n')
    how = (*LONG, "--split-by-time", "2024-01-03,2024-01-04")
    with pytest.raises(DataFileError, match="row 101 is cut"):
        pack("a", file, *how)
    layout = pack("a", file, *how, "--skip-damaged")
    assert json.loads(layout.attrs["skipped"]) == ["a:100"]


def test_a_step_without_a_row_is_a_gap_and_a_mask_tells(tmp_path, pack, capsys):
    file = write(tmp_path / "raw/a.csv", table(100, left_out=(10, 11, 50)))
    layout = pack("a", file, *LONG, "--split-by-time", "2024-01-04,2024-01-05")
    assert "3 steps without a row, first after 2024-01-01T09:00:00" in capsys.readouterr().err
    (train,) = series_of(layout, "train")
    assert np.flatnonzero(np.isnan(train)).tolist() == [10, 11, 50]
    data = H5Dataset(layout, "train", ("load", "load_mask"), windows={"past": 8, "next": 4})
    assert len(data) == 72 - 12 + 1
    alone = H5Dataset(layout, "train", ("load_mask",), windows={"past": 8, "next": 4})
    for i in range(len(data)):
        load, mask = data[i]
        assert torch.equal(alone[i][0], mask)
        assert mask.tolist() == [step not in (10, 11, 50) for step in range(i, i + 12)]
        assert load[mask].tolist() == [s for s in range(i, i + 12) if s not in (10, 11, 50)]


@pytest.mark.parametrize(
    ("change", "words", "message"),
    [
        ({}, (), r"1 series cannot be divided into train, val, test.*--split-by-time 2024-01-05"),
        ({"twice": 1}, (), r"two rows of the time 2024-01-01T00:00:00"),
        ({"odd": 1}, (), r"most are 3600 apart, but .*T01:00:00 and 2024-01-01T01:10:00"),
        ({"far": 1}, (), r"a step of 3600 makes \d+ steps of 121 rows"),
        ({}, ("--split-by-time", "2030-01-01"), r"leaves nothing for val: the times are 2024-01-01"),
        ({}, ("--split-by-time", "2024-01-03,soon"), r"soon: expected a date such as"),
        ({}, ("--split-by-time", "2024-01-04,2024-01-03"), r"expected times in their order"),
        ({"group": 1}, ("--split-by-time", "2024-01-03"), r"give 'group', which has another meaning"),
        ({"german": 1}, ("--split-by-time", "2024-01-03"), r"texts, such as '01.02.2024'"),
        ({"text": 1}, ("--split-by-time", "2024-01-03"), r"column 'note' holds texts, such as 'a'"),
    ],
)  # fmt: skip
def test_what_would_be_guessed_is_refused(tmp_path, pack, change, words, message):
    whole = table()
    rows = {"twice": table(1), "odd": table(1, start=START + HOUR * 7 / 6)}
    rows["far"] = table(1, start=START.replace(year=2099))
    for name in change:
        whole = pa.concat_tables([whole, rows[name]]) if name in rows else whole
    if "group" in change:
        whole = whole.append_column("group", pa.array([1.0] * len(whole)))
    if "german" in change:
        whole = whole.set_column(1, "hour", pa.array(["01.02.2024"] * len(whole)))
    if "text" in change:
        whole = whole.append_column("note", pa.array(list("ab") * 60))
    write(tmp_path / "raw/a.parquet", whole)
    with pytest.raises(DataFileError, match=message):
        pack("a", tmp_path / "raw/a.parquet", *LONG, *words)


def test_by_time_and_by_series_no_series_is_in_two_splits(tmp_path, pack, capsys):
    names = [f"s{i}" for i in range(10)]
    file = write(
        tmp_path / "raw/a.csv", *(table(name=n, first=i * 1000) for i, n in enumerate(names))
    )
    layout = pack("a", file, *LONG, "--split-by-time", ",".join(DATES), "--group", "region")
    found = {
        split: {int(x[0]) // 1000 for x in series_of(layout, split)} for split in layout.splits
    }
    assert sorted(map(len, found.values())) == [1, 1, 8]
    assert len(set.union(*found.values())) == 10
    assert {int(x[0]) % 1000 for x in series_of(layout, "test")} == {72}
    assert "20 parts left out, whose region is in another split" in capsys.readouterr().err


# Times: each row keeps its own, whatever the fractions; what is not regular is refused

SHORT = ("--as", "series", "--time", "t", "--split-by-time")


def seconds(times, form="{:.5f}"):
    return [form.format(each) for each in times]


def iso(times):
    return [str(START + timedelta(seconds=float(each))) for each in times]


def write_times(path, times):
    path.write_text("t,v\n" + "".join(f"{time},{i}\n" for i, time in enumerate(times)))
    return path


@pytest.mark.parametrize(
    ("times", "splits"),
    [
        (seconds(np.arange(12000) / 60), "100,150"),
        (seconds(np.arange(6000) / 30), "100,150"),
        (seconds(np.delete(np.arange(12000), range(5000, 6200)) / 60), "120,150"),
        (iso(np.arange(12000) / 1e3), "2024-01-01T00:00:08,2024-01-01T00:00:10.5"),
        (iso(np.arange(3000) / 1e4), "2024-01-01T00:00:00.1,2024-01-01T00:00:00.2"),
        (seconds(np.arange(1, 31) / 10, "{:.1f}"), "0.8,1.5"),
    ],
)  # fmt: skip
def test_each_row_keeps_its_time_and_lies_in_the_split_of_it(tmp_path, pack, times, splits):
    layout = pack("a", write_times(tmp_path / "raw/a.csv", times), *SHORT, splits)
    is_date = "-" in times[0]
    zone = np.datetime64("1970-01-01", "us")
    number = (
        (lambda text: (np.datetime64(text, "us") - zone).astype(int) / 1e6) if is_date else float
    )
    expected = np.array([number(time) for time in times])
    ends = [number(text) for text in splits.split(",")]
    for i, split in enumerate(("train", "val", "test")):
        (values,), (time,) = series_of(layout, split, "v"), series_of(layout, split, "time")
        has_row = ~np.isnan(values)
        rows = np.flatnonzero(np.searchsorted(ends, expected, "right") == i)
        assert values[has_row].tolist() == rows.tolist(), split
        assert time[has_row].tolist() == expected[rows].tolist(), split
        assert (~has_row).sum() == (1200 if len(times) == 10800 and i == 0 else 0)
        step = (expected[-1] - expected[0]) / (len(times) + 1200 * (len(times) == 10800) - 1)
        assert np.abs(np.diff(time) / step - 1).max() < 5e-3


@pytest.mark.parametrize(
    ("times", "splits", "message"),
    [
        ([*range(20), "inf"], "5,10", r"--time: t: 1 of 21 rows, first in row 21 without a time"),
        (range(20), "nan,9", r"--split-by-time nan: expected a number"),
        (range(20), "5,inf", r"--split-by-time inf: expected a number"),
        (iso(range(20)), "NaT", r"NaT: expected a date"),
        (iso(range(20)), "2024-01-01T00:00+02:00", r"expected a date such as 2024-01-01T00:00:00"),
        (np.cumsum(1 + 8e-4 * (np.arange(200) > 99)), "5,9", r"not regular: most are 1.* and "),
    ],
)  # fmt: skip
def test_times_that_say_no_step_are_refused(tmp_path, pack, times, splits, message):
    file = write_times(tmp_path / "raw/a.csv", times)
    with pytest.raises(DataFileError, match=message):
        pack("a", file, *SHORT, splits)


@pytest.mark.parametrize("val", ["2024-01-03T00:00Z", "2024-01-03T02:00+02:00"])
def test_times_with_a_zone_are_parted_at_times_with_a_zone(tmp_path, pack, val):
    hours = [f"{(START + i * HOUR).isoformat()}+02:00" for i in range(100)]
    file = write_times(tmp_path / "raw/a.csv", hours)
    layout = pack("a", file, *SHORT, f"{val},2024-01-04T00:00Z")
    assert series_of(layout, "val", "v")[0][0] == 50
    assert series_of(layout, "val", "time")[0][0] == 1704240000
    with pytest.raises(DataFileError, match=r"expected a date such as 2023-12-31T22:00:00Z"):
        pack("a", file, *SHORT, "2024-01-03")


def test_tables_of_two_resolutions_are_series_of_one_time(tmp_path, pack):
    write_times(tmp_path / "raw/whole.csv", iso(range(60)))
    write_times(tmp_path / "raw/half.csv", iso(np.arange(60) + 0.5))
    layout = pack("a", tmp_path / "raw", *SHORT, "2024-01-01T00:00:20,2024-01-01T00:00:40")
    assert {x[0] % 1 for x in series_of(layout, "val", "time")} == {0.0, 0.5}


def test_a_folder_is_read_without_what_tools_left_there_and_each_series_has_a_name(
    tmp_path, pack, capsys
):
    places = [f"s{i}.csv" for i in range(4)] + [".ipynb_checkpoints/s0.csv", "__MACOSX/s1.csv"]
    for i, place in enumerate(places):
        write(tmp_path / "raw" / place, table(30, first=i).drop_columns("region"))
    for name in ("s8.txt", "s9.xlsx", "notes.gz"):
        (tmp_path / "raw" / name).touch()
    how = (tmp_path / "raw", "--as", "series", "--time", "hour")
    assert pack("a", *how).n_samples == 4
    told = "files: 9 found, 4 packed, 3 of other kinds (.gz 1, .txt 1, .xlsx 1), 2 hidden"
    assert told in capsys.readouterr().out
    (tmp_path / "raw/s0.csv").rename(tmp_path / "raw/s1.tsv")
    with pytest.raises(DataFileError, match=r"s1.csv and .*s1.tsv are both the series 's1'"):
        pack("a", *how, "--separator", ",")


# The property: whatever the series, gaps, strides and folds, no time step of a series is in two splits


@pytest.mark.release
@pytest.mark.slow
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    lengths=st.lists(st.integers(100, 140), min_size=4, max_size=8),
    seed=st.integers(0, 99),
    gap=st.integers(0, 9),
    window=st.tuples(st.integers(1, 12), st.integers(1, 6), st.integers(1, 20)),
    by=st.sampled_from(["time", "series"]),
    folds=st.sampled_from([None, 2, 3]),
)
def test_no_window_of_one_split_shares_a_step_with_another(
    tmp_path, pack, lengths, seed, gap, window, by, folds
):
    rng = np.random.default_rng(seed)
    tables = [
        table(
            n,
            f"s{i}",
            i * 1000,
            START + int(rng.integers(9)) * HOUR,
            rng.integers(1, n - 1, 5),
        )
        for i, n in enumerate(lengths)
    ]
    for file in (tmp_path / "data").glob("*"):
        file.unlink()
    file = write(tmp_path / "raw/a.parquet", *tables)
    how = ("--split-by-time", ",".join(DATES), "--gap", gap) if by == "time" else ()
    shares = ("--split", "train=0.5,val=0.25,test=0.25", "--seed", seed)
    layout = pack("a", file, *LONG, *shares, *how)
    past, ahead, stride = window
    steps: dict[str, set] = {}
    for fold in range(folds) if folds else [None]:
        data = H5DataModule(
            str(layout.path),
            fields=["load", "time", "group"],
            windows={"past": past, "next": ahead, "stride": stride},
            folds=folds,
            fold=fold,
        )
        for split in ("train", "val", "test"):
            loader = data.loader(split, shuffle=split == "train")
            n_windows = 0
            steps[split] = set()
            for load, time, group in loader:
                n_windows += len(load)
                assert load.shape[1] == past + ahead
                assert (time.diff(dim=1) == 3600).all()
                for number, times in zip(group.tolist(), time.tolist(), strict=True):
                    steps[split] |= {(number, each) for each in times}
            rows = data.rows(split)
            rows = layout.map(layout.split(split)) if rows is None else rows
            n_steps = np.diff(layout.map(layout.arrays["load_offsets"]))[rows]
            long = n_steps[n_steps >= past + ahead]
            assert n_windows == ((long - past - ahead) // stride + 1).sum()
        data.teardown("fit")
        for one, other in itertools.combinations(steps.values(), 2):
            assert not one & other


def test_each_window_is_read_once_an_epoch_in_another_order(tmp_path, pack):
    layout = pack("a", regions(tmp_path / "raw/a.csv"), *LONG, "--split-by-time", ",".join(DATES))
    data = H5DataModule(
        str(layout.path), fields=["load"], windows={"past": 5, "next": 2, "stride": 3}
    )
    loader = data.loader("train", shuffle=True)
    first, second = (torch.cat([load for (load,) in loader])[:, 0] for _ in range(2))
    expected = [start + i for start in (0, 1000) for i in range(0, 48 - 7 + 1, 3)]
    assert sorted(first.tolist()) == sorted(second.tolist()) == expected
    assert first.tolist() != second.tolist()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"windows": {"past": 5, "next": 2}, "windows_per_epoch": 9}, "read once an epoch"),
        ({"windows": {"stride": 3}}, "expected whole numbers above 0"),
        ({"windows": {"past": 5, "load": 3}}, "expected whole numbers above 0"),
        ({"windows": {"past": 0, "next": 2}}, "expected whole numbers above 0"),
        ({"windows": {"past": 500, "next": 2}}, "no sample of the split has 502 values"),
        ({"windows": {"past": 5}, "fields": ["group"]}, "none of data.fields, group, varies"),
    ],
)
def test_windows_that_say_nothing_are_refused(tmp_path, pack, settings, message):
    layout = pack("a", regions(tmp_path / "raw/a.csv"), *LONG, "--split-by-time", ",".join(DATES))
    with pytest.raises(LabError, match=message):
        H5DataModule(str(layout.path), **{"fields": ["load"]} | settings).loader("val")


# Windows that a class cuts itself: source and span

OWN = """
import numpy as np
from labrig.data import H5DataModule


class Cut(H5DataModule):
    @classmethod
    def samples(cls, source):
        for name in ("a", "b", "c", "d", "e", "f"):
            for start in range(0, 100, 10):
                split = {}
                yield {"x": np.arange(start, start + LENGTH), "y": start, "source": name, **split,
                       "span": (start, start + LENGTH - 1)}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("length", "split", "message"),
    [
        (30, "{}", r"samples begin within samples of \w+, and are in another split, such as"),
        (30, '{"split": "train" if start < 50 else "val"}', "12 samples begin within samples of train"),
        (10, '{"split": "train" if start < 50 else "val"}', None),
        (30, '{"group": name}', None),
    ],
)  # fmt: skip
def test_samples_that_share_steps_are_not_divided(
    tmp_path, pack, monkeypatch, length, split, message
):
    module = tmp_path / "own_cut.py"
    module.write_text(OWN.replace("LENGTH", str(length)).replace("{}", split))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_cut", raising=False)
    if message:
        with pytest.raises(DataFileError, match=message):
            pack("cut", "--as", "own_cut.Cut")
        return
    layout = pack("cut", "--as", "own_cut.Cut")
    assert layout.fields["span"].shape == (60, 2)
    for fold in range(3):
        data = H5DataModule(str(layout.path), fields=["x", "y"], folds=3, fold=fold)
        data.prepare_data()
    if length == 10:  # neighbours touch, and share nothing
        return
    data = H5DataModule(str(layout.path), fields=["x"])
    rows = layout.map(layout.split("train"))
    monkeypatch.setattr(data, "rows", lambda name: rows[::2] if name == "train" else rows[1::2])
    with pytest.raises(DataFileError, match="begin within samples of"):
        data.prepare_data()
