"""A run of `lab runs reproduce --check` repeats a number that is there: it counts nowhere again."""

import json

import pytest
from labrig import env
from labrig.errors import LabError
from labrig.record.read.find import find_run
from labrig.record.read.rows import read_rows
from labrig.report.gather import RunsSource, read_sources
from labrig.trials.numbers import number_trials
from record_package import call, make_project, train


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A project with a run, and a newer check of it that came out better."""
    project = make_project(tmp_path / "project")
    run = train(project, metrics={"val/loss": 0.5})
    with monkeypatch.context() as context:
        context.setenv(env.CHECK, "1")
        check = train(project, metrics={"val/loss": 0.25}, parent=run.id)
    return project, run, check


def test_a_check_is_recorded_as_one(made, capsys):
    project, run, check = made
    assert check.record["is_check"]
    assert "is_check" not in run.record
    call(project, "runs show", check.id)
    assert f"check of    {run.id}" in capsys.readouterr().out


def test_no_table_best_or_curve_takes_a_check(made, capsys):
    project, run, _check = made
    roots = [project.root / "runs"]
    call(project, "runs table")
    assert capsys.readouterr().out.split()[-2:] == ["0.5", "1"]
    assert find_run(roots, "@best:val/loss").id == run.id
    rows = read_rows(roots)
    assert len(rows) == 2
    assert number_trials(project, rows, ["baseline"])["baseline"].best == 0.5
    shown, _ = read_sources([RunsSource("here", roots)], None)
    assert [row["run_id"] for row in shown] == [run.id]


def test_the_list_and_last_have_the_check(made, capsys):
    project, _run, check = made
    assert find_run([project.root / "runs"], "@last").id == check.id
    call(project, "runs list", "--json")
    assert [row["is_check"] for row in json.loads(capsys.readouterr().out)] == [True, None]


def test_the_last_run_of_a_trial(made):
    project, run, check = made
    train(project, trial="wide")
    roots = [project.root / "runs"]
    assert find_run(roots, "@last:baseline").id == check.id
    assert find_run(roots, "@last~1:baseline").id == run.id
    assert find_run(roots, "@last:w*").trial == "wide"
    with pytest.raises(LabError, match=r"trial 'wdie' has no run; did you mean: wide"):
        find_run(roots, "@last:wdie")
    with pytest.raises(LabError, match=r"@last~1 needs 2 runs, but there are 1"):
        find_run(roots, "@last~1:wide")


def test_the_parts_of_best_have_one_order(made):
    project, run, _ = made
    train(project, trial="wide", metrics={"val/loss": 0.75})
    roots = [project.root / "runs"]
    assert find_run(roots, "@best:val/loss:baseline:max").id == run.id
    assert find_run(roots, "@best:val/loss:max").trial == "wide"
    with pytest.raises(LabError, match=r"expected @best:METRIC, .* or @best:METRIC:TRIAL:min"):
        find_run(roots, "@best:val/loss:max:baseline")
