"""A finished run stays finished, and of several that resume a run exactly one continues."""

import json
import os
import signal
import time
from types import SimpleNamespace

import pytest
from labrig.errors import LabError
from labrig.record.compare.results import metric_rows
from labrig.record.files.atomic import read_advisory, write_json
from labrig.record.files.metrics_file import MetricsLog
from labrig.record.list.news import LastLook, format_news
from labrig.record.read.attempt_files import read_attempts
from labrig.record.read.find import find_run
from labrig.record.read.rows import read_row
from labrig.record.read.run import Run
from labrig.record.read.status import status_of
from labrig.record.verify.command import check_parts, list_problems
from labrig.record.write import claim, recording
from labrig.record.write.begin import begin_attempt, prepare_attempt, withdraw_attempt
from labrig.record.write.recording import record_attempt
from record_package import call, create, make_project, train


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "project")


def resume(run, project):
    return begin_attempt(Run.open(run.dir), project)


def attempt_that_raises(error, run, project, measured=(), **options):
    """An attempt that notes what train.py notes after the fit, then fails."""
    with record_attempt(run, project, "warn", **options) as record:
        record.note(precision="32")
        record.measured |= measured or {}
        raise error


def in_child(function):
    """Calls `function` in a fork; its pid."""
    child = os.fork()
    if not child:
        try:
            function()
        finally:
            os._exit(0)
    return child


def elsewhere(run, n, silent_s=0):
    """Makes attempt `n` one of a process on another machine, silent for so long."""
    folder = run.dir / "attempts" / str(n)
    for name in ("lock", "start.json"):
        facts = read_advisory(folder / name)
        if facts:
            write_json(folder / name, facts | {"pid_space": "elsewhere", "host": "node7"})
    then = time.time() - silent_s
    for path in folder.iterdir():
        os.utime(path, (then, then))


# ---------------------------------------------------------------- finished stays finished


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["failed", "interrupted", "killed"])
def test_a_finished_run_stays_finished(project, ending, capsys):
    run = train(project, metrics={"test/acc": 0.9})
    rows = metric_rows(run, set())

    def again():
        attempt = resume(run, project)
        (run.checkpoints / "last.ckpt").unlink()
        (run.checkpoints / "last.ckpt").write_bytes(b"other weights")
        MetricsLog(run.dir, 2).append(30, 1, {"test/acc": 0.2})
        if ending == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        attempt.end(ending, {"test/acc": 0.1}, exception=ValueError("renamed"))

    os.waitpid(in_child(again), 0)
    row = read_row(str(run.dir))
    assert status_of(run.dir) == row["status"] == "finished"
    assert row["metrics"] == {"test/acc": 0.9}
    assert find_run([run.runs], "@best:test/acc").id == run.id
    assert row["n_attempts"] == 2
    call(project, "runs show", run.id)
    shown = capsys.readouterr().out
    expected = {"failed": "attempt 2   failed", "interrupted": "attempt 2   interrupted"}
    assert expected.get(ending, "attempt 2   no end") in shown
    assert "of attempt 1, with the weights finished.ckpt; last.ckpt is of attempt 2" in shown
    assert (run.checkpoints / "finished.ckpt").read_bytes().startswith(b"weights of")
    assert not list_problems(check_parts(Run.open(run.dir), project.root))
    assert metric_rows(Run.open(run.dir), set()) == rows
    if ending != "killed":
        assert f"(attempt 2 {ending})" in "\n".join(format_news([row], LastLook()))
    resume(run, project).end("finished", {"test/acc": 0.95})
    assert read_row(str(run.dir))["metrics"] == {"test/acc": 0.95}
    assert sorted(os.listdir(run.checkpoints)) == ["last.ckpt"], "the old weights are superseded"
    assert list_problems(check_parts(Run.open(run.dir), project.root)) == []


@pytest.mark.slow
def test_an_attempt_that_saved_nothing_leaves_the_checkpoints_as_they_were(project, capsys):
    run = train(project)
    resume(run, project).end("failed", exception=ValueError("no"))
    assert os.listdir(run.checkpoints) == ["last.ckpt"]
    call(project, "runs show", run.id)
    assert "of attempt 1, with the weights last.ckpt\n" in capsys.readouterr().out


