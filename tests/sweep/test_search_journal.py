"""The journal of a sweep: its lock, torn and glued lines, a full disk; other programs of Optuna's read it."""

import json
import os
import subprocess
import sys
import threading
import time

import optuna
import pytest
from labrig.errors import Failed
from labrig.record.files.process import process_facts
from labrig.sweep import journal as lock_module
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


def test_a_torn_last_line_is_removed_by_whoever_writes_next(points):
    with open(points.sweep.journal, "ab") as file:
        file.write(HALF)
    points.study.tell(points.take().number, 1.0)
    assert HALF not in points.sweep.journal.read_bytes()
    assert states(points) == ["COMPLETE", "WAITING", "WAITING"]


def test_without_the_repair_the_next_record_is_lost(points, monkeypatch):
    monkeypatch.setattr(lock_module, "remove_torn_line", lambda journal: None)
    with open(points.sweep.journal, "ab") as file:
        file.write(HALF)
    with pytest.raises(json.JSONDecodeError):
        points.take()


def test_a_record_that_another_program_glued_to_half_a_line_is_saved(points):
    journal = points.sweep.journal
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]) + HALF + lines[-1])
    running_worker_knows = journal.stat().st_size
    assert states(points) == ["WAITING"] * 3
    assert journal.stat().st_size == running_worker_knows


def test_a_line_that_is_no_record_is_named(points):
    journal = points.sweep.journal
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(lines[0] + b"garbage\n" + b"".join(lines[1:]))
    with pytest.raises(Failed, match="damaged in line 2"):
        Points(points.sweep)


def test_the_lock_of_a_dead_process_of_this_machine_is_removed_at_once(points):
    process = subprocess.Popen(["true"])
    facts = process_facts() | {"pid": process.pid, "pid_started": "1"}
    process.wait()
    points.lock.path.write_text(json.dumps(facts))
    began_s = time.monotonic()
    assert points.take() is not None
    assert time.monotonic() - began_s < 10
    assert not points.lock.path.exists()


def test_the_lock_of_another_machine_is_removed_after_its_silence(points, monkeypatch):
    monkeypatch.setattr(lock_module, "SILENT_S", 0.5)
    points.lock.path.write_text(json.dumps(process_facts() | {"pid_space": "elsewhere"}))
    assert points.take() is not None


def test_a_lock_that_others_took_over_is_not_removed(tmp_path):
    later = tmp_path / "journal.log.lock"
    later.write_text("dead")
    sign = lock_module.sign_of_life(later)
    later.unlink()
    later.write_text("alive")
    os.utime(later, (1, 1))
    lock_module.remove_lock(later, sign)
    assert later.read_text() == "alive"
    assert list(tmp_path.iterdir()) == [later]


@pytest.mark.slow
def test_only_one_process_has_the_lock(tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")
    program = (
        "import sys, pathlib\n"
        "from labrig.sweep.journal import JournalLock\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "lock = JournalLock(path.with_name('journal.log'))\n"
        "for _ in range(100):\n"
        "    with lock, lock:\n"
        "        path.write_text(str(int(path.read_text()) + 1))\n"
    )
    variables = os.environ | {"PYTHONPATH": str(SOURCE)}
    words = [sys.executable, "-c", program, str(counter)]
    processes = [subprocess.Popen(words, env=variables) for _ in range(3)]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    assert counter.read_text() == "300"


def test_optunas_own_lock_and_ours_exclude_each_other(points):
    theirs = JournalFileOpenLock(str(points.sweep.journal))
    theirs.acquire()
    order = []
    thread = threading.Thread(target=lambda: order.append(points.take()))
    thread.start()
    time.sleep(0.3)
    order.append("released")
    theirs.release()
    thread.join(60)
    assert order[0] == "released"
    assert order[1] is not None


def test_a_full_disk_stops_a_worker_and_loses_nothing(points, monkeypatch):
    real_fsync = os.fsync

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("optuna.storages.journal._file.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        points.take()
    assert not points.lock.path.exists()
    monkeypatch.setattr("optuna.storages.journal._file.os.fsync", real_fsync)
    # what half a record the disk took, the next one removes
    with open(points.sweep.journal, "ab") as file:
        file.write(HALF)
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
