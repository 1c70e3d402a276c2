"""Data sets of several files that a group shares: each once, all or none under their names, and nothing mixed."""

import json
import os
import shutil
from types import SimpleNamespace

import pytest
import yaml
from labrig.data import H5DataModule, fingerprint
from labrig.errors import Failed, LabError, Refused
from labrig.hdf5.file.errors import DataFileError
from labrig.hdf5.file.find import data_files_of, read_data_section
from labrig.hdf5.file.joined import read_data_set
from labrig.project import Project
from labrig.remote.stores import command
from labrig.remote.stores.command import missing_files
from projects import call, project_in
from reproduction import lab, make_project, show
from shared_data import (
    files_at,
    killed,
    make_several,
    pull,
    pull_after_a_cut,
    push,
    without_data,
    write_digits,
)

ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
YAML = "src/myproj/conf/data/digits.yaml"
NAMES = ("a.h5", "b.h5", "c.h5")


def set_path(project, path):
    file = project.root / YAML
    lines = file.read_text().splitlines()
    lines = [f"path: {path}" if line.startswith("path:") else line for line in lines]
    file.write_text("\n".join(lines) + "\n")


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A project whose data set digits is a folder of three files; and their hashes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    project = project_in(tmp_path / "mine")
    return project, make_several(project)


@pytest.fixture
def group(tmp_path):
    return tmp_path / "group"


def there(project, folder="data/digits"):
    return {path.name: path.read_bytes() for path in (project.root / folder).iterdir()}


def test_a_colleague_gets_the_very_bytes_of_all(mine, group, tmp_path, capsys):
    project, hashes = mine
    push(project, group)
    assert sorted(os.listdir(group)) == sorted(f"{sha256}-digits.h5" for sha256 in hashes)
    stored = read_data_section(project, "digits")["stored"]
    whole = fingerprint(read_data_set(project, "digits"))["sha256"]
    assert (stored["name"], stored["place"], stored["sha256"]) == ("digits", str(group), whole)
    assert stored["files"] == [
        {"path": f"digits/{name}", "sha256": sha256}
        for name, sha256 in zip(NAMES, hashes, strict=True)
    ]
    theirs = without_data(project, tmp_path / "theirs")
    with pytest.raises(
        DataFileError, match=r"no data file digits in .* lab data pull digits"
    ) as no:
        data_files_of(theirs, "digits")
    assert "\n" not in str(no.value)
    pull(theirs)
    assert capsys.readouterr().out.count(": verified, sha256") == 3
    assert there(theirs) == there(project)
    pull(theirs)
    assert "data/digits is what was pushed; there is nothing to fetch" in capsys.readouterr().out


