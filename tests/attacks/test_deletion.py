"""Only what `lab` made is deleted, for this project and person, and only when nobody needs it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from labrig.errors import Refused
from labrig.project import CONF, Project, read_yaml
from labrig.record.keep.annotate import note_named
from labrig.record.keep.prune import Deletion
from labrig.record.read.run import record_root
from labrig.record.write.begin import begin_attempt
from labrig.record.write.claim import claim_attempt, in_use, is_claimed
from labrig.record.write.create import create_run
from projects import call as call_in
from projects import environment_of, work_on
from record_package import (
    PACKAGE,
    call,
    commit,
    create,
    delete_records,
    make_project,
    request,
    train,
)
from records import relist
from repositories import write

THREE_DAYS_AGO = time.time() - 3 * 86400


@pytest.fixture
def own(tmp_path):
    return make_project(tmp_path / "project")


def prune(project, capsys, *args):
    """What `lab runs prune --records` prints when it deletes."""
    capsys.readouterr()
    delete_records(work_on(project), *args)
    return capsys.readouterr().out


def change_record(run, **entries):
    """Gives the record of a run other entries, as a person or a hostile program would."""
    for name in ("run.json", "summary.json"):
        path = run.dir / name
        if path.exists():
            path.write_text(json.dumps(json.loads(path.read_text()) | entries))


def folder_with_things(path):
    """A directory of somebody's own."""
    (path / "deep").mkdir(parents=True)
    (path / "deep/thesis.tex").write_text("years of work")
    return path


def grow_old(path):
    os.utime(path, (THREE_DAYS_AGO, THREE_DAYS_AGO), follow_symlinks=False)


def elsewhere(project, tmp_path):
    """A failed run whose checkpoints lie below tmp_path/big."""
    run = train(project, "failed", checkpoints=tmp_path / "big")
    return run, run.checkpoints


# Links


@pytest.mark.slow
@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_the_target_of_a_checkpoints_link_stays(own, tmp_path, capsys, status):
    """g-ckptlink-failed, g2: a run that was received, or whose weights were replaced by a link."""
    run = train(own, status)
    thesis = folder_with_things(tmp_path / "thesis")
    (run.dir / "checkpoints/last.ckpt").unlink()
    (run.dir / "checkpoints").rmdir()
    (run.dir / "checkpoints").symlink_to(thesis)
    assert f"its checkpoints stay in {thesis}" in prune(own, capsys)
    assert not run.dir.exists()
    assert (thesis / "deep/thesis.tex").exists()


@pytest.mark.slow
def test_a_checkpoints_link_to_another_run_deletes_that_one_s_weights_never(own, tmp_path, capsys):
    """A sibling: the target has the mark of a run, but of another one."""
    kept, weights = elsewhere(own, tmp_path)
    call(own, "runs tag", kept.id, "keep")
    run = train(own, "failed")
    (run.dir / "checkpoints/last.ckpt").unlink()
    (run.dir / "checkpoints").rmdir()
    (run.dir / "checkpoints").symlink_to(weights)
    prune(own, capsys)
    assert not run.dir.exists()
    assert (weights / "last.ckpt").exists()


@pytest.mark.slow
def test_a_copied_project_deletes_its_links_and_not_the_weights_of_the_original(
    own, tmp_path, capsys
):
    """g3; and the original deletes its own."""
    run, weights = elsewhere(own, tmp_path)
    subprocess.run(["cp", "-a", own.root, tmp_path / "copy"], check=True)
    copy = Project(tmp_path / "copy", PACKAGE)
    copied = tmp_path / "copy" / run.dir.relative_to(own.root)
    assert "its checkpoints stay in" in prune(copy, capsys)
    assert not copied.exists()
    assert (weights / "last.ckpt").exists()
    assert str(weights) in prune(own, capsys)
    assert not weights.exists()


@pytest.mark.slow
@pytest.mark.parametrize("level", ["trial", "run"])
def test_a_run_behind_a_link_is_a_colleague_s(own, tmp_path, capsys, level):
    """g-linktrial: runs/theirs leads to a colleague's runs/baseline."""
    run = train(own, "failed")
    theirs = tmp_path / "colleague"
    theirs.mkdir()
    moved = run.dir.parent.rename(theirs / "baseline")
    if level == "trial":
        (own.root / "runs/theirs").symlink_to(moved)
    else:
        (own.root / "runs/mine").mkdir()
        (own.root / "runs/mine" / run.id).symlink_to(moved / run.id)
    assert "behind a link" in prune(own, capsys)
    assert (moved / run.id / "run.json").exists()


