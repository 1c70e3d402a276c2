"""What is packed of a table is what pyarrow reads, in a type that tells its values apart, or it is refused."""

import datetime
import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import sklearn.datasets
from hdf5_packing import all_rows, packing  # noqa: F401
from hdf5_tables import LABEL, classes, csv, lines, packed, parquet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from labrig.data import DataFileError
from labrig.machine.text_table import is_number_text

LETTERS = "abcdefghij"


def test_rows_that_are_longer_than_the_head_line_are_refused(tmp_path, pack):
    """R04, R05: the label was the next column, 27 columns were gone."""
    of_r = csv(
        tmp_path / "raw/r.csv", lines(("sex", "w"), *((i, "fm"[i % 2], i) for i in range(9)))
    )
    with pytest.raises(
        DataFileError, match=r"row 1 has 3 values, the head line 2.*So are 9 rows.*R writes"
    ):
        pack("t", of_r, "--as", "table", "--label", "sex")
    cancer = Path(sklearn.datasets.__file__).parent / "data/breast_cancer.csv"
    with pytest.raises(DataFileError, match=r"row 1 has 31 values, the head line 4"):
        pack("t", cancer, "--as", "table", "--label", "benign")
    some = csv(tmp_path / "raw/s.csv", "a,b\n1,2\n\n3,4\n5,6,7\n")
    with pytest.raises(DataFileError, match=r"row 3 has 3 values, the head line 2"):
        pack("t", some, "--as", "table", "--drop-rows")


def test_labels_are_texts_first(tmp_path, pack):
    """R28: four classes became three."""
    names = ["1_1", "11", "2_0", "3_5"]
    rows = [(names[i % 4], i) for i in range(40)]
    layout = pack(
        "t",
        csv(tmp_path / "raw/t.csv", lines(("y", "row"), *rows)),
        "--as",
        "table",
        "--label",
        "y",
    )
    y, row = packed(layout, "y", "x")
    assert [classes(layout)[i] for i in y] == [names[int(i) % 4] for i in row[:, 0]]


@pytest.mark.parametrize("names", [("007", "7"), ("1", "1.0"), ("cat", "Cat"), ("cat", "cat ")])
def test_labels_that_are_spellings_of_one_are_refused_or_kept_or_joined(tmp_path, pack, names):
    rows = [(names[i % 2], i) for i in range(8)]
    words = (
        csv(tmp_path / "raw/t.csv", lines(("y", "row"), *rows)),
        "--as",
        "table",
        "--label",
        "y",
    )
    with pytest.raises(DataFileError, match=r"differ in their spelling only.*--join-names"):
        pack("t", *words)
    assert classes(pack("t", *words, "--names-as-written")) == sorted(names)
    (y,) = packed(pack("t", *words, "--join-names"), "y")
    assert len(set(y.tolist())) == 1


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("0", "true", ()),
        ("2024-12-31", "2024-12-31 10:00:00", ("--times",)),
        ("2024-12-31 10:00:00", "2024-12-31 10:00:00Z", ("--times",)),
        ("2024-12-31", "unknown", ("--times",)),
    ],
)
def test_columns_of_another_kind_in_another_table_are_refused(tmp_path, pack, first, second, words):
    paths = [
        csv(tmp_path / f"raw/{i}.csv", lines(("v",), *[[text]] * 9))
        for i, text in enumerate((first, second))
    ]
    with pytest.raises(DataFileError, match=r"column 'v' holds \S+ in .*0\.csv and .* in .*1\.csv"):
        pack("t", *paths, "--as", "table", *words)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["1,000"] * 9, r"with thousands separators\. Write a number"),
        (["2024-12-31"] * 9, r"as a date\. Write a number"),
        ([b"ab"] * 9, r"column 'v' holds binary, not one number or text"),
        (pa.array([b"ab"] * 9, pa.binary(2)), r"column 'v' holds fixed_size_binary\[2\], not one"),
        ([[1]] * 9, r"column 'v' holds list<.*>, not one"),
    ],
)
@pytest.mark.parametrize("label", [False, True])
def test_columns_of_parquet_that_no_option_reads_are_refused(
    tmp_path, pack, values, message, label
):
    path = parquet(tmp_path / "raw/t.parquet", v=values, row=range(9))
    words = ["--label", "v"] if label else ["--times"]
    if label and isinstance(values[0], str):
        message = "--names-as-written"
    with pytest.raises(DataFileError, match=message):
        pack("t", path, "--as", "table", *words)