def test_none_is_there_twice_and_a_further_file_is_pushed_alone(mine, group, capsys):
    project, hashes = mine
    push(project, group)
    times = {path: path.stat().st_mtime_ns for path in group.iterdir()}
    text = (project.root / YAML).read_text()
    push(project)
    assert capsys.readouterr().out.count("has it already") == 3
    assert (project.root / YAML).read_text() == text
    shutil.copy(project.root / "data/digits/a.h5", project.root / "data/digits/d.h5")
    new = write_digits(project.root / "data/digits/e.h5", seed=9)
    push(project)
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert sorted(os.listdir(group)) == sorted(f"{each}-digits.h5" for each in [*hashes, new])
    stored = yaml.safe_load((project.root / YAML).read_text())["stored"]["files"]
    assert [file["path"][7:] for file in stored] == [*NAMES, "d.h5", "e.h5"]
    assert [file["sha256"] for file in stored] == [*hashes, hashes[0], new]
    assert (project.root / YAML).read_text().count("stored:") == 1
    (project.root / "data/digits/e.h5").unlink()
    push(project)
    assert "no longer among the files of digits: digits/e.h5\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "path", ["digits/*.h5", "[digits/a.h5, digits/c.h5, digits/b.h5]", "[digits/a.h5]"]
)
def test_patterns_and_lists(mine, group, tmp_path, path):
    project, _ = mine
    set_path(project, path)
    push(project, group)
    theirs = without_data(project, tmp_path / "theirs")
    with pytest.raises(DataFileError, match=r"no data file .* lab data pull digits"):
        data_files_of(theirs, "digits")
    pull(theirs)
    names = [str(file.relative_to(theirs.root)) for file in data_files_of(theirs, "digits")]
    assert names == [str(f.relative_to(project.root)) for f in data_files_of(project, "digits")]
    assert len(files_at(project, str(group))) == (1 if path == "[digits/a.h5]" else 3)


@pytest.mark.parametrize("step", [0, 8])
def test_a_pull_that_is_killed_leaves_no_file_under_its_name_and_goes_on(
    mine, group, tmp_path, step
):
    project, _ = mine
    push(project, group)
    theirs = without_data(project, tmp_path / "theirs")
    told = killed(theirs, step, "pull", "digits", **ENVIRONMENT)
    assert not list((theirs.root / "data/digits").glob("[!.]*"))
    with pytest.raises(
        DataFileError, match=r"digits lacks 3 of the 3 files .* lab data pull digits"
    ):
        data_files_of(theirs, "digits")
    if step:
        assert killed(theirs, 0, "pull", "digits", **ENVIRONMENT)[0] >= told[0] + told[1] > 0
    pull(theirs)
    assert there(theirs) == there(project)


def test_a_pull_that_was_cut_in_the_second_file_goes_on(mine, group, tmp_path):
    project, hashes = mine
    push(project, group)
    copied, original = pull_after_a_cut(project, tmp_path / "theirs", hashes)
    assert copied == original


def test_a_file_that_is_missing_is_fetched_alone_and_training_waits_for_it(mine, group, tmp_path):
    project, hashes = mine
    push(project, group)
    theirs = without_data(project, tmp_path / "theirs")
    pull(theirs)
    (theirs.root / "data/digits/b.h5").unlink()
    section = read_data_section(theirs, "digits")
    data = H5DataModule("digits/", [str(theirs.root / "data")], stored=section["stored"])
    message = r"data/digits lacks 1 of the 3 files that were pushed, such as b.h5. Fetch it: lab data pull d"
    with pytest.raises(DataFileError, match=message):
        data.prepare_data()
    some = [f"digits/{name}" for name in ("a.h5", "c.h5")]  # as a run that is resumed names them
    both = H5DataModule(some, [str(theirs.root / "data")], stored=section["stored"])
    assert both.layout.n_samples == 202
    for sha256 in hashes[::2]:
        (group / f"{sha256}-digits.h5").unlink()
    pull(theirs)
    assert there(theirs) == there(project)
    assert data.layout.n_samples == 303


def test_what_is_not_what_was_pushed_stays_and_nothing_is_mixed(mine, group, tmp_path):
    project, _ = mine
    push(project, group)
    theirs = without_data(project, tmp_path / "theirs")
    folder = theirs.root / "data/digits"
    folder.mkdir(parents=True)
    write_digits(folder / "b.h5", 10, 7)
    with pytest.raises(Refused, match=r"b.h5 holds other data than were pushed. Move it away"):
        pull(theirs)
    other = (folder / "b.h5").rename(folder / "z.h5")
    with pytest.raises(Refused, match=r"z.h5 was not pushed, and would be read with the others"):
        pull(theirs)
    assert os.listdir(folder) == ["z.h5"]
    other.unlink()
    pull(theirs)
    assert there(theirs) == there(project)


def test_a_false_file_keeps_all_others_hidden(mine, group, tmp_path):
    project, hashes = mine
    push(project, group)
    false = group / f"{hashes[1]}-digits.h5"
    false.chmod(0o644)
    false.write_bytes((project.root / "data/digits/a.h5").read_bytes())
    theirs = without_data(project, tmp_path / "theirs")
    with pytest.raises(Failed, match=rf"{hashes[1]}-digits.h5 is refused: its content has another"):
        pull(theirs)
    assert not list((theirs.root / "data/digits").glob("[!.]*"))
    false.unlink()
    with pytest.raises(Failed, match=rf"has no file of the hash {hashes[1][:12]}"):
        pull(theirs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"files": None},
            r"it is of another path than digits/. Write it again, where the data are",
        ),
        ({"sha256": "0" * 64}, "its hash is not that of its files"),
        (
            {"files": [{"path": "../a.h5", "sha256": "0" * 64}]},
            r"files\[0\].path is not a relative path",
        ),
        ({"files": [{"path": "a.h5"}]}, "has no 'sha256'"),
    ],
)
def test_a_setting_that_is_not_of_these_files(mine, group, change, message):
    project, _ = mine
    push(project, group)
    text = (project.root / YAML).read_text()
    stored = yaml.safe_load(text)["stored"] | change
    stored = {key: value for key, value in stored.items() if value is not None}
    head = text[: text.index("stored:")]
    (project.root / YAML).write_text(f"{head}stored: {json.dumps(stored)}\n")
    with pytest.raises(LabError, match=message):
        pull(project)


@pytest.mark.parametrize("path", ["../data2/", "{tmp}/data2/"])
def test_files_outside_of_paths_data_are_not_pushed(mine, group, tmp_path, path):
    project, _ = mine
    (project.root / "data/digits").rename(project.root / "data2")
    shutil.copytree(project.root / "data2", tmp_path / "data2")
    set_path(project, path.format(tmp=tmp_path))
    (project.root / "data").mkdir(exist_ok=True)
    with pytest.raises(LabError, match=r"a.h5 lies in no directory of paths.data.* path: digits/"):
        push(project, group)
    assert not group.exists()


def run_of(files, path="digits/", configured="digits/"):
    data = {"size_bytes": 9, "sha256": "0" * 64, "path": path, "files": files}
    config = {"data": {"path": configured}}
    return SimpleNamespace(id="20260101-000000-abcdef", data=data, config=config)


def recorded(folder, names):
    return [dict(fingerprint(folder / name)) for name in names]


def test_where_the_files_of_a_run_go(mine, tmp_path):
    project, hashes = mine
    files = recorded(project.root / "data/digits", NAMES)
    run = run_of(files)
    (project.root / "data/digits").rename(tmp_path / "away")
    data = project.root / "data"

    def names():
        return [str(path.relative_to(data)) for path in missing_files(project, run)]

    assert names() == [f"digits/{name}" for name in NAMES]
    run.config = {"data": {"path": ["digits/a.h5", "c*.h5", "/x/b.h5"]}}
    assert names() == ["digits/a.h5", "digits/b.h5", "c.h5"]
    run.config = {"data": {"path": "deep/digits"}}
    assert names() == [f"deep/digits/{name}" for name in NAMES]
    run.config = {"data": {"path": "*/*.h5"}}
    assert names() == [f"digits/{name}" for name in NAMES]
    (data / "digits").mkdir(parents=True)
    write_digits(data / "digits/a.h5", 10, 8)
    short = [sha256[:12] for sha256 in hashes]
    assert names() == [f"digits/a-{short[0]}.h5", f"b-{short[1]}.h5", f"c-{short[2]}.h5"]
    shutil.copy(tmp_path / "away/b.h5", data / "digits/b.h5")
    assert names() == [f"digits/a-{short[0]}.h5", f"c-{short[2]}.h5"]
    run.config = {"data": {"path": "../digits"}}
    for file in files:
        file["path"] = "/gone/../a.h5"
    with pytest.raises(LabError, match=r"a data file of .* is not a relative path .* trusted"):
        names()