# What lies beside runs


NOT_OURS = (
    "baseline/.venv-py312",
    "baseline/.git-backup",
    "papers/.draft-2025",
    "papers/.Trash-1000",
    "papers/.20250101-notes",
    "papers/.deleted-scenes",
)


@pytest.mark.slow
def test_hidden_directories_of_others_stay(own, tmp_path, capsys):
    """g-scratchroot, g4: /scratch/me holds runs and other projects."""
    train(own)
    for name in NOT_OURS:
        folder_with_things(own.root / "runs" / name)
        grow_old(own.root / "runs" / name)
    ours = own.root / "runs/baseline/.deleted-20250101-000000-abcdef"
    ours.mkdir()
    grow_old(ours)
    assert f"also deleting {ours}" in prune(own, capsys)
    assert not ours.exists()
    assert all((own.root / "runs" / name / "deep/thesis.tex").exists() for name in NOT_OURS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["file", "link", "pre-commit", "file with our name", "link to ours"]
)
def test_a_hidden_file_or_link_is_no_leftover(own, tmp_path, capsys, kind):
    """g5, g-hiddenlink, g-precommitfile."""
    run = train(own, "failed")
    target = folder_with_things(tmp_path / "target")
    names = {"file": ".x-y", "link": ".a-link", "pre-commit": ".pre-commit-config.yaml"}
    path = own.root / "runs/baseline" / names.get(kind, ".deleted-20250101-000000-abcdef")
    if "link" in kind:
        path.symlink_to(target)
    else:
        path.write_text("text")
    grow_old(path)
    prune(own, capsys)
    assert not run.dir.exists()
    assert os.path.lexists(path)
    assert (target / "deep/thesis.tex").exists()


@pytest.mark.slow
def test_leftovers_behind_a_link_stay(own, tmp_path, capsys):
    train(own)
    theirs = folder_with_things(tmp_path / "theirs/.20250101-000000-abcdef")
    grow_old(theirs)
    (own.root / "runs/theirs").symlink_to(theirs.parent)
    prune(own, capsys)
    assert (theirs / "deep/thesis.tex").exists()


@pytest.mark.slow
def test_a_directory_named_as_a_run_without_a_record_stays(own, capsys):
    train(own)
    notes = folder_with_things(own.root / "runs/baseline/20250101-000000-abcdef")
    output = prune(own, capsys, "status=damaged")
    assert "without a readable run.json" in output
    assert (notes / "deep/thesis.tex").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["*", "../*", "?" * 40])
def test_a_commit_of_a_hostile_record_is_no_pattern(own, capsys, name):
    """A sibling: the commits of a record choose the bundles that go."""
    kept = train(own)
    run = train(own, "failed")
    change_record(run, code=run.record["code"] | {"commit": name, "head": name, "base": name})
    bundles = sorted((own.root / "runs/.code").rglob("*"))
    prune(own, capsys)
    assert run.dir.exists(), "its record is damaged, so nobody knows what it needs"
    assert [path for path in bundles if path.exists()] == bundles
    assert kept.dir.exists()


# Whose they are


@pytest.mark.slow
def test_another_person_s_run_goes_only_when_that_person_is_named(own, capsys):
    """g-otheruser."""
    run = train(own, "interrupted")
    change_record(run, who="alice")
    assert "of alice; add who=NAME" in prune(own, capsys)
    assert run.dir.exists()
    prune(own, capsys, "who=bob")
    assert run.dir.exists()
    prune(own, capsys, "who=alice", "status=interrupted")
    assert not run.dir.exists()


@pytest.fixture
def neighbours(tmp_path):
    """Two projects of one person whose runs lie in one directory."""
    projects = []
    for name in ("a", "b"):
        project = make_project(tmp_path / name)
        (tmp_path / name / f"src/{PACKAGE}/conf/config.yaml").write_text(
            f"paths: {{runs: {tmp_path}/shared}}\n"
        )
        (tmp_path / name / "who.txt").write_text(name)
        commit(tmp_path / name, "share")
        projects.append(project)
    return projects