@pytest.mark.slow
def test_an_extension_is_running_while_it_runs_and_queued_while_its_job_waits(project):
    run = train(project)
    run.update(job={"id": "7"})
    attempt = resume(run, project)
    assert status_of(run.dir) == "running"
    (run.dir / "requeue").touch()
    attempt.end("interrupted")
    queued = lambda record: "queued"  # noqa: E731
    assert status_of(run.dir, queued) == read_row(str(run.dir), queued)["status"] == "queued"
    (run.dir / "requeue").unlink()
    assert status_of(run.dir, queued) == "finished"


@pytest.mark.slow
def test_a_run_whose_test_fails_is_trained(project, capsys):
    run = create(project)
    error = LabError("no such file of the test split. Pack it: lab data pack")
    with pytest.raises(LabError, match="no such file"):
        attempt_that_raises(error, run, project, measured={"global_step": 46})
    assert status_of(run.dir) == "trained"
    assert f"lab resume {run.id}" in capsys.readouterr().out
    assert "no such file" in read_attempts(run.dir)[0].end["exception"]["line"]
    resume(run, project).end("failed")
    assert status_of(run.dir) == "trained"
    resume(run, project).end("finished")
    assert status_of(run.dir) == "finished"


# ---------------------------------------------------------------- an attempt starts when it can run


@pytest.mark.release
@pytest.mark.slow
def test_what_cannot_be_built_leaves_the_run_as_it_was(project, capsys):
    run = train(project)
    before = {path: path.stat().st_mtime_ns for path in run.dir.rglob("*") if path.is_file()}
    again = Run.open(run.dir)
    error = ModuleNotFoundError("No module named 'trials.renamed'")
    with pytest.raises(LabError, match="ModuleNotFoundError: No module named"):
        attempt_that_raises(error, again, project, when_built=True)
    after = {path: path.stat().st_mtime_ns for path in run.dir.rglob("*") if path.is_file()}
    assert after == before
    assert os.listdir(run.dir / "attempts") == ["1"]
    said = capsys.readouterr().err
    assert f"{run.id} is as it was before" in said
    assert "recorded in" not in said
    with record_attempt(again, project, "warn", when_built=True, overrides=[]) as record:
        record.note(precision="32")
        assert status_of(run.dir) == "finished"
        record.begin(world_size=1)
        assert status_of(run.dir) == "running"
    start = read_attempts(run.dir)[1].start
    assert (start["precision"], start["world_size"], start["overrides"]) == ("32", 1, [])


@pytest.mark.release
@pytest.mark.slow
def test_the_signal_is_recorded(project, capsys):
    class Stopped(LabError):
        exit_code = 0
        signum = 15

    for error, number in ((Stopped("stopped"), 15), (KeyboardInterrupt(), 2), (ValueError(), None)):
        run = create(project)
        with pytest.raises((LabError, KeyboardInterrupt)):
            attempt_that_raises(error, run, project)
        assert read_attempts(run.dir)[0].end["signal"] == number
    call(project, "runs show", next(iter(sorted(run.dir.parent.iterdir()))).name)
    capsys.readouterr()


# ---------------------------------------------------------------- exactly one continues


@pytest.mark.slow
def test_a_run_that_runs_on_another_machine_is_refused(project):
    run = create(project)
    begin_attempt(run, project)
    elsewhere(run, 1, silent_s=400)
    with pytest.raises(LabError, match=r"running on node7.*4\d\d s ago.*in 4 minutes"):
        resume(run, project)
    elsewhere(run, 1, silent_s=700)
    assert resume(run, project).n == 2


@pytest.mark.slow
def test_the_job_that_starts_again_after_its_node_died_continues(project, monkeypatch):
    run = create(project)
    monkeypatch.setenv("LAB_JOB", "7")
    begin_attempt(run, project)
    elsewhere(run, 1)
    with pytest.raises(LabError, match="node7"):
        resume(run, project)  # typed by hand within the job
    monkeypatch.setenv("LAB_RUN_DIR", str(run.dir))
    monkeypatch.setenv("LAB_JOB", "8")
    with pytest.raises(LabError, match="node7"):
        resume(run, project)
    monkeypatch.setenv("LAB_JOB", "7")
    assert resume(run, project).n == 2


