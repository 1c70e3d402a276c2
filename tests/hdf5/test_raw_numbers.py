"""Numbers of a table keep their values, in x and as labels, or are refused."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hdf5_packing import all_rows, packing  # noqa: F401
from hdf5_tables import LABEL, classes, csv, lines, packed, parquet
from labrig.data import DataFileError


def test_whole_labels_stay_numbers_and_fractions_too(tmp_path, pack):
    for text, dtype, value in (
        ("-1", np.int64, -1),
        ("0.5", np.float32, 0.5),
        ("3.0", np.int64, 3),
    ):
        rows = [(text, i) for i in range(5)]
        path = csv(tmp_path / "raw/t.csv", lines(("y", "row"), *rows))
        (y,) = packed(pack("t", path, "--as", "table", "--label", "y"), "y")
        assert (y.dtype, y[0]) == (dtype, value)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1_700_000_000 + i for i in range(40)], np.float64),
        ([1_700_000_000.25 + i for i in range(40)], np.float64),
        ([2**60 + i for i in range(40)], np.int64),
        ([16_777_216.0, 16_777_217.0], np.float64),
        ([1e300, 1.5], np.float64),
        ([0.1, 0.25, 3], np.float32),
        ([1, 2, 3], np.float32),
        ([16_000_000, 16_000_001], np.float32),
    ],
)
def test_numbers_that_float32_merges_are_kept_apart(tmp_path, pack, capsys, values, dtype):
    """R29: 40 different times were one."""
    rows = list(enumerate(values))
    path = csv(tmp_path / "raw/t.csv", lines(("row", "t"), *rows))
    layout = pack("t", path, "--as", "table")
    (x,) = all_rows(layout, "x")
    assert x.dtype == dtype
    assert len(np.unique(x[:, 1])) == len(set(values))
    if dtype != np.float32:
        assert "x is" in capsys.readouterr().out
        assert set(x[:, 1].tolist()) == set(values)


def test_what_no_type_holds_is_refused(tmp_path, pack):
    for other in ("0.5", "1e300"):
        path = csv(tmp_path / "raw/t.csv", lines(("big", "b"), (2**60, 1), (2**60 + 1, other)))
        with pytest.raises(
            DataFileError, match=r"column 'big' has 1152921504606846977, of more than 53 bits"
        ):
            pack("t", path, "--as", "table")
    path = csv(tmp_path / "raw/t.csv", lines(("a", "b"), (2**64 - 1, 1), (2**64 - 2, 2)))
    with pytest.raises(
        DataFileError, match=r"column 'a' has 18446744073709551615, of more than 53 bits"
    ):
        pack("t", path, "--as", "table")


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        ([f"{i}e19" for i in range(1, 41)], [i * 1e19 for i in range(1, 41)]),
        (["1", "9223372036854775808"] * 4, [1, 2**63] * 4),
        (["1", "9007199254740991.0"] * 4, [1, 2**53 - 1] * 4),
    ],
)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_large_whole_labels_are_no_other_numbers(tmp_path, pack, texts, values):
    path = csv(tmp_path / "raw/t.csv", lines(("y", "row"), *zip(texts, range(99), strict=False)))
    (y,) = packed(pack("t", path, *LABEL), "y")
    assert y.tolist() == values
    own = [i * 1e18 for i in range(1, 1000, 9)]
    path = parquet(tmp_path / "raw/t.parquet", y=own, row=range(len(own)))
    (y,) = packed(pack("t", path, *LABEL), "y")
    assert y.tolist() == own


BIG = [2**60 + 3 + 4096 * i for i in range(40)]
HALVES = [i / 2 for i in range(40)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"y": ["5.0", 2**60 + 1] * 9, "row": range(18)},
            r"column 'y' has 1152921504606846977, of more than 53 bits",
        ),
        (
            {"y": ["5", "1e400", "6"] * 9, "row": range(27)},
            r"y: 9 of 27 rows, first in row 2 \('1e400' among numbers\)",
        ),
        ({"id": BIG, "y": HALVES, "a": HALVES}, r"column 'id' has 1152921504606846979, of more"),
        ({"id": [2**63 + i for i in BIG], "y": HALVES}, r"'id' has \d*, of more than 53 bits"),
        ({"id": [2**60 + 1, "", 1.5] * 9, "y": range(27)}, r"'id' has \d*, of more than 53 bits"),
    ],
)
def test_whole_numbers_that_float64_would_change_are_refused(tmp_path, pack, columns, message):
    path = csv(tmp_path / "raw/t.csv", lines([*columns], *zip(*columns.values(), strict=False)))
    with pytest.raises(DataFileError, match=message):
        pack("t", path, *LABEL)


def test_large_numbers_of_parquet_are_kept_or_refused(tmp_path, pack):
    big = pa.array([2**63 + i for i in BIG], pa.uint64())
    path = parquet(tmp_path / "raw/t.parquet", id=big, row=range(40))
    (x,) = packed(pack("t", path, "--as", "table", "--columns", "id"), "x")
    assert sorted(x[:, 0].tolist()) == big.to_pylist()
    path = parquet(tmp_path / "raw/t.parquet", id=big, a=HALVES)
    with pytest.raises(DataFileError, match=r"column 'id' has \d*, of more than 53 bits"):
        pack("t", path, "--as", "table")


@pytest.mark.parametrize(
    ("values", "kind", "is_kept"),
    [
        ([2**60 + i for i in range(40)], pa.decimal128(38, 0), True),
        ([Decimal(i) / 4 for i in range(40)], pa.decimal128(38, 2), True),
        ([2**70 + 2**40 * i for i in range(40)], pa.decimal128(38, 0), False),
        ([2**60 + Decimal(i) / 4 for i in range(40)], pa.decimal128(38, 2), False),
    ],
)
def test_decimals_are_kept_or_refused(tmp_path, pack, values, kind, is_kept):
    path = parquet(
        tmp_path / "raw/t.parquet", a=pa.array([*map(Decimal, values)], kind), row=range(40)
    )
    if is_kept:
        (x,) = packed(pack("t", path, "--as", "table"), "x")
        assert x[:, 0].tolist() == values
        return
    with pytest.raises(DataFileError, match="too many digits for float64"):
        pack("t", path, "--as", "table")


@pytest.mark.parametrize(
    "values",
    [
        [0.0, *(1_700_000_000.5 + i for i in range(40))],
        [-999_999, *(52.5200066 + i * 1e-7 for i in range(40))],
        [*[0.0] * 60, *(1_700_000_000.5 + i for i in range(40))],
    ],
)
def test_an_outlier_does_not_let_float32_merge_the_others(tmp_path, pack, values):
    path = csv(tmp_path / "raw/t.csv", lines(("v", "y"), *zip(values, values, strict=False)))
    for field, words in (
        ("x", LABEL),
        ("y", LABEL),
        ("v", ("--as", "series", "--split", "train=1")),
    ):
        (found,) = all_rows(pack("t", path, *words), field)
        assert set(found.reshape(-1).tolist()) == set(values)


def test_noise_stays_float32_and_each_field_tells_of_it(tmp_path, pack, capsys):
    values = np.random.default_rng(0).normal(size=30_000)
    assert len(set(values.astype(np.float32))) < len(values)
    path = csv(tmp_path / "raw/t.csv", lines(("v", "y"), *zip(values, values, strict=False)))
    layout = pack("t", path, *LABEL)
    assert {array.dtype for array in all_rows(layout, "x", "y")} == {np.dtype(np.float32)}
    out = capsys.readouterr().out
    assert "y is float32: y has fractions, rounded to 6 digits" in out
    assert "x is float32: it rounds the fractions of 1 of 1 columns" in out
    pack("t", path, "--as", "series", "--split", "train=1")
    assert "v is float32: v has fractions, rounded to 6 digits" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("fill", "value", "other"),
    [
        ("1e300", 1e300, 1.5),
        ("16777217", 16777217, 1.5),
        ("1e19", 1e19, 2**24 + 1),
        ("-1", -1, BIG[0]),
    ],
)
def test_what_fills_gaps_is_stored_as_it_is(tmp_path, pack, fill, value, other):
    path = csv(tmp_path / "raw/t.csv", lines(("row", "v"), (0, ""), (1, other)))
    (x,) = all_rows(pack("t", path, "--as", "table", f"--fill={fill}"), "x")
    assert {*x[:, 1].tolist()} == {value, other}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_missing_numbers_are_gaps_however_they_are_written(tmp_path, pack, kind, capsys):
    a = [-999 if i % 4 == 0 else i for i in range(40)]
    b = [-999.0 if i % 5 == 0 else i / 2 for i in range(40)]
    path = parquet(tmp_path / "raw/t.parquet", a=a, b=b, c=a, row=range(40))
    if kind == "csv":
        path = csv(
            tmp_path / "raw/t.csv",
            lines(("a", "b", "c", "row"), *zip(a, b, a, range(40), strict=False)),
        )
    layout = pack("t", path, "--as", "table", "--label", "c", "--missing=-999", "--drop-rows")
    assert layout.n_samples == 24
    assert not any((values == -999).any() for values in all_rows(layout, "x", "y"))
    pack("t", path, "--as", "series", "--split", "train=1", "--missing=-999")
    assert "a: 10 of 40 rows have no value" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["1.1", "1.10", "1.2"], r"'1\.1' and '1\.10'\. .*--join-names"),
        (['"1,000"', '"2,000"'], r"Type --thousands , .*--names-as-written"),
        (['"0,5"', '"1,5"'], r"Type --decimal , then.*--names-as-written"),
        (["2024-01-01", "2024-01-02"], r"as a date\. Write a number.*--names-as-written"),
    ],
)
def test_labels_that_are_numbers_in_another_form_are_refused_or_classes(
    tmp_path, pack, values, message
):
    path = csv(
        tmp_path / "raw/t.csv",
        lines(("y", "row"), *((values[i % len(values)], i) for i in range(9))),
    )
    with pytest.raises(DataFileError, match=message):
        pack("t", path, *LABEL)
    layout = pack("t", path, *LABEL, "--names-as-written")
    assert classes(layout) == [value.strip('"') for value in values]


def test_false_is_no_missing_number(tmp_path, pack):
    path = csv(tmp_path / "raw/t.csv", "a,row\nfalse,1\ntrue,2\n")
    (x,) = packed(pack("t", path, "--as", "table", "--missing=0"), "x")
    assert x.tolist() == [[0, 1], [1, 2]]


def test_spellings_of_one_fraction_are_one_number_of_x(tmp_path, pack):
    path = csv(tmp_path / "raw/t.csv", "a,row\n3.1,0\n3.10,1\n")
    (x,) = packed(pack("t", path, "--as", "table"), "x")
    assert x[:, 0].tolist() == [np.float32(3.1)] * 2
