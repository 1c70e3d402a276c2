"""A data file that a run read is never lost: kept when another takes its name; its record says how to make it again."""

import json
import os
import shlex
import shutil

import h5py
import numpy as np
import pytest
from labrig.data import DataFileError, fingerprint, write_data_file
from labrig.project import Project
from labrig.record.read.run import Run
from labrig.record.reproduce.recorded_inputs import kept_path, runs_with_data
from labrig.training.parts.kept_data import with_kept_data, with_kept_override
from omegaconf import OmegaConf
from projects import copy_of, work_on
from reproduction import lab, make_project, show

pytestmark = pytest.mark.slow  # of the fixture, which trains
X = np.arange(80, dtype=np.float32).reshape(20, 4)
PACK = ("data", "pack", "arr", "data/raw/a.npz", "--as", "arrays")
TRAIN = ("train", "trial=baseline", "data=arr", "trainer.max_epochs=1")
BITWISE = "bitwise: metrics are identical"


def write_raw(folder, values):
    (folder / "data/raw").mkdir(parents=True, exist_ok=True)
    np.savez(folder / "data/raw/a.npz", x=values)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A project with data/arr.h5, a run that read it, and one that was stopped half way."""
    folder = make_project(tmp_path_factory.mktemp("trained") / "myproj")
    write_raw(folder, X)
    lab(folder, *PACK)
    lab(folder, *TRAIN, PYTHONHASHSEED="3")
    lab(folder, *TRAIN, "seed=1", LAB_STOP_STEP="3", PYTHONHASHSEED="3", rc=130)
    return folder.rename(folder.with_name("original"))


@pytest.fixture
def own(original):
    """That project at its place, as it was, for this test alone."""
    folder = copy_of(original, original.with_name("myproj"))
    work_on(Project(folder, "myproj"))
    yield folder
    shutil.rmtree(folder)


def runs(folder):
    """The finished run, and the one that was stopped."""
    return [Run.open(directory) for directory in sorted((folder / "runs/baseline").iterdir())]


def data_files(folder):
    return sorted(path.name for path in (folder / "data").glob("arr*"))


@pytest.mark.release
def test_a_file_that_runs_read_is_kept_and_read_by_them(own):
    """New-user-log 9, to the end: verify, reproduce, resume; and another file has the name."""
    finished, stopped = runs(own)
    recorded = fingerprint(own / "data/arr.h5")["sha256"]
    said = lab(own, *PACK, "--seed", "1")
    kept = f"arr-{recorded[:12]}.h5"
    assert f"2 runs read the data that {own}/data/arr.h5 held until now" in said
    assert data_files(own) == [kept, "arr.h5"]
    assert fingerprint(own / "data" / kept)["sha256"] == recorded
    assert fingerprint(own / "data/arr.h5")["sha256"] != recorded
    assert "and data are as recorded" in lab(own, "runs", "verify", finished.id)
    assert BITWISE in lab(own, "runs", "reproduce", finished.id, "--check")
    assert f"reads {own}/data/{kept}" in lab(own, "resume", stopped.id)
    hashes = [attempt["start"]["data"]["sha256"] for attempt in show(own, stopped.id)["attempts"]]
    assert hashes == [recorded, recorded]
    lab(own, *TRAIN)  # a new run reads the new file
    assert show(own)["attempts"][0]["start"]["data"]["path"] == f"{own}/data/arr.h5"


@pytest.mark.release
def test_what_no_run_read_and_what_is_the_same_is_replaced(own):
    lab(own, *PACK)  # the same data
    assert data_files(own) == ["arr.h5"]
    shutil.rmtree(own / "runs/baseline")
    lab(own, *PACK, "--seed", "1")
    assert data_files(own) == ["arr.h5"]


def test_whoever_writes_a_data_file_keeps_what_runs_read(own, monkeypatch, capsys):
    path = own / "data/arr.h5"
    before = path.read_bytes()

    def no_links(*_):
        raise OSError("a disk without hard links")

    monkeypatch.setattr(os, "link", no_links)
    write_data_file(path, {"x": X}, {})
    (kept,) = (own / "data").glob("arr-*.h5")
    assert kept.read_bytes() == before
    assert "2 runs read the data" in capsys.readouterr().err
    write_data_file(path, {"x": X + 1}, {})  # which nobody read
    assert data_files(own) == [kept.name, "arr.h5"]


def test_data_behind_a_link_stay_where_they_are(own):
    path, place = own / "data/arr.h5", own / "elsewhere.h5"
    os.rename(path, place)
    path.symlink_to(place)
    before = place.read_bytes()
    write_data_file(path, {"x": X}, {})
    assert place.read_bytes() == before
    assert data_files(own) == ["arr.h5"]


def test_a_file_of_others_is_never_replaced(own):
    """Such as the raw file itself: lab data pack old data/old.h5 --as hdf5."""
    with h5py.File(own / "data/old.h5", "w") as file:
        file["x"] = X
    before = (own / "data/old.h5").read_bytes()
    said = lab(own, "data", "pack", "old", "data/old.h5", "--as", "hdf5", rc=2)
    assert "was not written by `lab data pack`, so it is not replaced" in said
    with pytest.raises(DataFileError, match=r"so it is not replaced. Move it, or write"):
        write_data_file(own / "data/old.h5", {"x": X}, {})
    assert (own / "data/old.h5").read_bytes() == before


def test_predictions_and_evaluations_are_uses_too(own):
    project = Project(own, "myproj")
    (run, _) = runs(own)
    for name in ("predictions.jsonl", "evaluations.jsonl"):
        assert runs_with_data(project, {name}) == []
        (run.dir / name).write_text(json.dumps({"data": {"sha256": name}}) + "\n")
        assert runs_with_data(project, {name}) == [run.id]


def test_typed_data_come_before_kept_data(own, capsys):
    project = Project(own, "myproj")
    (run, _) = runs(own)
    kept = kept_path(own / "data/arr.h5", run.data["sha256"])
    config = OmegaConf.create(run.config)
    assert with_kept_override(["trainer=cpu"], run, project) == ["trainer=cpu"]
    assert with_kept_data(config, run, project) is config
    shutil.copyfile(own / "data/arr.h5", kept)
    assert with_kept_override([], run, project) == [f"data.path='{kept}'"]
    assert with_kept_data(config, run, project).data.path == str(kept)
    assert capsys.readouterr().err.count("another file has their name now") == 2
    for typed in ("data.path=b.h5", "data=b", "data.search=[x]"):
        assert with_kept_override([typed], run, project) == [typed]


@pytest.mark.release
def test_data_that_are_gone_are_made_again_by_the_recorded_command(own):
    """Also when the file was packed again with other options than its YAML had first."""
    lab(own, *PACK, "--seed", "7")
    lab(own, *TRAIN)
    run = runs(own)[-1]
    recorded = run.data["sha256"]
    command = "lab data pack arr data/raw/a.npz --as arrays --seed 7"
    os.remove(own / "data/arr.h5")
    said = lab(own, "runs", "verify", run.id, rc=1)
    assert f"Copy it there, set paths.data, or make it again: {command}\n" in said
    lab(own, *shlex.split(command)[1:])
    assert fingerprint(own / "data/arr.h5")["sha256"] == recorded
    assert "and data are as recorded" in lab(own, "runs", "verify", run.id)
    os.remove(own / "data/arr.h5")
    write_data_file(own / "data/arr.h5", {"x": X[::-1].copy()}, {})
    said = lab(own, "runs", "verify", run.id, rc=1)
    assert f"To make them again, move it away, then: {command}\n" in said