def test_a_record_of_a_stranger_leads_to_no_other_place(mine):
    project, _ = mine
    run = SimpleNamespace(data={"path": "/a/../../b/c.h5", "sha256": "../../../abcdef"})
    file = project.root / "data/c.h5"
    assert [*missing_files(project, run)] == [file]
    file.touch()
    assert [*missing_files(project, run)] == [file.with_name("c-abcdef.h5")]


@pytest.mark.release
@pytest.mark.parametrize("is_there", [False, True])
def test_a_colleagues_run_is_reproduced_with_its_files(tmp_path, group, is_there):
    """It read two of the three files that are pushed; others may have their names now."""
    folder = make_project(tmp_path / "myproj")
    for name in NAMES[:2]:
        write_digits(folder / "data/arr" / name, 20, ord(name[0]))
    text = (folder / YAML).read_text().replace("path: digits.h5", "path: arr/")
    (folder / YAML.replace("digits", "arr")).write_text(text)
    call(folder, "git", "add", "-A")
    call(folder, "git", "commit", "-qm", "Add data")
    lab(folder, "train", "trial=baseline", "data=arr", "trainer.max_epochs=1", PYTHONHASHSEED="3")
    run_id = show(folder)["run_id"]
    write_digits(folder / "data/arr/c.h5", 20, 9)
    lab(folder, "data", "push", "arr", group)
    call(folder, "git", "commit", "-qam", "Name the place of the data")
    shutil.rmtree(folder / "data/arr")
    if is_there:
        write_digits(folder / "data/arr/a.h5", 20, 5)
    assert f"lab data pull {run_id}" in lab(folder, "runs", "reproduce", run_id, rc=3)
    said = lab(folder, "data", "pull", run_id)
    assert said.count(": verified, sha256") == 2
    assert "metrics are identical" in lab(folder, "runs", "reproduce", run_id, "--check")
    assert "there is nothing to fetch" in lab(folder, "data", "pull", run_id)
    if not is_there:
        assert sorted(os.listdir(folder / "data/arr")) == [*NAMES[:2]]
        lab(folder, "data", "pull", "arr")
        assert sorted(os.listdir(folder / "data/arr")) == [*NAMES]
        assert len(read_data_set(Project(folder, "myproj"), "arr").parts) == 3


def test_a_run_of_several_files_without_a_place(mine):
    project, _ = mine
    run = run_of(recorded(project.root / "data/digits", NAMES))
    (project.root / "data/digits/a.h5").unlink()
    with pytest.raises(
        LabError, match=r"neither .* nor a file of conf/data says where its data lie"
    ):
        command.pull_for_run(project, run, None)