@pytest.mark.slow
@pytest.mark.parametrize("where", ["before its lock is written", "before start.json"])
def test_a_resume_that_is_stopped_in_the_middle_holds_the_run(project, where, monkeypatch):
    """A stopped process is one on a slow disk: it continues later."""
    run = train(project, "interrupted")

    def stop_in_the_middle():
        if where == "before its lock is written":
            stop = lambda owner: os.kill(os.getpid(), signal.SIGSTOP) or json.dumps(owner)  # noqa: E731
            monkeypatch.setattr(claim, "json", SimpleNamespace(dumps=stop))
        attempt = prepare_attempt(Run.open(run.dir), project)
        os.kill(os.getpid(), signal.SIGSTOP)
        attempt.start()
        attempt.end("finished")

    child = in_child(stop_in_the_middle)
    assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
    with pytest.raises(LabError, match=f"{run.id} is running on"):
        resume(run, project)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if where == "before its lock is written":  # nobody can know whose it is
        elsewhere(run, 2, silent_s=700)
    resume(run, project).end("finished")
    assert status_of(run.dir) == "finished"
    assert len(read_attempts(run.dir)) == 2


@pytest.mark.slow
def test_of_many_resumes_at_once_exactly_one_continues(project, tmp_path):
    run = train(project, "interrupted")
    opened = Run.open(run.dir)
    gate, opener = os.pipe()

    def take_part():
        os.close(opener)
        os.read(gate, 1)  # until all are there
        number = claim.claim_attempt(opened.dir)
        (tmp_path / f"{number} of {os.getpid()}").touch()
        wait_until(lambda: (tmp_path / "all have tried").exists())

    children = [in_child(take_part) for _ in range(12)]
    os.close(gate)
    os.close(opener)
    wait_until(lambda: len(ended_of(children)) == 11)
    (tmp_path / "all have tried").touch()
    wait_until(lambda: len(ended_of(children)) == 12)
    for child in children:
        os.waitpid(child, 0)
    assert [path.name[:4] for path in tmp_path.glob("* of *")] == ["2 of"]


def ended_of(children):
    """Those that have ended; they stay zombies."""
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return [child for child in children if os.waitid(os.P_PID, child, flags)]


def wait_until(condition, timeout_s=60):
    end_s = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < end_s:
        time.sleep(0.02)


@pytest.mark.slow
def test_a_withdrawn_claim_can_be_made_again(project):
    run = train(project)
    for _ in range(3):
        attempt = prepare_attempt(Run.open(run.dir), project)
        assert attempt.n == 2
        withdraw_attempt(attempt)
    assert os.listdir(run.dir / "attempts") == ["1"]


@pytest.mark.slow
def test_a_process_that_was_taken_for_dead_does_not_go_on(project, monkeypatch, capsys):
    run = train(project, "interrupted")
    sleeper = prepare_attempt(Run.open(run.dir), project)
    elsewhere(run, 2, silent_s=700)
    begun = resume(run, project)
    assert begun.n == 3
    with pytest.raises(LabError, match="another process has resumed"):
        sleeper.start()
    withdraw_attempt(sleeper)
    assert (run.dir / "attempts/2").exists(), "the numbers stay without gaps"

    ended = []
    monkeypatch.setattr(recording, "HEARTBEAT_S", 0.01)
    monkeypatch.setattr(recording.os, "_exit", lambda code: ended.append(code) or stop.set())
    stop = recording.threading.Event()
    recording.keep_heartbeat(sleeper, stop)
    assert ended == [1]


@pytest.mark.slow
@pytest.mark.parametrize("when_built", [False, True])
def test_exit_code_2_leaves_no_failed_run(project, when_built):
    """audit-2, row 130: a mistake that was found after the run had begun ended with code 2."""
    run = create(project)
    mistake = LabError("the package is missing. Type: make setup")
    with pytest.raises(LabError, match="the package is missing") as raised:
        attempt_that_raises(mistake, run, project, when_built=when_built)
    is_recorded = bool(read_attempts(run.dir))
    assert is_recorded is not when_built
    assert raised.value.exit_code == (1 if is_recorded else 2)
