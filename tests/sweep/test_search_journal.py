"""The journal of a sweep: its lock, damaged lines, a full disk; other programs of Optuna's read it."""

import os
import subprocess
import sys

import optuna
import pytest
from labrig.errors import Failed
from labrig.sweep.points import Points
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import TrialState
from projects import SOURCE
from record_package import make_project
from search import make_search


@pytest.fixture
def points(tmp_path):
    return make_search(make_project(tmp_path / "project"), "optimizer.lr=0.1,0.2,0.3")


def states(points):
    return [trial.state.name for trial in Points(points.sweep).trials()]


HALF = b'{"op_code":6,"worker_id":"torn","trial_'


def test_a_line_that_is_no_record_is_named(points):
    journal = points.sweep.journal
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(lines[0] + b"garbage\n" + b"".join(lines[1:]))
    with pytest.raises(Failed, match="damaged in line 2"):
        Points(points.sweep)


def test_a_torn_last_line_is_named_before_anything_is_glued_to_it(points):
    n_lines = points.sweep.journal.read_bytes().count(b"\n")
    with open(points.sweep.journal, "ab") as file:
        file.write(HALF)
    with pytest.raises(Failed, match=f"damaged in line {n_lines + 1},"):
        Points(points.sweep)


@pytest.mark.slow
def test_a_lock_that_is_not_touched_is_taken_over(points, monkeypatch):
    monkeypatch.setattr(JournalFileOpenLock.__init__, "__defaults__", (3,))
    points = Points(points.sweep)
    points.lock.path.touch()
    assert points.take() is not None


@pytest.mark.slow
def test_only_one_process_has_the_lock(tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")
    program = (
        "import sys, pathlib\n"
        "from labrig.sweep.journal import SweepLock\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "lock = SweepLock(path.with_name('journal.log'))\n"
        "for _ in range(100):\n"
        "    with lock, lock:\n"
        "        path.write_text(str(int(path.read_text()) + 1))\n"
    )
    variables = os.environ | {"PYTHONPATH": str(SOURCE)}
    words = [sys.executable, "-c", program, str(counter)]
    processes = [subprocess.Popen(words, env=variables) for _ in range(3)]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    assert counter.read_text() == "300"


def test_a_full_disk_stops_a_worker_and_loses_nothing(points, monkeypatch):
    real_fsync = os.fsync

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("optuna.storages.journal._file.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        points.take()
    assert not points.lock.path.exists()
    monkeypatch.setattr("optuna.storages.journal._file.os.fsync", real_fsync)
    later = Points(points.sweep)
    numbers = [later.take().number for _ in range(3)]
    assert len(set(numbers)) == 3
    assert later.take() is None


def test_optunas_dashboard_and_library_open_the_journal(points):
    from optuna_dashboard._storage_url import get_storage

    points.study.tell(points.take().number, 0.5)
    storage = get_storage(str(points.sweep.journal))
    (study,) = optuna.get_all_study_summaries(storage)
    assert study.study_name == points.sweep.id
    plain = JournalStorage(JournalFileBackend(str(points.sweep.journal)))
    study = optuna.load_study(study_name=points.sweep.id, storage=plain)
    assert study.best_value == 0.5
    assert len(study.get_trials(states=[TrialState.WAITING])) == 2