def test_a_column_that_says_the_split_is_no_feature(tmp_path, pack):
    rows = [(i, "train" if i % 3 else "Test") for i in range(9)]
    path = csv(tmp_path / "raw/t.csv", lines(("row", "split"), *rows))
    with pytest.raises(
        DataFileError, match=r"column 'split' does not divide.*--split-file.*--columns"
    ):
        pack("t", path, "--as", "table")
    assert pack("t", path, "--as", "table", "--columns", "row").n_samples == 9
    path = csv(tmp_path / "raw/t.csv", lines(("row", "split"), *((i, i / 2) for i in range(9))))
    assert pack("t", path, "--as", "table").n_samples == 9


def test_a_head_line_that_may_be_a_row_is_told(tmp_path, pack, capsys):
    rows = [(i / 2 + 5, "setosa") for i in range(9)]
    pack("t", csv(tmp_path / "raw/t.csv", lines(*rows)), "--as", "table", "--label", "setosa")
    assert "the first line has the number 5.0 as a name" in capsys.readouterr().err
    path = parquet(tmp_path / "raw/t.parquet", **{"0": [1.0], "1": [2.0]})
    assert pack("t", path, "--as", "table").n_samples == 1


def test_an_empty_column_and_a_comment_are_called_so(tmp_path, pack, capsys):
    pack("t", csv(tmp_path / "raw/t.csv", "a,b,\n1,2,\n"), "--as", "table")
    assert "column '' left out: it is empty" in capsys.readouterr().out
    with pytest.raises(DataFileError, match=r"the head line 1 \(# made by me\)"):
        pack("t", csv(tmp_path / "raw/t.csv", "# made by me\na,b\n1,2\n"), "--as", "table")


def test_a_table_of_a_label_alone_is_refused(tmp_path, pack):
    with pytest.raises(DataFileError, match=r"has no x, only y\. Add"):
        pack("t", csv(tmp_path / "raw/t.csv", "y\n1\n2\n"), *LABEL)


def test_an_empty_line_of_one_column_is_a_gap(tmp_path, pack):
    path = csv(tmp_path / "raw/t.csv", "v\n0\n\n2\n")
    with pytest.raises(DataFileError, match=r"v: 1 of 3 rows, first in row 2"):
        pack("t", path, "--as", "table")
    (v,) = all_rows(pack("t", path, "--as", "series", "--split", "train=1"), "v")
    np.testing.assert_array_equal(v, [0, np.nan, 2])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["1,000", "20,500", "999"], r"--thousands , \(or --decimal ,"),
        (["0,5", "1,25"], "--decimal ,"),
        (["5 %", "7%"], "as a share"),
        (["$5.00", "$7"], "with a currency"),
        (["31.12.2024", "1.2.2025"], "as a date"),
        (["2024-12-31", "2025-01-01"], "--times"),
        (["12:30:01", "13:00:00"], "--times"),
        (["007", "7"], "--texts v"),
    ],
)
def test_numbers_as_others_write_them_are_refused_with_what_to_type(
    tmp_path, pack, values, message
):
    """R31: prices became categories in the order of texts."""
    rows = [(f'"{values[i % len(values)]}"', i) for i in range(12)]
    path = csv(tmp_path / "raw/t.csv", lines(("v", "row"), *rows))
    with pytest.raises(DataFileError, match=message):
        pack("t", path, "--as", "table")
    layout = pack("t", path, "--as", "table", "--texts", "v", "--names-as-written")
    texts = json.loads(layout.arrays["x"].attrs["categories"])["v"]
    assert texts == sorted(values)


