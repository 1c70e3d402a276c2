"""A training says when the data file is not what the trial's previous run was trained on."""

import json

import pytest
from labrig.data import FolderFingerprint
from labrig.errors import LabError
from labrig.training.parts.data_change import data_record, print_data_change


def data(sha256, path="/data/a.h5"):
    return {"sha256": sha256, "n": 5, "path": path, "size_bytes": 9, "mtime_ns": 1}


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


def test_another_file_is_no_change(begin):
    begin("20260101-000000-aaaaaa", 1, data("1" * 64))
    assert begin("20260102-000000-bbbbbb", 1, data("2" * 64, "/data/b.h5")) == ""
    assert begin("20260103-000000-cccccc", 1, data("1" * 64)) == ""
    message = begin("20260104-000000-dddddd", 1, data("3" * 64, "/data/b.h5"))
    assert "changed since run 20260102-000000-bbbbbb" in message


class Plain:
    """A data module that cannot tell what it reads."""


class Folder(FolderFingerprint):
    """One that can."""


def test_data_that_cannot_tell_are_recorded_as_unknown(begin, tmp_path):
    record = data_record(Plain())
    assert record == {"not_recorded": "Plain has no fingerprint()"}
    assert "not recorded: Plain has no fingerprint()" in begin("20260101-000000-aaaaaa", 1, record)
    folder = Folder()
    with pytest.raises(LabError, match=r"set self\.folder"):
        data_record(folder)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").touch()
    folder.folder = tmp_path / "images"
    record = data_record(folder)
    assert record["path"] == str(tmp_path / "images")
    assert begin("20260102-000000-bbbbbb", 1, record) == ""
    (tmp_path / "images" / "a.png").write_text("other")
    assert "changed since run" in begin("20260103-000000-cccccc", 1, data_record(folder))


def test_a_fingerprint_of_another_form_is_refused_in_words():
    plain = Plain()
    plain.fingerprint = lambda: "version 3"
    with pytest.raises(LabError, match="gave 'version 3'; expected a dict with sha256 and path"):
        data_record(plain)
