"""A training says when the data file is not what the trial's previous run was trained on."""

import json

import pytest
from myproj.lab.training.data_change import print_data_change


def data(sha256):
    return {"sha256": sha256, "n": 5, "path": "/data/a.h5", "size_bytes": 9, "mtime_ns": 1}


@pytest.fixture
def begin(tmp_path, capsys):
    """begin(name, n, data): the run or its next attempt begins with these data; what is printed."""

    def begin(name, n, now):
        run_dir = tmp_path / "baseline" / name
        attempt_dir = run_dir / "attempts" / str(n)
        attempt_dir.mkdir(parents=True)
        (attempt_dir / "start.json").write_text(json.dumps({"started_unix_s": 0}))
        print_data_change(run_dir, now)
        (attempt_dir / "start.json").write_text(json.dumps({"started_unix_s": 0, "data": now}))
        return capsys.readouterr().err

    return begin


def test_other_data_than_the_previous_runs_are_reported(begin):
    assert begin("20260101-000000-aaaaaa", 1, data("1" * 64)) == ""
    assert begin("20260102-000000-bbbbbb", 1, data("1" * 64)) == ""
    message = begin("20260103-000000-cccccc", 1, data("2" * 64))
    assert "changed since run 20260102-000000-bbbbbb" in message
    assert "/data/a.h5" in message
    assert message.count("\n") == 1


def test_an_attempt_is_compared_with_the_one_before_it(begin):
    begin("20260101-000000-aaaaaa", 1, data("1" * 64))
    for n in range(2, 11):
        assert begin("20260101-000000-aaaaaa", n, data("1" * 64)) == ""
    assert "aaaaaa" in begin("20260101-000000-aaaaaa", 11, data("2" * 64))
    assert begin("20260101-000000-aaaaaa", 12, data("2" * 64)) == ""


def test_what_cannot_be_compared_says_nothing(begin, tmp_path):
    (tmp_path / "baseline" / "20250101-000000-aaaaaa" / "attempts" / "1").mkdir(parents=True)
    assert begin("20260102-000000-bbbbbb", 1, None) == ""
    assert begin("20260103-000000-cccccc", 1, data("1" * 64)) == ""