def test_the_options_read_them(tmp_path, pack):
    path = csv(tmp_path / "raw/t.csv", 'p;q;row\n1.000,5;"0,5";0\n999;2;1\n', "latin-1")
    words = ("--separator", ";", "--decimal", ",", "--thousands", ".")
    (x,) = packed(pack("t", path, "--as", "table", *words), "x")
    assert x.tolist() == [[1000.5, 0.5, 0], [999, 2, 1]]
    path = csv(tmp_path / "raw/t.csv", 'p,row\n"1,000",0\n999,1\n')
    (x,) = packed(pack("t", path, "--as", "table", "--thousands", ","), "x")
    assert x.tolist() == [[1000, 0], [999, 1]]
    path = csv(tmp_path / "raw/t.csv", "d,t,row\n2024-01-02,00:01:00,0\n1970-01-01,01:00:00,1\n")
    (x,) = packed(pack("t", path, "--as", "table", "--times"), "x")
    assert x.tolist() == [[1704153600, 60, 0], [0, 3600, 1]]


def test_an_index_column_is_left_out_with_a_line(tmp_path, pack, capsys):
    """R30: the label could be read off it."""
    path = csv(tmp_path / "raw/t.csv", lines(("", "f", "row"), *((i, i / 2, i) for i in range(20))))
    layout = pack("t", path, "--as", "table")
    assert json.loads(layout.arrays["x"].attrs["columns"]) == ["f", "row"]
    out = capsys.readouterr().out
    assert "column '' left out" in out
    assert "column row: numbers from 0 to 19, another one in every row" in out


def test_a_text_that_names_the_rows_is_no_feature(tmp_path, pack):
    """D1: perfect accuracy from nothing."""
    rows = [(f"food-{i}", i % 3, i) for i in range(20)]
    path = csv(tmp_path / "raw/t.csv", lines(("id", "y", "row"), *rows))
    with pytest.raises(
        DataFileError, match=r"column 'id' has 20 different texts in 20 rows, such as 'food-0'"
    ):
        pack("t", path, "--as", "table", "--label", "y")
    assert pack("t", path, "--as", "table", "--label", "y", "--texts", "id").n_samples == 20


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "a;b\n1;2\n", "--separator ';'"),
        ("a.csv", "a\tb\n1\t2\n", "--separator tab"),
        ("a.csv", "a;b\n1,5;2\n", "--separator ';'"),
        ("a.csv", "a b\n1 2\n", "--separator space"),
        ("a.csv", "ä,b\n1,2\n", "--encoding latin-1"),
        ("a.csv", "a,b\nö,2\nü,2\n", "--encoding latin-1"),
        ("a.csv", "a,a\n1,2\n", "column 'a' twice"),
        ("a.csv", 'a,b\n"1,2\n', "cut|cannot be read"),
    ],
)
def test_other_separators_and_encodings_are_named(tmp_path, pack, name, text, message):
    """R58: "has no column", and never a word of the separator."""
    with pytest.raises(DataFileError, match=message):
        pack("t", csv(tmp_path / "raw" / name, text, "latin-1"), "--as", "table", "--label", "b")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16", "cp1252"])
def test_each_encoding_gives_the_same(tmp_path, pack, encoding):
    text = "größe,stadt,row\n" + lines(*((i, ("Köln", "Zürich")[i % 2], i) for i in range(20)))
    more = [] if encoding.startswith("utf-8") else ["--encoding", encoding]
    layout = pack("t", csv(tmp_path / "raw/t.csv", text, encoding), "--as", "table", *more)
    assert json.loads(layout.arrays["x"].attrs["columns"])[0] == "größe"
    assert json.loads(layout.arrays["x"].attrs["categories"]) == {"stadt": ["Köln", "Zürich"]}
    if encoding == "utf-16":
        with pytest.raises(DataFileError, match="--encoding utf-16"):
            pack("t", tmp_path / "raw/t.csv", "--as", "table")


def test_capital_suffixes_and_compressed_tables(tmp_path, pack):
    csv(tmp_path / "raw/t.TSV", "a\trow\n5\t0\n")
    (tmp_path / "raw/t.csv.gz").write_bytes(gzip.compress(b"a,row\n5,0\n"))
    for name in ("t.TSV", "t.csv.gz"):
        (x,) = all_rows(pack("t", tmp_path / "raw" / name, "--as", "table"), "x")
        assert x.tolist() == [[5, 0]]


