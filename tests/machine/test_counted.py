"""A message says 1 run and 2 runs."""

import pytest
from labrig.machine.text_formats import counted


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
