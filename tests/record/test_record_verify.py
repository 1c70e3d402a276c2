"""`lab runs verify` notices every hand edit, and claims nothing that it has not checked."""

import pytest
from labrig.errors import Failed
from labrig.record.files.manifest import append_listed, listed_files
from labrig.record.files.metrics_file import MetricsLog
from labrig.record.keep.annotate import annotate
from labrig.record.read.run import Run
from labrig.record.verify import command as verify
from labrig.record.write import claim
from labrig.record.write.begin import begin_attempt
from projects import copy_of
from record_package import PACKAGE, call, create, make_project, train


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A project with one finished run. Shared: copy it."""
    project = make_project(tmp_path_factory.mktemp("verify") / "project")
    run = train(project, why="first")
    annotate(run, note="the loss spikes")
    annotate(run, tag="paper")
    append_listed(run.dir, "evaluations.jsonl", {"metrics": {"test/acc": 0.5}})
    return project


@pytest.fixture
def own(tmp_path, trained):
    """A copy of that project, with its run."""
    return type(trained)(copy_of(trained.root, tmp_path / "project"), PACKAGE)


def only_run(project):
    return Run.open(next((project.root / "runs/baseline").iterdir()))


def verified(project, capsys, name):
    """What the command prints about a run that is as recorded."""
    assert call(project, "runs verify", name) == 0
    return capsys.readouterr().out


def edit(path, old, new):
    text = path.read_text()
    assert text.count(old) >= 1, f"no {old} in {text}"
    path.write_text(text.replace(old, new))


EDITS = [
    ("run.json", '"seed": 0', '"seed": 7'),
    ("run.json", '"why": "first"', '"why": "best"'),
    ("run.json", "model.width=32", "model.width=64"),
    ("run.json", '"dirty": false', '"dirty": true'),
    ("attempts/1/start.json", '"world_size": 1', '"world_size": 2'),
    ("attempts/1/end.json", '"val/loss": 0.25', '"val/loss": 0.15'),
    ("summary.json", '"val/loss": 0.25', '"val/loss": 0.15'),
    ("summary.json", '"finished"', '"failed"'),
    ("notes.jsonl", "spikes", "falls"),
    ("notes.jsonl", "paper", "thesis"),
    ("evaluations.jsonl", "0.5", "0.9"),
    ("metrics.jsonl", "0.25", "0.15"),
    ("env.txt", "pytest==", "pytest==1"),
]


@pytest.mark.parametrize(("name", "old", "new"), EDITS)
def test_a_hand_edit_is_found(own, name, old, new):
    run = only_run(own)
    edit(run.dir / name, old, new)
    with pytest.raises(Failed, match=rf"is not as recorded(?s:.*){name}.* was changed"):
        call(own, "runs verify", run.id)


@pytest.mark.parametrize("name", ["attempts/1/start.json", "attempts/1/end.json", "attempts/1"])
def test_a_missing_file_of_an_attempt_is_found(own, name):
    run = only_run(own)
    path = run.dir / name
    path.rename(own.root / "elsewhere")
    with pytest.raises(Failed, match=r"start\.json is missing|end\.json is missing|has 0 of 1"):
        call(own, "runs verify", run.id)


@pytest.mark.release
@pytest.mark.slow
def test_what_the_commands_write_later_is_as_recorded(own, capsys):
    run = only_run(own)
    annotate(run, note="späť\udcff \x1b")
    run.update(job={"id": "7"})
    append_listed(run.dir, "evaluations.jsonl", {"metrics": {"test/acc": float("nan")}})
    assert "code, settings, record, metrics and checkpoints are as recorded" in verified(
        own, capsys, run.id
    )
    assert Run.open(run.dir).record == run.record
    edit(run.dir / "run.json", '"seed": 0', '"seed": 7')
    Run.open(run.dir).update(job={"id": "8"})  # which must not make the edit look right
    with pytest.raises(Failed, match=r"run\.json was changed"):
        call(own, "runs verify", run.id)


def test_data_without_a_fingerprint_is_not_as_recorded(own, capsys):
    said = verified(own, capsys, only_run(own).id)
    assert "data: not recorded" in said
    assert "data are" not in said


def test_a_run_that_failed_early_claims_neither_metrics_nor_checkpoints(own, capsys):
    run = create(own)
    begin_attempt(run, own).end("failed", exception=ValueError("no such model"))
    said = verified(own, capsys, run.id)
    assert "code, settings and record are as recorded" in said
    for line in ("metrics: none were written", "checkpoints: none were written", "data: not rec"):
        assert line in said


@pytest.mark.slow
def test_an_attempt_that_was_killed_before_it_trained_lacks_no_code(own, capsys, monkeypatch):
    run = create(own)
    first = begin_attempt(run, own)
    first.note(code=first.facts["code"] | {"complete": False})
    assert "code: incomplete: never compared with what ran" in verified(own, capsys, run.id)
    monkeypatch.setattr(claim, "refuse_if_running", lambda *_: None)  # as if it was killed
    second = begin_attempt(Run.open(run.dir), own)
    second.note(code=second.facts["code"] | {"complete": True}, world_size=1)
    second.end("finished")
    assert "incomplete" not in verified(own, capsys, run.id)
    first.note(world_size=1)
    assert "code: incomplete: never compared with what ran" in verified(own, capsys, run.id)


def killed(run, project):
    """An attempt that ends without a record, after it wrote something."""
    attempt = begin_attempt(Run.open(run.dir), project, overrides=["trainer.max_epochs=4"])
    log = MetricsLog(run.dir, attempt.n)
    log.append(30, 1, {"val/loss": 0.1})
    log.close()
    (run.checkpoints / "last.ckpt").unlink(missing_ok=True)  # a training replaces it, too
    (run.checkpoints / "last.ckpt").write_bytes(b"others")
    attempt.facts["pid_started"] = "0"  # no process lives
    attempt.note()
    return attempt


def test_of_a_lost_run_it_says_what_cannot_be_checked(own, capsys):
    run = create(own)
    killed(run, own)
    edit(run.dir / "metrics.jsonl", "0.1", "0.01")
    said = verified(own, capsys, run.id)
    assert "code, settings and record are as recorded" in said
    assert "metrics: metrics.jsonl has no hash: attempt 1 has not ended, or was killed" in said
    assert "checkpoints: no hash of last.ckpt: attempt 1 has not ended, or was killed" in said


@pytest.mark.slow
def test_of_an_extended_run_that_was_killed_the_first_part_is_checked(own, capsys):
    run = only_run(own)
    (run.checkpoints / "best.ckpt").write_bytes(b"best")
    begin_attempt(run, own).end("finished")
    killed(run, own)
    said = verified(own, capsys, run.id)
    assert "the last rows of metrics.jsonl have no hash: attempt 3" in said
    assert "no hash of last.ckpt: attempt 3" in said
    assert "note: attempt 3 has trainer.max_epochs=4" in said
    edit(run.dir / "metrics.jsonl", "0.25", "0.15")
    (run.checkpoints / "best.ckpt").unlink()
    with pytest.raises(Failed, match=r"metrics\.jsonl was changed") as found:
        call(own, "runs verify", run.id)
    assert f"{run.checkpoints}/best.ckpt is missing" in str(found.value)


def test_a_best_checkpoint_that_a_later_attempt_lost_is_found(own):
    run = only_run(own)
    (run.checkpoints / "best.ckpt").write_bytes(b"best")
    begin_attempt(run, own).end("finished")
    (run.checkpoints / "best.ckpt").unlink()
    begin_attempt(run, own).end("finished")
    with pytest.raises(Failed, match=r"best\.ckpt is missing"):
        call(own, "runs verify", run.id)


@pytest.mark.slow
def test_data_is_checked_where_it_was_recorded(own, capsys, monkeypatch):
    run = create(own)
    begin_attempt(run, own, data={"path": "a.h5", "sha256": "ab"}).end("finished")
    with pytest.raises(Failed, match=r"the data of .* is missing"):
        call(own, "runs verify", run.id)
    other = create(own)
    begin_attempt(other, own, data={"sha256": "ab"}).end("finished")
    assert "data: not checked, its fingerprint names no file" in verified(own, capsys, other.id)
    monkeypatch.setattr(verify, "data_problems", lambda *_: [])
    assert "data: " not in verified(own, capsys, run.id)


def test_every_file_of_a_record_is_in_its_manifest(own):
    run = only_run(own)
    files = {str(path.relative_to(run.dir)) for path in run.dir.rglob("*") if path.is_file()}
    files = {name for name in files if not name.startswith("checkpoints/")}
    besides = {"manifest.jsonl", "attempts/1/heartbeat", "attempts/1/lock"}
    assert files - besides == set(listed_files(run.dir))
    for name, version in listed_files(run.dir).items():
        assert (run.dir / name).stat().st_size == version.n_bytes