def test_a_class_called_none_is_kept_where_asked(tmp_path, pack):
    rows = [(("None", "NA", "flu")[i % 3], i) for i in range(9)]
    words = (
        csv(tmp_path / "raw/t.csv", lines(("y", "row"), *rows)),
        "--as",
        "table",
        "--label",
        "y",
    )
    with pytest.raises(DataFileError, match=r"(?s)y: 6 of 9 rows.*--missing"):
        pack("t", *words)
    assert classes(pack("t", *words, "--missing", "")) == ["NA", "None", "flu"]


def test_two_tables_of_one_name_have_keys_of_their_own(tmp_path, pack):
    """R63: one line of a split file placed two rows."""
    for i in range(2):
        (tmp_path / f"raw/d{i}").mkdir()
        csv(tmp_path / f"raw/d{i}/t.csv", lines(("row",), *((10 * i + k,) for k in range(3))))
    sources = [tmp_path / f"raw/d{i}/t.csv" for i in range(2)]
    keys = [f"d{i}/t.csv:{k}" for i in range(2) for k in range(3)]
    file = csv(
        tmp_path / "s.csv",
        "".join(f"{key},{'test' if key[1] == '1' else 'train'}\n" for key in keys),
    )
    layout = pack("t", *sources, "--as", "table", "--split-file", file)
    (x,) = all_rows(layout, "x")
    assert sorted(x[layout.map(layout.splits["test"])][:, 0]) == [10, 11, 12]
    csv(file, file.read_text().replace("d1/t.csv:2", "t.csv:2"))
    with pytest.raises(DataFileError, match=r"no line for 'd1/t\.csv:2'"):
        pack("t", *sources, "--as", "table", "--split-file", file)


def test_a_class_in_one_split_only_is_told(tmp_path, pack, capsys):
    """R27: '>50K.' of the test file was another class, in silence."""
    for split, dot in (("train", ""), ("test", ".")):
        rows = [((">50K", "<=50K")[i % 2] + dot, i) for i in range(10)]
        csv(tmp_path / f"raw/{split}.csv", lines(("y", "row"), *rows))
    words = [f"{split}={tmp_path}/raw/{split}.csv" for split in ("train", "test")]
    pack("t", *words, "--as", "table", "--label", "y")
    assert "classes that train lacks: <=50K., >50K." in capsys.readouterr().out


NUMBERS = st.one_of(
    st.integers(-(2**62), 2**62),
    st.integers(-99, 99),
    st.floats(allow_nan=False, allow_infinity=False, width=64),
    st.floats(-9, 9, width=32),
)
COLUMN = st.one_of(
    st.lists(st.one_of(st.none(), st.integers(-(2**40), 2**40)), min_size=12, max_size=12),
    st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=12, max_size=12),
    st.lists(NUMBERS, min_size=12, max_size=12),
    st.lists(st.booleans(), min_size=12, max_size=12),
    st.lists(st.sampled_from(["a,b", 'q"q', "new\nline", "é", "x"]), min_size=12, max_size=12),
    st.lists(st.sampled_from(["01", "1", "1_0", "10", "0x1F"]), min_size=12, max_size=12),
    st.lists(st.dates(), min_size=12, max_size=12),
)


