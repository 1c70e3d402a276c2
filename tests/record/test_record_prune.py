"""Runs that nobody needs are deleted, with their code; what all runs cost is counted."""

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from labrig import env
from labrig.errors import LabError
from labrig.machine.disk import mounts_below
from labrig.record.files.metrics_file import read_metrics
from labrig.record.keep.annotate import note_named
from labrig.record.read.run import Run
from labrig.record.write.begin import begin_attempt
from record_package import PACKAGE, call, create, delete_records, git, make_project, train


@pytest.fixture
def own(tmp_path):
    return make_project(tmp_path / "project")


@pytest.mark.slow
def test_prune_keeps_what_is_referred_to(own, capsys):
    failed = [train(own, "failed") for _ in range(4)]
    best, worst = train(own, metrics={"val/loss": 0.1}), train(own, metrics={"val/loss": 0.9})
    running = create(own, parent=failed[0].id)
    begin_attempt(running, own)
    call(own, "runs tag", failed[1].id, "odd")
    note_named([failed[2].dir], Path("results.tex"))
    call(own, "runs prune", "--records")
    output = capsys.readouterr().out
    assert f"would delete {failed[3].id}" in output
    assert f"named in results.tex: {failed[2].id}" in output
    assert all(run.dir.exists() for run in failed)
    delete_records(own)
    assert [run.dir.exists() for run in failed] == [True, True, True, False]
    delete_records(own, "status=finished,running", "--keep-best", 1)
    assert (best.dir.exists(), worst.dir.exists(), running.dir.exists()) == (True, False, True)
    assert (best.dir / "code.bundle").exists()


@pytest.mark.slow
def test_weights_go_and_the_record_stays(own, capsys):
    run, kept = train(own, "failed", {"val/acc": 0.25}), train(own, "failed")
    (run.checkpoints / "last.ckpt").write_bytes(b"w" * 4_200_000)
    call(own, "runs tag", kept.id, "good")
    (run.dir / "profile").mkdir()
    (run.dir / "profile/trace.json").write_bytes(b"t" * 100_000)
    call(own, "runs prune")
    shown = capsys.readouterr().out
    assert f"would delete weights and caches of {run.id}" in shown
    assert "(4.3 MB)" in shown
    assert "4.3 MB would be freed" in shown
    assert (run.checkpoints / "last.ckpt").exists()
    call(own, "runs prune", "--yes")
    assert not list(run.checkpoints.iterdir()) + list((run.dir / "profile").iterdir())
    assert (kept.checkpoints / "last.ckpt").exists()
    assert read_metrics(run.dir)[-1]["val/acc"] == 0.25
    capsys.readouterr()
    call(own, "runs list", "--columns", "size,pruned,val/acc")
    listed = capsys.readouterr().out
    assert re.search(rf"{run.id} .* -  .* kB +4.3 MB +0.25", listed)
    assert "its weights were pruned" in listed
    call(own, "runs show", run.id)
    assert "pruned      4.3 MB" in capsys.readouterr().out
    call(own, "runs prune", "--yes")
    assert "0 B freed" in capsys.readouterr().out
    assert not list(run.dir.glob("attempts/*/lock"))[1:]  # its claim was withdrawn
    assert begin_attempt(Run.open(run.dir), own).n == 2


@pytest.mark.slow
def test_a_pruned_run_is_as_recorded(own, capsys):
    run = train(own, "finished")
    call(own, "runs prune", "status=finished", "--keep-best", "0", "--yes")
    assert not (run.checkpoints / "last.ckpt").exists()
    call(own, "runs verify", run.id)
    assert "last.ckpt was pruned" in capsys.readouterr().out


@pytest.mark.slow
def test_whole_records_are_confirmed_by_their_number(own, capsys):
    runs = [train(own, "failed") for _ in range(2)]
    for words, reason in (
        (["--records", "--yes"], "type their number: --records --confirm 2"),
        (["--records", "--confirm", "1"], "2 runs would be deleted, not 1"),
        (["--confirm", "2"], "Add --records"),
    ):
        with pytest.raises(LabError, match=reason):
            call(own, "runs prune", *words)
    assert all(run.dir.exists() for run in runs)
    delete_records(own)
    assert not any(run.dir.exists() for run in runs)


def test_a_negative_number_to_keep_is_refused(own):
    """N-g-keepneg."""
    with pytest.raises(LabError, match="expected 0 or more, got -1"):
        call(own, "runs prune", "--keep-best", "-1")