def train_in(project, status, **changes):
    work_on(project)
    shared = project.paths.runs
    run = create_run(project, shared, request(**changes))
    begin_attempt(run, project).end(status)
    return run


@pytest.mark.slow
def test_runs_of_another_project_in_the_same_root_stay(neighbours, capsys):
    """g-jeanzay: prune is typed in A, and again in B, whose report names its run."""
    a, b = neighbours
    mine = train_in(a, "interrupted")
    theirs = train_in(b, "interrupted")
    output = prune(a, capsys)
    assert f"of another project, {b.root}: {theirs.id}" in output
    assert (mine.dir.exists(), theirs.dir.exists()) == (False, True)
    note_named([theirs.dir], Path("report.html"))
    assert f"named in report.html: {theirs.id}" in prune(b, capsys)
    assert theirs.dir.exists()


@pytest.mark.slow
def test_a_project_that_moved_knows_its_runs_by_their_code(neighbours, capsys):
    a, b = neighbours
    mine, theirs = train_in(a, "failed"), train_in(b, "failed")
    for project in neighbours:
        project.root.rename(project.root.with_name(f"moved-{project.root.name}"))
    moved = Project(a.root.with_name("moved-a"), PACKAGE)
    assert f"of another project, {b.root}" in prune(moved, capsys)
    assert (mine.dir.exists(), theirs.dir.exists()) == (False, True)


@pytest.mark.slow
def test_the_best_of_a_trial_is_the_best_of_this_project(neighbours, capsys):
    """A sibling: better runs of a neighbour do not push one's own out of the best."""
    a, b = neighbours
    mine = train_in(a, "finished")
    change_record(mine, metrics={"val/loss": 0.5})
    for _ in range(2):
        change_record(train_in(b, "finished"), metrics={"val/loss": 0.1})
    prune(a, capsys, "status=finished", "--keep-best", 1)
    assert mine.dir.exists()


def test_runs_that_a_site_keeps_outside_of_the_project_lie_below_its_name():
    """g-jeanzay: $WORK/runs was one directory for all projects."""
    for file in CONF.glob("site/*.yaml"):
        runs = (read_yaml(file).get("paths") or {}).get("runs", "runs")
        assert runs == "runs" or "${package}" in runs, file


# Who needs them


@pytest.mark.slow
def test_a_run_that_is_being_resumed_stays(own, capsys):
    """g-prune-resume: attempt 2 is claimed, and has not begun."""
    run = train(own, "interrupted")
    assert not is_claimed(run.dir)
    assert claim_attempt(run.dir) == 2
    assert f"in use by a process: {run.id}" in prune(own, capsys)
    assert run.dir.exists()


@pytest.mark.slow
def test_a_run_that_is_claimed_at_the_last_moment_is_back(own, capsys, monkeypatch):
    run = train(own, "interrupted")
    announce = Deletion.announce
    monkeypatch.setattr(
        Deletion, "announce", lambda self, *facts: (announce(self, *facts), claim_attempt(run.dir))
    )
    call(own, "runs prune", "--records", "--confirm", 1)
    assert f"{run.id} stays: a process has just begun to use it" in capsys.readouterr().out
    assert (run.dir / "attempts/2/lock").exists()


@pytest.mark.slow
def test_a_claim_whose_process_died_holds_nothing(own, capsys):
    run = train(own, "interrupted")
    claim = (
        "import sys; from pathlib import Path\n"
        "from labrig.record.write.claim import claim_attempt; claim_attempt(Path(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", claim, run.dir], check=True)
    prune(own, capsys)
    assert not run.dir.exists()


@pytest.mark.slow
def test_a_run_that_is_evaluated_stays(own, capsys):
    run = train(own, "failed")
    with in_use(run.dir):
        assert "in use by a process" in prune(own, capsys)
    assert run.dir.exists()
    assert not list(run.dir.glob(".used-*"))
    prune(own, capsys)
    assert not run.dir.exists()


