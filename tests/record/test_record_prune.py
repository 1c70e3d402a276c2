"""Runs that nobody needs are deleted, with their code; what all runs cost is counted."""

import json
import os
import time

import pytest
from labrig.record.keep.prune import Protection
from labrig.record.list.rows import read_rows
from labrig.record.read.run import Run
from labrig.record.write.begin import begin_attempt
from record_package import PACKAGE, call, create, git, make_project, train


@pytest.fixture
def own(tmp_path):
    return make_project(tmp_path / "project")


@pytest.mark.slow
def test_prune_keeps_what_is_referred_to(own, capsys, monkeypatch):
    failed = [train(own, "failed") for _ in range(4)]
    best, worst = train(own, metrics={"val/loss": 0.1}), train(own, metrics={"val/loss": 0.9})
    running = create(own, parent=failed[0].id)
    begin_attempt(running, own)
    call(own, "runs tag", failed[1].id, "odd")
    trial = own.root / "trials/baseline"
    trial.mkdir(parents=True)
    (trial / "README.md").write_text(f"It fails with width 7, see {failed[2].id}.\n")
    monkeypatch.setattr(type(own), "source", property(lambda project: project.root))
    call(own, "runs prune")
    assert f"would delete {failed[3].id}" in capsys.readouterr().out
    assert all(run.dir.exists() for run in failed)
    call(own, "runs prune", "--yes")
    assert [run.dir.exists() for run in failed] == [True, True, True, False]
    call(own, "runs prune", "status=finished,running", "--keep-best", 1, "--yes")
    assert (best.dir.exists(), worst.dir.exists(), running.dir.exists()) == (True, False, True)
    assert (best.dir / "code.bundle").exists()


@pytest.mark.slow
def test_prune_takes_the_code_along_unless_another_run_has_it(own):
    kept, same = train(own, "failed"), train(own, "failed")
    call(own, "runs tag", kept.id, "odd")
    (own.root / "src" / PACKAGE / "new.py").write_text("x = 1\n")
    other = train(own, "failed")
    refs = [run.record["code"]["ref"] for run in (kept, same, other)]
    assert refs[0] == refs[1] != refs[2]
    call(own, "runs prune", "--yes")
    assert (same.dir.exists(), other.dir.exists()) == (False, False)
    assert git(own.root, "for-each-ref", "--format=%(refname)", "refs/runs") == refs[0]
    bundles = [path.name[:40] for path in (own.root / "runs/.code").rglob("*.bundle")]
    (library,) = kept.record["code"]["submodules"]
    assert sorted(bundles) == sorted([kept.record["code"]["head"], library["commit"]])


@pytest.mark.slow
def test_prune_removes_what_killed_starts_left_a_day_ago(own):
    train(own)
    left = [own.root / "runs/baseline" / f".2026110{n}-000000-abcdef" for n in (1, 2)]
    for directory in left:
        directory.mkdir()
    os.utime(left[0], (0, 0))
    call(own, "runs prune", "--yes")
    assert [directory.exists() for directory in left] == [False, True]


@pytest.mark.slow
def test_cost_counts_failed_runs_too(own, capsys):
    for status in ("finished", "failed"):
        run = create(own)
        begin_attempt(run, own).end(status, seconds=1800, gpu_seconds=3600, energy_j=3.6e5)
    lost = begin_attempt(create(own, trial="wide"), own, accelerator="gpu", world_size=2)
    lost.began_s -= 3600
    lost.touch_heartbeat()
    call(own, "runs cost")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["baseline", "2", "1.00", "2.00", "0.200"] in lines
    assert ["wide", "1", "1.00", "2.00", "0.000"] in lines
    assert ["all", "3", "2.00", "4.00", "0.200"] in lines


def pruned(project, capsys, *args):
    """The ids that would be deleted."""
    capsys.readouterr()
    call(project, "runs prune", *args)
    lines = capsys.readouterr().out.splitlines()
    return {line.split()[2] for line in lines if line.startswith("would delete")}


