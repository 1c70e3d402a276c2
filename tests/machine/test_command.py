"""What a program prints, and None where there is nothing to rely on."""

import sys

import pytest
from labrig.machine.command import output_of

PRINTS_THEN_FAILS = "print('é'); raise SystemExit(1)"


def test_what_a_program_prints_is_read():
    assert output_of(sys.executable, "-c", "print('é')") == "é\n"
    assert output_of(sys.executable, "-c", "import sys; print(sys.stdin.read())") == "\n"


@pytest.mark.parametrize(
    "words",
    [
        ["a-program-that-nobody-has"],
        [sys.executable, "-c", PRINTS_THEN_FAILS],
        [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)"],
    ],
    ids=["missing", "failing", "slow"],
)
def test_what_cannot_be_relied_on_is_none(words):
    assert output_of(*words, timeout_s=1) is None


def test_quota_prints_its_table_and_fails_when_one_is_used_up():
    assert output_of(sys.executable, "-c", PRINTS_THEN_FAILS, failed_too=True) == "é\n"
