"""A record whose process was killed between its last files is made whole, and an edit in between is seen."""

import json

import pytest
from labrig.errors import Failed
from labrig.record.files.metrics_file import MetricsLog
from labrig.record.read.run import Run
from labrig.record.write.attempt import RowsHash, complete_record
from labrig.record.write.begin import begin_attempt
from record_package import call, create, make_project, train


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "myproj")


@pytest.mark.slow
def test_a_run_without_a_summary_is_completed(project, capsys):
    """N-b-nosummary."""
    run = train(project)
    before = (run.dir / "summary.json").read_text()
    assert complete_record(run.dir) == []
    (run.dir / "summary.json").unlink()
    with pytest.raises(Failed, match=f"lab runs verify --repair {run.id}"):
        call(project, "runs verify", run.id)
    assert call(project, "runs verify", "--repair", run.id) == 0
    assert "summary.json was missing; it was written from the attempts" in capsys.readouterr().out
    assert (run.dir / "summary.json").read_text() == before
    assert call(project, "runs verify", run.id) == 0


@pytest.mark.slow
def test_a_run_that_is_running_is_not_completed(project):
    run = create(project)
    begin_attempt(run, project)
    assert complete_record(run.dir) == []
    assert not (run.dir / "summary.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("edited", [False, True])
def test_an_edit_while_a_run_lay_dead_is_seen(project, edited):
    """N-b-metricsedit."""
    run = create(project)
    attempt = begin_attempt(run, project)
    rows, log = RowsHash(), MetricsLog(run.dir, 1)
    for step in (10, 20):
        log.append(step, 0, {"val/loss": 0.5})
        rows.note(run.dir, 1)
    log.append(30, 0, {"val/loss": 0.4})  # after the last checkpoint
    log.close()
    attempt.note(pid_started="0")  # it was killed
    lock = attempt.dir / "lock"
    lock.write_text(json.dumps({**json.loads(lock.read_text()), "pid_started": "0"}))
    path = run.dir / "metrics.jsonl"
    if edited:
        path.write_text(path.read_text().replace("0.5", "0.1", 1))
    again = begin_attempt(Run.open(run.dir), project)
    log = MetricsLog(run.dir, 2)
    log.append(30, 0, {"val/loss": 0.3})
    log.close()
    again.end("finished")
    if edited:
        with pytest.raises(Failed, match="was changed after a checkpoint"):
            call(project, "runs verify", run.id)
    else:
        assert call(project, "runs verify", run.id) == 0
