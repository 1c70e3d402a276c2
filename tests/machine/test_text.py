"""Numbers, durations and tables as text: formats that look alike and are not, and columns that stay in line."""

import subprocess
import sys

import pytest
from labrig.machine.text_formats import (
    ellipsis,
    format_age,
    format_clock,
    format_duration,
    format_hms,
    format_value,
)
from labrig.machine.text_table import TextColumn, text_table
from projects import SOURCE


@pytest.mark.parametrize(
    ("seconds", "in_a_sentence", "in_a_column", "for_a_scheduler"),
    [
        (0, "0:00:00", "0:00:00", "00:00:00"),
        (308.6, "0:05:09", "0:05:09", "00:05:08"),  # a limit is never rounded up
        (3599.6, "1:00:00", "1:00:00", "00:59:59"),
        (93784, "1 day, 2:03:04", "26:03:04", "26:03:04"),
        (1_000_000, "11 days, 13:46:40", "277:46:40", "277:46:40"),
    ],
)
def test_three_formats_of_a_duration(seconds, in_a_sentence, in_a_column, for_a_scheduler):
    assert format_duration(seconds) == in_a_sentence
    assert format_clock(seconds) == in_a_column
    assert format_hms(seconds) == for_a_scheduler


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(59.9, "now"), (60, "1min"), (7199, "1h"), (86400 * 3.9, "3d"), (86400 * 800, "2y")],
)
def test_an_age_has_one_unit(seconds, text):
    assert format_age(seconds) == text


def test_values_and_long_texts():
    values = (0.123456, 1e-7, float("nan"), 5, None, "a\nb")
    assert [format_value(value) for value in values] == [
        "0.1235",
        "1e-07",
        "nan",
        "5",
        "-",
        r"a\nb",
    ]
    assert [ellipsis(text, 5) for text in ("", "12345", "123456")] == ["", "12345", "1234…"]


def test_a_column_is_as_wide_as_its_longest_text_or_as_it_is_told():
    columns = [
        TextColumn("run", ["a", "longer than told"], 5),
        TextColumn("n", iter(["1", "1000"]), on_right=True),
        TextColumn("state", ["on", ""]),
    ]
    assert [column.width for column in columns] == [5, 4, 5]
    assert text_table(columns) == [
        "run       n  state",
        "a         1  on",
        "longer than told  1000",
    ]
    assert text_table(columns, gap="|")[1] == "a    |   1|on"
    assert text_table([TextColumn("title", [])]) == ["title"]


def test_colours_take_no_width():
    column = TextColumn("state", ["on", "off"], colours=[32, 31])
    assert text_table([column, TextColumn("n", ["1", "2"])]) == [
        "state  n",
        "\033[32mon   \033[0m  1",
        "\033[31moff  \033[0m  2",
    ]


def test_columns_of_several_lengths_are_no_table():
    with pytest.raises(ValueError, match="shorter"):
        text_table([TextColumn("a", ["1", "2"]), TextColumn("b", ["1"])])


def test_text_needs_no_slow_module():
    """Every list imports these two."""
    program = (
        "import sys, labrig.machine.text_formats, labrig.machine.text_table\n"
        "print(sorted({'statistics', 'decimal', 'json', 'torch', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "[]\n", done.stderr
