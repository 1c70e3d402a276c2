"""A message says 1 run and 2 runs, and how many more there are of what it does not list."""

import pytest
from labrig.machine.text_formats import and_more, counted


@pytest.mark.parametrize(
    ("n", "noun", "text"),
    [
        (0, "run", "0 runs"),
        (1, "run", "1 run"),
        (2, "older run", "2 older runs"),
        (1, "process", "1 process"),
        (3, "process", "3 processes"),
    ],
)
def test_a_noun_agrees_with_its_number(n, noun, text):
    assert counted(n, noun) == text


def test_a_long_list_says_how_many_more_there_are():
    assert and_more([], 2) == ""
    assert and_more(["a", "b"], 2) == "a, b"
    assert and_more((n for n in range(5)), 2, between=" ") == "0 1 and 3 more"
