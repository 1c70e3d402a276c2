"""Commands other than prune leave what others put beside their own, and weights of other runs."""

import os
import subprocess
from pathlib import Path

import pytest
from labrig.errors import Refused
from labrig.hdf5.file.atomic_file import temporary_directory_next_to
from labrig.hdf5.read.stage import unstage
from labrig.project import Project
from labrig.record.read.run import Run
from labrig.record.write.begin import begin_attempt
from labrig.setup.environment import require_nobody_else
from projects import work_on
from record_package import PACKAGE, delete_records, make_project, train


@pytest.fixture
def own(tmp_path):
    return make_project(tmp_path / "project")


def elsewhere(project, tmp_path):
    """A failed run whose checkpoints lie below tmp_path/big."""
    run = train(project, "failed", checkpoints=tmp_path / "big")
    return run, run.checkpoints


def folder_with_things(path):
    """A directory of somebody's own, made long ago."""
    (path / "deep").mkdir(parents=True)
    (path / "deep/thesis.tex").write_text("years of work")
    os.utime(path, (0, 0))
    return path


# Weights elsewhere are not overwritten either


@pytest.mark.slow
def test_an_attempt_in_a_copy_does_not_overwrite_the_weights_of_the_original(own, tmp_path):
    """A sibling of g3: lab resume in the copy would write last.ckpt through the link."""
    run, weights = elsewhere(own, tmp_path)
    subprocess.run(["cp", "-a", own.root, tmp_path / "copy"], check=True)
    copied = Run.open(tmp_path / "copy" / run.dir.relative_to(own.root))
    copy = work_on(Project(tmp_path / "copy", PACKAGE))
    with pytest.raises(Refused, match=f"which belongs to {run.dir}.*\n.*cp -r") as refused:
        begin_attempt(copied, copy)
    subprocess.run(str(refused.value).rpartition("own: ")[2], shell=True, check=True)
    begin_attempt(copied, copy).end("finished")
    assert not (copied.dir / "checkpoints").is_symlink()
    assert (copied.checkpoints / "last.ckpt").read_bytes() == (weights / "last.ckpt").read_bytes()


@pytest.mark.slow
def test_an_attempt_does_not_write_through_a_link_that_was_received(own, tmp_path):
    run = train(own, "interrupted")
    thesis = folder_with_things(tmp_path / "thesis")
    (run.checkpoints / "last.ckpt").unlink()
    (run.dir / "checkpoints").rmdir()
    (run.dir / "checkpoints").symlink_to(thesis)
    with pytest.raises(Refused, match="was not made for this run"):
        begin_attempt(run, own)
    assert not (run.dir / "attempts/2").exists()
    assert os.listdir(thesis) == ["deep"]


@pytest.mark.slow
def test_weights_go_along_when_a_project_is_moved(own, tmp_path):
    run, weights = elsewhere(own, tmp_path)
    own.root.rename(tmp_path / "moved")
    moved = work_on(Project(tmp_path / "moved", PACKAGE))
    again = Run.open(tmp_path / "moved" / run.dir.relative_to(own.root))
    begin_attempt(again, moved).end("failed")
    assert (weights / ".run").read_text() == f"{again.dir}\n"
    delete_records(moved)
    assert not weights.exists()


# Other commands that clear something


def test_a_packing_leaves_hidden_directories_of_others(tmp_path):
    """A sibling of g4: .digits.h5.backup beside the data file."""
    mine = folder_with_things(tmp_path / ".a.h5.my-backup")
    also = folder_with_things(tmp_path / ".a.h5.abcdefgh")
    (mine / ".lock").touch()
    for path in (mine, also):
        os.utime(path, (0, 0))
    with temporary_directory_next_to(tmp_path / "a.h5") as directory:
        assert directory.is_dir()
    assert (mine / "deep/thesis.tex").exists()
    assert (also / "deep/thesis.tex").exists()


def test_an_unstaging_leaves_files_of_others(tmp_path):
    place = tmp_path / f"lab-data-{os.getuid()}"
    place.mkdir(mode=0o700)
    (place / "notes-digits.h5").write_text("mine")
    copy = place / f"{'0' * 32}-digits.h5"
    copy.write_text("a copy")
    unstage(place, Path("digits.h5"))
    assert not copy.exists()
    assert (place / "notes-digits.h5").read_text() == "mine"


def environment_in(folder, *owners):
    folder.mkdir(parents=True)
    (folder / "pyvenv.cfg").touch()
    if owners:
        (folder / "lab-projects.txt").write_text("".join(f"{owner.root}\n" for owner in owners))
    return folder


def test_setup_makes_no_environment_anew_that_others_use(tmp_path):
    a, b = (make_project(tmp_path / name) for name in ("a", "b"))
    shared = environment_in(tmp_path / "shared", a, b)
    with pytest.raises(SystemExit, match=f"{b.root} uses it too"):
        require_nobody_else(shared, a)
    users = environment_in(tmp_path / "users")
    with pytest.raises(SystemExit, match="setup has not made it"):
        require_nobody_else(users, a)
    assert require_nobody_else(environment_in(tmp_path / "alone", a), a) is None
    assert require_nobody_else(environment_in(a.root / ".venv"), a) is None


def test_the_pictures_of_a_task_stay_when_those_of_validations_are_thinned_out(tmp_path):
    """A sibling: roc-val.png counted as that of the step `val`."""
    from labrig.training.pictures.pictures import MAX_STEPS, thin_out

    own_files = [tmp_path / f"attention-{word}.png" for word in ("head", "map", "val", "00000004")]
    for path in own_files:
        path.touch()
    for step in range(1, MAX_STEPS + 9):
        (tmp_path / f"samples-{step:08d}.png").touch()
    thin_out(tmp_path)
    assert all(path.exists() for path in own_files)
    assert len(os.listdir(tmp_path)) < MAX_STEPS + len(own_files)
