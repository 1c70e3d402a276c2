"""Workers of a sweep that are killed, torn from their journal, or started twice."""

import os
import random
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from labrig.sweep.begin import plan_points
from labrig.sweep.points import AGAIN, Ended, Points
from optuna.trial import TrialState
from record_package import make_project
from search import finished_runs, logs_of, make_search, start_worker
from small_disks import fill, mounted, needs_root

TIMEOUT_S = 240


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "project")


def wait_for_points(points, n, workers):
    end_s = time.monotonic() + TIMEOUT_S
    while len(points.trials(TrialState.COMPLETE)) < n:
        assert time.monotonic() < end_s, logs_of(points.sweep)
        assert any(worker.poll() is None for worker in workers), logs_of(points.sweep)
        time.sleep(0.05)


def kill(worker):
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait(TIMEOUT_S)


def require_each_once(points, n_points):
    """Makes sure that no point is lost or doubled, in the journal and in the record."""
    points = Points(points.sweep)
    assert points.n_open() == 0, logs_of(points.sweep)
    complete = Counter(str(trial.params) for trial in points.trials(TrialState.COMPLETE))
    assert len(complete) == n_points
    assert set(complete.values()) == {1}
    settings = finished_runs(points.sweep)
    assert len(settings) == len(set(settings)) == n_points
    states = {trial.state for trial in points.trials() if AGAIN not in trial.user_attrs}
    assert states == {TrialState.COMPLETE}


def search_with_kills(project, n_workers, n_points, point_s):
    points = make_search(project, f"optimizer.lr=range(0,{n_points})")
    workers = [start_worker(project, points.sweep, point_s) for _ in range(n_workers)]
    numbers = random.Random()
    for n, victim in enumerate(workers[:2], start=1):
        wait_for_points(points, n * n_points // 4, workers)
        time.sleep(numbers.random() * 0.5)
        kill(victim)
    for worker in workers[2:]:
        assert worker.wait(TIMEOUT_S) == 0, logs_of(points.sweep)
    # the same command again, which fills what the killed ones left last
    plan_points(points, n_points)
    worker = start_worker(project, points.sweep)
    assert worker.wait(TIMEOUT_S) == 0, logs_of(points.sweep)
    return points


@pytest.mark.release
def test_killed_workers_and_torn_lines_lose_and_double_no_point(project):
    points = search_with_kills(project, n_workers=3, n_points=12, point_s=0.1)
    require_each_once(points, 12)
    assert points.take() is None


@pytest.mark.release
def test_four_workers_of_fifty_points_each(project):
    points = search_with_kills(project, n_workers=4, n_points=200, point_s=0.1)
    require_each_once(points, 200)
    assert points.take() is None


def test_several_people_who_start_the_same_grid_at_once_get_one(project):
    space = "optimizer.lr=range(0,20)"
    with ThreadPoolExecutor(4) as people:
        searches = list(people.map(lambda _: make_search(project, space), range(4)))
    assert len({points.sweep.dir for points in searches}) == 1
    numbers = [trial.params for trial in Points(searches[0].sweep).trials()]
    assert len(numbers) == 20


@pytest.mark.release
@needs_root
def test_a_full_disk_stops_workers_and_loses_no_point(project):
    with mounted(project.root / "runs", "size=4m") as disk:
        points = make_search(project, "optimizer.lr=range(0,4)")
        filler = fill(disk, free_bytes=60_000)  # for a part of the first points
        workers = [start_worker(project, points.sweep) for _ in range(2)]
        assert all(worker.wait(TIMEOUT_S) != 0 for worker in workers)
        filler.unlink()
        plan_points(points, 4)
        assert start_worker(project, points.sweep).wait(TIMEOUT_S) == 0, logs_of(points.sweep)
        require_each_once(points, 4)


@pytest.mark.release
@pytest.mark.slow
def test_a_metric_that_no_run_logs_ends_the_search_after_the_first_point(project):
    points = make_search(project, "optimizer.lr=0.1,0.2,0.3", metrics=["val/nosuch"])
    worker = start_worker(project, points.sweep, 0.01)
    assert worker.wait(TIMEOUT_S) == Ended.MISTAKE
    assert len(finished_runs(points.sweep)) == 1
    assert "It has: val/loss. Type one of these as sweep.metric" in logs_of(points.sweep)
