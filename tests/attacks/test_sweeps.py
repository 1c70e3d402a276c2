"""Points of a sweep: equal ones are one, a doubled journal makes none, and all of them read the same data."""

import pytest
from labrig.config.compose import compose
from labrig.errors import LabError
from labrig.project import Project
from labrig.record.files.atomic import read_advisory
from labrig.record.files.metrics_file import MetricsLog
from labrig.record.write.begin import begin_attempt
from labrig.record.write.create import create_run
from labrig.sweep import folder as data_module
from labrig.sweep.begin import grid_of, plan_points, print_beginning
from labrig.sweep.definition import parse_setting
from labrig.sweep.folder import hash_of_data, make_sweep, refuse_other_data
from labrig.sweep.points import RUN, Points, best_trials
from labrig.sweep.show import format_sweep
from optuna.trial import create_trial
from record_package import make_project
from search import NO_CODE, make_search
from sweep_request import request_of

A, B = "a" * 64, "b" * 64


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "project")


@pytest.mark.parametrize(
    ("typed", "n"),
    [
        ("optimizer.lr=1e-3,0.001,1.0e-3", 1),
        ("optimizer.lr=choice(1e-3,3e-3,0.001)", 2),
        ("trainer.limit_train_batches=1,1.0", 2),  # one batch, and all
        ("model.kind=a,'a',b", 2),
        ("model.flag=true,True,false", 2),
        ("model.flag=true,1", 2),
        ("model.sizes=[1,2],[1, 2],[2,1]", 2),
    ],
)
def test_equal_values_are_one_point(typed, n):
    """c-types-optimizer.lr=1e-3,0.001,1.0e-3."""
    setting = parse_setting(typed)
    assert len(grid_of([setting])) == n
    again = parse_setting(f"{setting.key}={setting.text}")
    assert again == setting, "as sweep.json keeps it"


def sweep_on(project, points, data_sha256):
    """The search of `points` on a data file with this content."""
    definition = points.sweep.definition
    sweep = make_sweep(points.sweep.runs, definition, "", NO_CODE, data_sha256=data_sha256)
    again = Points(sweep)
    plan_points(again, 10)
    return again


def work(project, points, data_sha256, value):
    """A point whose run has read a data file with this content, and has ended."""
    trial = points.take()
    run = create_run(project, points.sweep.runs, request_of(points.sweep, trial))
    trial.set_user_attr(RUN, str(run.dir.relative_to(points.sweep.runs)))
    attempt = begin_attempt(run, project, data={"sha256": data_sha256, "path": "/x.h5"})
    MetricsLog(run.dir, attempt.n).append(1, 0, {"val/loss": value})
    attempt.end("finished")
    points.settle_own(trial.number)


def test_other_data_is_another_search_and_said(project, capsys):
    """c-data."""
    points = make_search(project, "optimizer.lr=0.1,0.2")
    one, other = sweep_on(project, points, A), sweep_on(project, points, B)
    assert sweep_on(project, points, A).sweep.id == one.sweep.id != other.sweep.id
    print_beginning(other)
    said = capsys.readouterr().out
    assert (
        f"{one.sweep.id} searches the same with other data; its points: --from {one.sweep.id}"
        in said
    )


def test_other_code_is_named_as_such(project, capsys):
    points = make_search(project, "optimizer.lr=0.1,0.2")
    other = Points(make_sweep(points.sweep.runs, points.sweep.definition, "x", NO_CODE))
    plan_points(other, 2)
    print_beginning(other)
    assert f"{points.sweep.id} searches the same with other code;" in capsys.readouterr().out


def test_a_search_whose_code_git_cannot_record_says_so(project, capsys):
    points = make_search(project, "optimizer.lr=0.1,0.2")
    work(project, points, A, 0.5)
    print_beginning(points)
    assert "whether its code changed since is not known" in capsys.readouterr().out


@pytest.mark.parametrize("known", [A, None], ids=["known from the start", "by the first point"])
def test_a_point_that_read_other_data_is_not_told(project, capsys, known):
    """c-data, while the workers run."""
    first = make_search(project, "optimizer.lr=0.1,0.2,0.3")
    points = sweep_on(project, first, known)
    for sha256, value in ((A, 0.5), (B, 0.1), (A, 0.4)):
        work(project, points, sha256, value)
    assert [trial.state.name for trial in points.trials()] == ["COMPLETE", "FAIL", "COMPLETE"]
    assert best_trials(points)[0].values == [0.4]
    assert "read other data than the points before it" in capsys.readouterr().err


def test_the_data_of_a_run_are_known_before_it_begins(home):
    """The hash in sweep.json is the one in the record of a run."""
    first = min(home.glob("runs/baseline/*/summary.json")).parent
    config = compose(Project(home, "myproj"), ["trial=baseline"]).config
    assert hash_of_data(config) == read_advisory(first / "attempts/1/start.json")["data"]["sha256"]
    config.data.path = "none.h5"
    assert hash_of_data(config) is None


@pytest.mark.slow
def test_a_worker_stops_before_it_trains_on_other_data(home, monkeypatch):
    """c-data, between two points."""
    project = Project(home, "myproj")
    config = compose(project, ["trial=baseline"]).config
    points = make_search(project, "optimizer.lr=0.1,0.2")
    sweep = make_sweep(
        project.root / "runs",
        points.sweep.definition,
        "",
        NO_CODE,
        data_sha256=hash_of_data(config),
    )
    refuse_other_data(project, sweep)
    monkeypatch.setattr(data_module, "sha256_of_hashes", lambda layout: B)
    with pytest.raises(LabError, match=r"digits\.h5 had sha256 .*, and has bbbbbbbbbbbb… now"):
        refuse_other_data(project, sweep)


def test_importance_needs_points_and_names_its_method(project):
    """The same search with few points, then with many."""
    points = make_search(
        project, "optimizer.lr=interval(0,1)", "model.width=interval(0,1)", sampler="random"
    )
    distributions = {each.name: each.distribution for each in points.sweep.definition.settings}
    shown = {}
    for n in range(1, 31):
        params = {"optimizer.lr": n / 31, "model.width": n * 7 % 31 / 31}
        value = (params["optimizer.lr"] - 0.3) ** 2
        points.study.add_trial(
            create_trial(params=params, distributions=distributions, value=value)
        )
        if n in (4, 19, 20, 30):
            lines = format_sweep(points)
            (shown[n],) = [line for line in lines if "which settings matter" in line]
    assert shown[4] == shown[19] == "which settings matter is shown from 20 complete points on"
    assert "PED-ANOVA" in shown[20]
    assert len([line for line in lines if line.startswith("best")]) == 1
    (lr,) = [line for line in lines if line.startswith("  optimizer.lr") and "%" in line]
    assert "±" in lr