@pytest.mark.slow
def test_a_run_that_finished_once_stays(own, capsys):
    run = train(own)
    begin_attempt(Run.open(run.dir), own).end("failed", exception=ValueError("boom"))
    never = train(own, "failed")
    (run.dir / "summary.json").unlink()  # whatever its status is called then
    assert pruned(own, capsys) == {never.id}
    call(own, "runs prune", "status=finished")
    assert "1 more match, but are needed" in capsys.readouterr().out


@pytest.mark.slow
def test_the_best_checkpoint_of_a_trial_stays_however_its_run_ended(own, capsys):
    config = "seed: 0\ncheckpoint: {monitor: val/acc, mode: max}\n"
    ends = [("finished", 0.5), ("interrupted", 0.9), ("failed", 0.7), ("failed", float("nan"))]
    runs = []
    for status, accuracy in ends:
        metrics = {"val/acc": accuracy, "val/loss": accuracy}
        runs.append(train(own, status, metrics, config_yaml=config))
    for run in runs:
        (run.checkpoints / "best.ckpt").write_bytes(b"best")
    other = train(own, "failed", {"val/acc": 0.1}, trial="wide", config_yaml=config)
    (other.checkpoints / "best.ckpt").write_bytes(b"best")
    assert pruned(own, capsys) == {runs[2].id, runs[3].id}
    (runs[1].checkpoints / "best.ckpt").unlink()
    assert pruned(own, capsys) == {runs[1].id, runs[3].id}


@pytest.mark.slow
def test_parents_that_an_older_lab_recorded_as_typed_stay(own, capsys):
    first, second, third, best = (train(own, "failed") for _ in range(4))
    ids = ["20250101-000000-aaaaa0", "20250102-000000-aaaaa1", "20250103-000000-aaaaa2"]
    best.dir = best.dir.rename(best.dir.with_name("20250104-000000-aaaaa3"))
    for run, run_id in zip((first, second, third), ids, strict=True):
        run.dir = run.dir.rename(run.dir.with_name(run_id))
    for run in (first, second, third, best):
        for name in ("run.json", "summary.json"):
            path = run.dir / name
            path.write_text(path.read_text().replace(run.id, run.dir.name))
    call(own, "runs tag", ids[0], "base")
    call(own, "runs tag", ids[0], "base", "--remove")
    assert len(pruned(own, capsys)) == 4
    train(own, parent="base")
    assert pruned(own, capsys) == {*ids[1:], best.dir.name}
    train(own, parent="20250102")
    assert pruned(own, capsys) == {ids[2], best.dir.name}
    train(own, parent=ids[2])
    assert pruned(own, capsys) == {best.dir.name}


@pytest.mark.slow
def test_the_last_run_before_a_child_is_what_its_parent_meant(own, capsys):
    train(own, "failed")
    parent, child = train(own, "failed"), create(own, parent="@last")
    create(own)
    rows = read_rows([own.root / "runs"])
    (row,) = [row for row in rows if row["run_id"] == child.id]
    assert Protection(rows, own.root, 3).parents_of(row) == {parent.id}


@pytest.mark.slow
def test_a_job_that_the_scheduler_starts_again_stays(own, capsys, monkeypatch):
    run, over = create(own), create(own)
    for n, each in enumerate((run, over)):
        each.update(job={"id": str(n), "scheduler": "slurm"})
        attempt = begin_attempt(each, own)
        attempt.note(pid_started="0")  # the node died
        lock = each.dir / "attempts/1/lock"
        lock.write_text(json.dumps({**json.loads(lock.read_text()), "pid_started": "0"}))
    answers = {"0": "queued", "1": None}
    answer = lambda: lambda record: answers[record["job"]["id"]]  # noqa: E731
    monkeypatch.setattr("labrig.record.keep.prune.job_state_of", answer)
    assert pruned(own, capsys) == {over.id}
    answers["0"] = "unknown"  # the scheduler does not answer, so the job may be in its queue
    assert pruned(own, capsys) == {over.id}
    month_ago = time.time() - 31 * 86400
    for path in (run.dir / "attempts/1").iterdir():
        os.utime(path, (month_ago, month_ago))
    assert pruned(own, capsys) == {run.id, over.id}
