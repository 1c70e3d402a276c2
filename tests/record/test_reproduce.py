"""A run is repeated as it was: from its directory, with its code, settings, variables and stretches."""

import os
import shutil

import pytest
from labrig.errors import NotComparable
from labrig.project import Paths, Project
from labrig.record.read.run import Run
from labrig.record.reproduce.recorded_inputs import find_recorded_data
from record_package import PYPROJECT
from repositories import write
from reproduction import add_data, clone, edit, lab, make_project, show

TRAIN = ("train", "trial=baseline", "trainer.max_epochs=1", "record.env_vars=[MY_*]")
AT = {"at": "sub", "PYTHONHASHSEED": "3", "MY_FACTOR": "0.5"}
BITWISE = "bitwise: metrics are identical"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A project with a run of uncommitted files, and inputs that were edited since."""
    folder = make_project(tmp_path_factory.mktemp("made") / "myproj")
    (folder / "sub/factor.txt").write_text("not committed")
    lab(folder, *TRAIN, **AT)
    edit_inputs(folder)
    return folder


def edit_inputs(folder):
    """Edits whatever a run has read."""
    edit(folder, 'CODE = "', 'CODE = "later ')
    for place in (".", "sub"):
        (folder / place / "factor.txt").write_text("edited since")


@pytest.fixture
def run(made):
    """The run, in its project."""
    (directory,) = (made / "runs/baseline").iterdir()
    return Run.open(directory)


def everything_in(folder):
    """Time and size of every file."""
    return {
        path: (path.lstat().st_mtime_ns, path.lstat().st_size)
        for path in folder.rglob("*")
        if "__pycache__" not in path.parts and not path.is_dir()
    }


@pytest.mark.release
@pytest.mark.slow
def test_another_clone_reads_the_old_data_and_writes_nothing_there(made, run, tmp_path):
    elsewhere = clone(made, tmp_path / "elsewhere")
    copied = shutil.copytree(run.dir, elsewhere / "runs/baseline" / run.id)
    before = everything_in(made)
    assert BITWISE in lab(elsewhere, "runs", "reproduce", run.id, "--check")
    assert everything_in(made) == before
    repeated = show(elsewhere)
    assert repeated["parent"] == copied.name
    (attempt,) = repeated["attempts"]
    assert attempt["start"]["data"]["path"] == str(made / "data/digits.h5")
    assert attempt["start"]["variables"]["PYTHONHASHSEED"] == "3"
    assert attempt["start"]["variables"]["OMP_NUM_THREADS"] == "2"


@pytest.mark.release
@pytest.mark.slow
def test_the_run_directory_alone_is_enough(made, run, tmp_path):
    elsewhere = shutil.copytree(
        made, tmp_path / "elsewhere", ignore=shutil.ignore_patterns(".git", "runs", "data")
    )
    copied = shutil.copytree(run.dir, tmp_path / "mail" / run.id)
    add_data(elsewhere, "digits.h5", value=1)
    add_data(elsewhere, "renamed.h5")
    os.rename(made, tmp_path / "away")
    try:
        assert BITWISE in lab(elsewhere, "runs", "reproduce", copied, "--check")
        repeated = show(elsewhere)
        assert (repeated["attempts"][0]["start"]["data"]["path"]).endswith("data/renamed.h5")
        assert "as recorded" in lab(elsewhere, "runs", "verify", repeated["run_id"])
        assert "as recorded" in lab(elsewhere, "runs", "verify", copied)
    finally:
        os.rename(tmp_path / "away", made)


@pytest.mark.release
@pytest.mark.slow
def test_extended_with_other_code(tmp_path):
    folder = make_project(tmp_path / "myproj")
    lab(folder, *TRAIN, **AT, LAB_STOP_STEP="3", rc=130)
    edit(folder, '"first"', '"second"')
    lab(folder, "resume", "@last", "trainer.max_epochs=2", PYTHONHASHSEED="4")
    edit_inputs(folder)
    original = show(folder)
    said = lab(folder, "runs", "reproduce", original["run_id"], "--check")
    assert BITWISE in said
    assert f"attempt 1 of {original['run_id']}: up to step 3" in said
    repeated = show(folder)
    starts = [attempt["start"] for attempt in repeated["attempts"]]
    commits = [attempt["start"]["code"]["commit"] for attempt in original["attempts"]]
    assert [start["code"]["commit"] for start in starts] == commits
    assert [start["variables"]["PYTHONHASHSEED"] for start in starts] == ["3", "4"]
    statuses = [attempt["end"]["status"] for attempt in repeated["attempts"]]
    assert statuses == ["interrupted", "finished"]


@pytest.fixture
def find(run, tmp_path, monkeypatch):
    """find(*names): which file is taken for the data of the run, whose own file is gone."""
    project = Project(tmp_path, "myproj")
    write(tmp_path, {"pyproject.toml": PYPROJECT, "src/myproj/__init__.py": ""})
    places = [tmp_path / "data", tmp_path / "more/data"]
    monkeypatch.setattr(Project, "paths", Paths(tmp_path / "runs", None, None, None, places))
    monkeypatch.setattr(Run, "data", run.data | {"path": "/gone/digits.h5"})
    for place in places:
        place.mkdir(parents=True)
    return lambda: find_recorded_data(project, run)[0]


@pytest.mark.release
@pytest.mark.slow
def test_data_are_found_along_the_path_by_name_size_and_content(find, tmp_path):
    add_data(tmp_path, "digits.h5", n=9)
    right = add_data(tmp_path / "more", "digits.h5")
    assert find() == right
    add_data(tmp_path, "digits.h5", value=1)  # of the same size
    assert find() == right


@pytest.mark.release
@pytest.mark.slow
def test_data_that_are_not_there_are_reported(find, run, tmp_path):
    with pytest.raises(NotComparable, match=r"is missing: digits.h5 is neither in /gone nor"):
        find()
    add_data(tmp_path, "digits.h5", n=9)
    with pytest.raises(NotComparable, match=f"recorded were {run.data['size_bytes']} bytes"):
        find()
    right = add_data(tmp_path, "renamed.h5")
    assert find() == right


def test_a_run_of_a_command_is_not_trained(made, run):
    copied = shutil.copytree(run.dir, made / "runs/command" / "20200101-000000-abcdef")
    start = copied / "attempts/1/start.json"
    start.write_text(start.read_text().replace('"attempt": 1', '"attempt": 1, "command": ["a"]'))
    assert "ran a command, not a training" in lab(made, "runs", "reproduce", copied, rc=2)
    shutil.rmtree(made / "runs/command")