@pytest.mark.slow
@pytest.mark.parametrize("settled", [False, True])
def test_a_point_that_its_sweep_resumes_stays(own, capsys, settled):
    run = train(own, "interrupted", parent="baseline-62360ed4")
    lines = [
        {"op_code": 8, "trial_id": 3, "user_attr": {"run": f"baseline/{run.id}"}},
        {"op_code": 8, "trial_id": 3, "user_attr": {"worker": None}},
    ]
    if settled:
        lines.append({"op_code": 6, "trial_id": 3, "state": 2, "values": None})
    journal = own.root / "runs/sweeps/baseline-62360ed4/journal.log"
    write(own.root, {str(journal): "".join(json.dumps(line) + "\n" for line in lines)})
    output = prune(own, capsys)
    assert ("a point that its sweep resumes" in output) is not settled
    assert run.dir.exists() is not settled


@pytest.mark.slow
@pytest.mark.parametrize("place", ["missing", "empty", "runs is a link"])
def test_a_disk_that_is_not_there_may_need_any_run(own, tmp_path, capsys, place):
    """g-offline: the child lies on a disk that is not mounted."""
    parent = train(own, "failed")
    disk = tmp_path / "disk"
    work_on(own)
    create_run(own, disk, request(parent=parent.id))
    assert "the parents of others" in prune(own, capsys)
    disk.rename(tmp_path / "unmounted")
    if place == "empty":
        disk.mkdir()
    if place == "runs is a link":
        (own.root / "runs/.roots").unlink()
        (own.root / "runs").rename(tmp_path / "moved")
        (own.root / "runs").symlink_to(disk)
    with pytest.raises(Refused, match="is not there now, so what they need cannot be known"):
        prune(own, capsys)
    assert parent.dir.exists() or place == "runs is a link"


@pytest.mark.slow
def test_an_old_record_without_a_name_is_of_who_owns_the_directory(own, capsys):
    run = train(own, "failed")
    change_record(run, who=None)
    if os.getuid() == 0:
        os.chown(run.dir, 65534, 65534)
        assert "of 65534; add who=NAME" in prune(own, capsys)
        os.chown(run.dir, 0, 0)
    prune(own, capsys)
    assert not run.dir.exists()


@pytest.mark.slow
def test_what_deletes_nothing_prints_the_same_paths(own, tmp_path, capsys):
    run, weights = elsewhere(own, tmp_path)
    call(work_on(own), "runs prune", "--records")
    announced = capsys.readouterr().out.replace("would also delete", "also deleting")
    announced = announced.replace("would delete", "deleting").replace("would be deleted", "deleted")
    announced = announced.replace("; to delete their records: --records --confirm 1", "")
    assert run.dir.exists()
    assert weights.exists()
    deleted = prune(own, capsys)
    assert deleted == announced
    assert str(run.dir) in deleted
    assert str(weights) in deleted
    assert "refs/runs/" in deleted


@pytest.mark.release
@pytest.mark.slow
def test_a_run_in_a_recorded_root_is_pruned_as_before(own, tmp_path, capsys):
    work_on(own)
    run = create_run(own, tmp_path / "old", request())
    record_root(own, tmp_path / "old")
    begin_attempt(run, own).end("failed")
    prune(own, capsys)
    assert not Path(run.dir).exists()
    create(own)


SEED = "seed=4711"  # of no other run in the shared project


@pytest.mark.release
@pytest.mark.slow
def test_a_run_stays_from_the_first_moment_of_its_resumption(home, tmp_path, capsys):
    """g-prune-resume, as it was typed: prune at every moment of the start of lab resume."""
    call_in(home, "lab", "train", "trial=baseline", "trainer=cpu", "trainer.max_epochs=1", SEED)
    (run_dir,) = sorted((home / "runs/baseline").glob("2*"))[-1:]
    for name in ("summary.json", "attempts/1/end.json"):
        entries = json.loads((run_dir / name).read_text())
        relist(run_dir / name, entries | {"status": "interrupted"})
    command = ["lab", "resume", run_dir.name, "trainer.max_epochs=2"]
    resuming = subprocess.Popen(command, cwd=home, env=environment_of(home))
    try:
        while not list(run_dir.glob(".used-*")) and resuming.poll() is None:
            time.sleep(0.02)
        while resuming.poll() is None:
            unfinished = "status=failed,interrupted,lost"  # it may finish at any moment
            output = call_in(home, "lab", "runs", "prune", SEED, unfinished, "--records")
            assert f"delete {run_dir.name}" not in output
    finally:
        resuming.wait(timeout=180)
    assert resuming.returncode == 0
    assert (run_dir / "attempts/2/end.json").exists()
    assert not list(run_dir.glob(".used-*"))
