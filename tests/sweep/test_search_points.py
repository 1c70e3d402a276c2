"""What becomes of a point on which nobody works any more; grids, holes, and points of earlier runs."""

import os
import subprocess
import time
from types import SimpleNamespace

import optuna
import pytest
from labrig.record.files.metrics_file import MetricsLog
from labrig.record.files.process import process_facts
from labrig.record.freeze.frozen import freeze_code
from labrig.record.read.run import Run
from labrig.record.write.begin import begin_attempt
from labrig.record.write.create import create_run
from labrig.sweep.begin import plan_points, print_beginning
from labrig.sweep.definition import hash_of_code
from labrig.sweep.folder import make_sweep
from labrig.sweep.points import AGAIN, MAX_TRIES, PRUNED, RUN, WORKER, Points
from labrig.sweep.show import format_states, importances
from optuna.distributions import FloatDistribution
from record_package import make_project
from search import NO_CODE, make_search
from sweep_request import request_of


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "project")


@pytest.fixture
def points(project):
    return make_search(project, "optimizer.lr=0.1,0.2")


def dead():
    """The facts of a process of this machine that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process_facts() | {"pid": process.pid, "pid_started": "1"}


def work(project, points, status=None, checkpoint=False, **end):
    """A point whose run has come so far when its worker died."""
    trial = points.take()
    run = create_run(project, points.sweep.runs, request_of(points.sweep, trial))
    trial.set_user_attr(RUN, str(run.dir.relative_to(points.sweep.runs)))
    attempt = begin_attempt(run, project)
    log = MetricsLog(run.dir, attempt.n)
    log.append(1, 0, end.pop("metrics", {"val/loss": 0.5}))
    log.close()
    if checkpoint:
        (run.checkpoints / "last.ckpt").write_bytes(b"weights")
    if status:
        attempt.end(status)
    else:
        (attempt.dir / "start.json").unlink()
        (attempt.dir / "lock").unlink()
        record = run.record["process"] | {"pid_started": "1"}
        run.update(process=record)
    for key, value in end.items():
        trial.set_user_attr(key, value)
    trial.set_user_attr(WORKER, dead())
    return trial.number


def settled(points, number):
    later = Points(points.sweep)
    with later.lock:
        later.settle_all()
    return later, later.trials()[number]


@pytest.mark.parametrize(
    ("so_far", "state"),
    [
        ({"status": "finished"}, "COMPLETE"),
        ({"status": "trained"}, "COMPLETE"),
        ({"status": "failed"}, "FAIL"),
        ({"status": "finished", "metrics": {"val/acc": 1.0}}, "FAIL"),
        ({"status": "finished", "metrics": {"val/loss": "nan"}}, "FAIL"),
        ({"status": "interrupted", PRUNED: 12}, "PRUNED"),
    ],
)
def test_the_run_of_a_dead_worker_says_what_is_reported(project, points, so_far, state):
    number = work(project, points, **so_far)
    _, trial = settled(points, number)
    assert trial.state.name == state
    assert trial.value == (0.5 if state == "COMPLETE" else None)


@pytest.mark.parametrize(
    "so_far", [{"status": "interrupted"}, {"checkpoint": True}], ids=["interrupted", "killed"]
)
def test_the_next_worker_resumes_a_point_that_can_continue(project, points, so_far, capsys):
    number = work(project, points, **so_far)
    assert format_states(points) == "0 of 2 done: 1 stopped, 1 waiting", "nothing runs"
    print_beginning(points)
    assert f"{points.sweep.id} continues: 0 of 2 points done" in capsys.readouterr().out
    later, trial = settled(points, number)
    assert trial.state.name == "RUNNING"
    taken = later.take()
    assert taken.number == number
    assert later.run_dir(taken) is not None
    assert Points(points.sweep).take().number != number, "the first one works on it"


def test_a_point_lost_without_a_checkpoint_is_failed_and_asked_again(project, points):
    number = work(project, points)
    later, trial = settled(points, number)
    assert trial.state.name == "FAIL"
    assert trial.user_attrs[AGAIN]
    values = {later.take().params["optimizer.lr"] for _ in range(2)}
    assert values == {"0.1", "0.2"}
    assert later.take() is None


def test_a_point_that_kills_each_worker_is_given_up(project):
    points = make_search(project, "optimizer.lr=choice(0.1)")
    for _ in range(MAX_TRIES):
        number = work(project, points)
    later, trial = settled(points, number)
    assert AGAIN not in trial.user_attrs
    assert later.take() is None
    plan_points(later, 1)
    assert later.take() is not None, "the same command tries it again"


def test_a_worker_that_died_while_it_asked(project, points):
    points.study.ask()  # and nothing after it
    later = Points(points.sweep)
    values = {later.take().params["optimizer.lr"] for _ in range(2)}
    assert values == {"0.1", "0.2"}


def test_a_point_that_is_being_worked_on_is_left_alone(points):
    first = points.take()
    other = Points(points.sweep)
    assert other.take().number != first.number
    assert other.take() is None


def test_another_person_who_starts_the_same_sweep_joins_it(project, points):
    same = make_search(project, "optimizer.lr=0.1,0.2")
    assert same.sweep.dir == points.sweep.dir
    assert len(points.trials()) == 2
    other = make_search(project, "optimizer.lr=0.1,0.3")
    assert other.sweep.dir != points.sweep.dir


def test_more_points_continue_a_search(project):
    points = make_search(project, "optimizer.lr=interval(0,1)", sampler="random", n_points=2)
    for _ in range(2):
        points.study.tell(points.take().number, 1.0)
    assert points.take() is None
    plan_points(points, 3)
    assert points.take() is not None


def test_points_start_from_the_weights_that_were_meant_when_the_sweep_was_made(project):
    points = make_search(
        project, "model.width=8,16", overrides=["trial=baseline", "init_from=@last"]
    )
    definition = points.sweep.definition
    runs = points.sweep.runs
    sweeps = [
        make_sweep(runs, definition, code_hash, NO_CODE, init_from=source)
        for code_hash, source in [("x", "20261122-000000-abcdef:last"), ("x", "later:last")]
    ]
    for sweep in sweeps:
        assert sweep.overrides[-1] == "init_from='20261122-000000-abcdef:last'"
    assert points.sweep.overrides == definition.overrides


def elsewhere(project, points, silent_s):
    """A point of a worker on another machine, whose last sign of life is so old."""
    number = work(project, points)
    trial = points.trials()[number]
    run_dir = points.run_dir(trial)
    facts = {"pid_space": "elsewhere"}
    run = Run.open(run_dir)
    run.update(process=run.record["process"] | facts)
    points.set_attributes(trial, **{WORKER: process_facts() | facts})
    then_s = time.time() - silent_s
    for path in [run_dir / "run.json", *run_dir.glob("attempts/1/*")]:
        os.utime(path, (then_s, then_s))
    return number


@pytest.mark.parametrize(
    ("silent_s", "state", "is_awaited"),
    [(5, "RUNNING", False), (60, "RUNNING", True), (601, "FAIL", False)],
)
def test_a_worker_elsewhere_counts_as_dead_after_ten_minutes(
    project, points, silent_s, state, is_awaited
):
    number = elsewhere(project, points, silent_s)
    later, trial = settled(points, number)
    assert trial.state.name == state
    assert later.is_awaited() == is_awaited


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "differs"),
    [
        ("src/myproj/trials/baseline/model.py", True),
        ("src/myproj/__init__.py", True),
        ("src/myproj/trials/wide/model.py", False),
        ("src/myproj/trials/baseline/README.md", False),
        ("src/myproj/trials/baseline/prompt.md", True),
        ("notes.txt", False),
    ],
)
def test_code_that_the_trial_runs_makes_another_search(project, file, differs):
    runs = project.root / "runs"
    before = hash_of_code(project, freeze_code(project, runs, "baseline"), "baseline")
    (project.root / file).write_text("# another idea\n")
    after = hash_of_code(project, freeze_code(project, runs, "baseline"), "baseline")
    assert (before != after) == differs


def test_an_equal_search_with_other_code_is_named(project, points, capsys):
    definition = points.sweep.definition
    other = Points(make_sweep(points.sweep.runs, definition, "other code", NO_CODE))
    plan_points(other, 2)
    print_beginning(other)
    assert f"--from {points.sweep.id}" in capsys.readouterr().out


@pytest.mark.slow
def test_the_setting_that_decides_has_the_importance():
    """Of two settings the metric depends on one alone; it is to become small, or large."""
    for direction, sign in (("minimize", 1), ("maximize", -1)):
        study = optuna.create_study(direction=direction)
        distributions = dict.fromkeys(("lr", "width"), FloatDistribution(0, 1))
        for i in range(64):
            params = {"lr": i / 63, "width": (i * 37 % 64) / 63}
            value = sign * (params["lr"] - 0.3) ** 2
            done = optuna.create_trial(params=params, distributions=distributions, value=value)
            study.add_trial(done)
        definition = SimpleNamespace(space=distributions, metrics=["m"], directions=[direction])
        sweep = SimpleNamespace(definition=definition)
        of_state = lambda state, study=study: study.get_trials(states=[state])  # noqa: E731
        shares = importances(SimpleNamespace(sweep=sweep, trials=of_state))["m"]
        assert sum(each.share for each in shares.values()) == pytest.approx(1)
        assert shares["lr"].share > 0.9
        assert shares["lr"].sd < 0.2