@pytest.mark.slow
@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    columns=st.lists(COLUMN, min_size=1, max_size=4),
    kind=st.sampled_from([",", ";", "\t", "parquet"]),
    encoding=st.sampled_from(["utf8", "utf-8-sig", "latin-1"]),
)
def test_any_table(tmp_path_factory, pack, columns, kind, encoding):
    """Each value is that of pyarrow, to the digits of its type, and as many are different; or refused."""
    columns = [*columns, list(range(12))]
    table = pa.table({LETTERS[i]: pa.array(as_one_type(v)) for i, v in enumerate(columns)})
    folder = tmp_path_factory.mktemp("raw")
    path = folder / ("t.parquet" if kind == "parquet" else "t.csv")
    if kind == "parquet":
        pyarrow.parquet.write_table(table, path)
        own = table
    else:
        pyarrow.csv.write_csv(table, path, pyarrow.csv.WriteOptions(delimiter=kind))
        text = path.read_text(encoding="utf-8")
        path.write_bytes(text.encode(encoding))
        own = pyarrow.csv.read_csv(
            path,
            pyarrow.csv.ReadOptions(encoding="latin-1" if encoding == "latin-1" else "utf8"),
            pyarrow.csv.ParseOptions(delimiter=kind, newlines_in_values=True),
        )
    words = ["--times", "--drop-rows", "--names-as-written"]
    words += ["--separator", {"\t": "tab"}.get(kind, kind)] if kind != "parquet" else []
    words += ["--encoding", "latin-1"] if encoding == "latin-1" and kind != "parquet" else []
    try:
        layout = pack("t", path, "--as", "table", *words)
    except DataFileError as error:
        assert any(words in str(error) for words in REFUSED), error  # noqa: PT017
        return
    (x,) = packed(layout, "x")
    attrs = layout.arrays["x"].attrs
    categories = json.loads(attrs.get("categories", "{}"))
    rows = x[:, -1].astype(int)
    for i, name in enumerate(json.loads(attrs["columns"])):
        values = own[name].to_pylist()
        for row, number in zip(rows, x[:, i], strict=True):
            check_value(values[row], number.item(), categories.get(name), x.dtype)
    gaps = {
        row for name in own.column_names for row, v in enumerate(own[name].to_pylist()) if v is None
    }
    assert gaps.isdisjoint(rows)
    skipped = {int(key) for key in json.loads(layout.attrs.get("skipped", "[]"))}
    assert sorted(skipped | set(rows.tolist())) == list(range(12))
    for row in skipped - gaps:  # a text among numbers, which is told
        assert any(own[name][row].as_py() in ("1_0", "0x1F") for name in own.column_names)


REFUSED = (
    "one number",
    "look like numbers",
    "more than 53 bits",
    "no samples",
    "such as",
    "a number written",
)


def as_one_type(values):
    has_fractions = any(isinstance(value, float) for value in values)
    return [float(v) if has_fractions and v is not None else v for v in values]


def check_value(own, number, texts, dtype):
    if texts:
        assert texts[int(number)] == str(own)
    elif isinstance(own, datetime.date):
        assert number == (own - datetime.date(1970, 1, 1)).total_seconds()
    elif isinstance(own, float) or dtype == np.float32:
        assert number == dtype.type(own) or own == pytest.approx(number, rel=1e-6)
    else:  # a column with one text that is no number is text to pyarrow
        assert number == (float(own) if isinstance(own, str) else own)


SHIPPED = sorted((Path(sklearn.datasets.__file__).parent / "data").glob("*.csv*"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_tables_that_scikit_learn_ships(tmp_path, pack, path):
    """As they are they have no head lines, for which all but one are refused; with one they are packed."""
    try:
        layout = pack("t", path, "--as", "table")
    except DataFileError as error:
        assert any(words in str(error) for words in NO_HEAD_LINE), error  # noqa: PT017
    else:
        assert path.name == "iris.csv"
        assert json.loads(layout.arrays["x"].attrs["columns"])[0] == "150"
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    separator = next(letter for letter in ";, x" if letter in text.split("\n")[3] + "x")
    rows = [line.split(separator) for line in text.strip().split("\n")]
    rows = [
        row
        for row in rows
        if all(is_number_text(text.strip()) for text in row) and len(row) == len(rows[-1])
    ]
    head = [f"c{i}" for i in range(len(rows[0]))]
    layout = pack("t", csv(tmp_path / "raw/t.csv", lines(head, *rows)), "--as", "table")
    (x,) = all_rows(layout, "x")
    own = np.array(rows, np.float64).astype(x.dtype)
    np.testing.assert_array_equal(np.sort(x, 0), np.sort(own, 0))
    assert len(x) == len(rows) > 15


NO_HEAD_LINE = ("values, the head line", "the first line", "--separator", "twice")
