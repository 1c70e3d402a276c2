"""Runs that nobody needs are deleted, with their code; what all runs cost is counted."""

import os

import pytest
from myproj.lab.record.begin import begin_attempt
from record_package import PACKAGE, call, create, git, make_project, train


@pytest.fixture
def own(tmp_path):
    return make_project(tmp_path / "project")


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


def test_prune_takes_the_code_along_unless_another_run_has_it(own):
    kept = train(own, "failed")
    call(own, "runs tag", kept.id, "odd")
    same = train(own, "failed")
    (own.root / "src" / PACKAGE / "new.py").write_text("x = 1\n")
    other = train(own, "failed")
    refs = [run.record["code"]["ref"] for run in (kept, same, other)]
    assert refs[0] == refs[1] != refs[2]
    call(own, "runs prune", "--yes")
    assert (same.dir.exists(), other.dir.exists()) == (False, False)
    assert git(own.root, "for-each-ref", "--format=%(refname)", "refs/runs") == refs[0]
    assert [path.name[:40] for path in (own.root / "runs/.code").iterdir()] == [
        kept.record["code"]["head"]
    ]


def test_prune_removes_what_killed_starts_left_a_day_ago(own):
    train(own)
    left = [own.root / "runs/baseline" / f".2026110{n}-000000-abcdef" for n in (1, 2)]
    for directory in left:
        directory.mkdir()
    os.utime(left[0], (0, 0))
    call(own, "runs prune", "--yes")
    assert [directory.exists() for directory in left] == [False, True]


def test_cost_counts_failed_runs_too(own, capsys):
    for status in ("finished", "failed"):
        run = create(own)
        begin_attempt(run, own).end(status, seconds=1800, gpu_seconds=3600, energy_j=3.6e5)
    lost = begin_attempt(create(own, trial="wide"), own, accelerator="gpu", world_size=2)
    lost.facts["started_unix_s"] -= 3600
    lost.note()
    call(own, "runs cost")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["baseline", "2", "1.00", "2.00", "0.200"] in lines
    assert ["wide", "1", "1.00", "2.00", "0.000"] in lines
    assert ["all", "3", "2.00", "4.00", "0.200"] in lines
