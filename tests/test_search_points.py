"""What becomes of a point on which nobody works any more; grids, holes, and points of earlier runs."""

import subprocess

import pytest
from myproj.lab.record.begin import begin_attempt
from myproj.lab.record.create import create_run
from myproj.lab.record.metrics_file import MetricsLog
from myproj.lab.record.process import process_facts
from myproj.lab.sweep.begin import plan_points
from myproj.lab.sweep.points import AGAIN, MAX_TRIES, PRUNED, RUN, WORKER, Points
from record_package import make_project
from search import make_search
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
def test_the_run_of_a_dead_worker_says_what_is_told(project, points, so_far, state):
    number = work(project, points, **so_far)
    _, trial = settled(points, number)
    assert trial.state.name == state
    assert trial.value == (0.5 if state == "COMPLETE" else None)


@pytest.mark.parametrize(
    "so_far", [{"status": "interrupted"}, {"checkpoint": True}], ids=["interrupted", "killed"]
)
def test_the_next_worker_resumes_a_point_that_can_continue(project, points, so_far):
    number = work(project, points, **so_far)
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