@pytest.mark.slow
def test_a_run_below_which_something_is_mounted_stays(own, capsys, monkeypatch):
    """N-g-mount."""
    run = train(own, "failed")
    mount = run.dir / "shared"
    monkeypatch.setattr("labrig.record.keep.prune.mounts_below", lambda directory: [str(mount)])
    for words in (["--yes"], ["--records", "--confirm", "0"]):
        call(own, "runs prune", *words)
        assert f"with a mount in it, {mount}" in capsys.readouterr().out
    assert (run.checkpoints / "last.ckpt").exists()


def test_mounts_are_those_that_the_kernel_lists(tmp_path):
    assert mounts_below(tmp_path) == []
    assert "/proc" in mounts_below(Path("/"))


@pytest.mark.slow
def test_a_bind_mount_is_never_entered(own, tmp_path, capsys):
    run = train(own, "failed")
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "thesis.tex").write_text("years")
    (run.dir / "in").mkdir()
    done = subprocess.run(["mount", "--bind", shared, run.dir / "in"], capture_output=True)
    if done.returncode:
        pytest.skip("cannot mount")
    try:
        call(own, "runs prune", "--records", "--confirm", "0")
    finally:
        subprocess.run(["umount", run.dir / "in"], check=True)
    assert "with a mount in it" in capsys.readouterr().out
    assert (shared / "thesis.tex").exists()


@pytest.mark.slow
def test_what_an_export_named_stays(own, tmp_path, capsys):
    """N-g-spelled, N-g-remoteref: whatever a paper makes of the id."""
    runs = [train(own, metrics={"val/loss": value}) for value in (0.1, 0.2)]
    call(own, "runs export", "trial=baseline", "-o", str(tmp_path / "results.tex"))
    capsys.readouterr()
    call(own, "runs prune", "status=finished", "--keep-best", "0", "--records")
    output = capsys.readouterr().out
    assert "named in results.tex" in output
    assert all(run.id in output for run in runs)


@pytest.mark.slow
def test_prune_takes_the_code_along_unless_another_run_has_it(own):
    kept, same = train(own, "failed"), train(own, "failed")
    call(own, "runs tag", kept.id, "odd")
    (own.root / "src" / PACKAGE / "new.py").write_text("x = 1\n")
    other = train(own, "failed")
    refs = [run.record["code"]["ref"] for run in (kept, same, other)]
    assert refs[0] == refs[1] != refs[2]
    delete_records(own)
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
    call(project, "runs prune", "--records", *args)
    lines = capsys.readouterr().out.splitlines()
    return {line.split()[2] for line in lines if line.startswith("would delete")}


@pytest.mark.slow
def test_a_run_that_finished_once_stays(own, capsys):
    run = train(own)
    begin_attempt(Run.open(run.dir), own).end("failed", exception=ValueError("boom"))
    never = train(own, "failed")
    (run.dir / "summary.json").unlink()  # whatever its status is called then
    assert pruned(own, capsys) == {never.id}
    call(own, "runs prune", "status=finished", "--records")
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


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize(
    ("goals", "kept"),
    [
        ([("val/acc", "maximize")], {1, 2}),  # equal: which of them a list shows first is not known
        ([("val/loss", "minimize")], {0}),
        ([("val/acc", "maximize"), ("val/loss", "minimize")], {0, 1}),
    ],
)
def test_what_a_sweep_calls_best_stays(own, capsys, goals, kept):
    folder = own.root / "runs/sweeps/baseline-1"
    folder.mkdir(parents=True)
    metrics, directions = zip(*goals, strict=True)
    record = {"metrics": metrics, "directions": directions, "schema": 1}
    (folder / "sweep.json").write_text(json.dumps(record))
    train(own, metrics={"val/loss": 0.01, "val/acc": 0.9})  # the best of the trial is no point
    values = [(0.1, 0.5), (0.2, 0.7), (0.3, 0.7), (0.4, 0.1)]
    points = [
        train(own, metrics={"val/loss": loss, "val/acc": acc}, parent="baseline-1")
        for loss, acc in values
    ]
    deleted = pruned(own, capsys, "status=finished", "--keep-best", 1)
    assert deleted == {point.id for n, point in enumerate(points) if n not in kept}


@pytest.mark.slow
def test_a_check_is_kept_in_place_of_no_run(own, capsys, monkeypatch):
    run = train(own, metrics={"val/loss": 0.5})
    monkeypatch.setenv(env.CHECK, "1")
    check = train(own, metrics={"val/loss": 0.25}, parent=run.id)
    (check.checkpoints / "best.ckpt").touch()
    assert pruned(own, capsys, "status=finished", "--keep-best", 1) == {check.id}


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
