"""Data files that a group shares in a folder: under the hash of their content, verified, never twice, never half."""

import io
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
from labrig.data import write_data_file
from labrig.errors import Failed, LabError, Refused
from labrig.hdf5.file.errors import DataFileError
from labrig.hdf5.file.find import data_files_of, read_data_section
from labrig.remote.stores import command
from labrig.remote.stores.store import FolderStore
from projects import call
from reproduction import lab, make_project, show
from shared_data import (
    files_at,
    killed,
    project_with_data,
    pull,
    push,
    without_data,
    write_digits,
)

ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return project_with_data(tmp_path / "mine")


@pytest.fixture
def group(tmp_path):
    return tmp_path / "group"


def test_a_colleague_gets_the_very_bytes(mine, group, tmp_path, capsys):
    project, sha256 = mine
    push(project, group)
    assert os.listdir(group) == [f"{sha256}-digits.h5"]
    assert not (group / f"{sha256}-digits.h5").stat().st_mode & 0o222
    stored = {"name": "digits", "place": str(group), "sha256": sha256}
    assert read_data_section(project, "digits")["stored"] == stored
    theirs = without_data(project, tmp_path / "theirs")
    with pytest.raises(DataFileError, match=r"no data file digits.h5 .* lab data pull digits"):
        data_files_of(theirs, "digits")
    pull(theirs)
    assert f"{theirs.root}/data/digits.h5: verified, sha256 {sha256}" in capsys.readouterr().out
    there, here = (each.root / "data/digits.h5" for each in (project, theirs))
    assert there.read_bytes() == here.read_bytes()
    assert os.listdir(theirs.root / "data") == ["digits.h5"]
    pull(theirs)
    assert "there is nothing to fetch" in capsys.readouterr().out


@pytest.mark.parametrize("length", [4, None], ids=["cut", "of the same length"])
def test_a_file_there_with_other_bytes_than_its_name_says_is_refused(mine, group, length):
    project, sha256 = mine
    push(project, group)
    there = group / f"{sha256}-digits.h5"
    there.chmod(0o644)
    content = there.read_bytes()
    middle = len(content) // 2
    changed = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    there.write_bytes(content[:length] if length else changed)
    with pytest.raises(Failed, match=r"with other bytes than its name says.*Delete it there"):
        push(project)


def test_it_is_never_there_twice(mine, group, capsys):
    project, sha256 = mine
    push(project, group)
    there = group / f"{sha256}-digits.h5"
    before = there.stat().st_ino, there.stat().st_mtime_ns
    yaml = project.root / "src/myproj/conf/data/digits.yaml"
    text = yaml.read_text()
    push(project)
    assert f"{group} has it already" in capsys.readouterr().out
    assert (there.stat().st_ino, there.stat().st_mtime_ns) == before
    assert yaml.read_text() == text
    other = write_digits(project.root / "data/digits.h5", seed=1)
    push(project)
    assert sorted(os.listdir(group)) == sorted(f"{each}-digits.h5" for each in (sha256, other))
    assert yaml.read_text() == text.replace(sha256, other)


@pytest.mark.parametrize("step", [0, 6, 11])
def test_a_push_that_is_killed_goes_on(mine, group, step, capsys):
    project, sha256 = mine
    told = killed(project, step, "push", "digits", str(group), **ENVIRONMENT)
    assert files_at(project, str(group)) == []
    told_again = (
        killed(project, 1, "push", "digits", str(group), **ENVIRONMENT) if step == 6 else []
    )
    push(project, group)
    if told_again:
        assert told_again[0] >= sum(told[:-1]) > 0, "the second began where the first was killed"
    stored = group / f"{sha256}-digits.h5"
    assert stored.read_bytes() == (project.root / "data/digits.h5").read_bytes()
    assert os.listdir(group) == [stored.name]


@pytest.mark.parametrize("step", [0, 6, 11])
def test_a_pull_that_is_killed_goes_on(mine, group, tmp_path, step):
    project, _ = mine
    push(project, group)
    theirs = without_data(project, tmp_path / "theirs")
    told = killed(theirs, step, "pull", "digits", **ENVIRONMENT)
    assert not (theirs.root / "data/digits.h5").exists()
    if step == 6:
        assert killed(theirs, 0, "pull", "digits", **ENVIRONMENT)[0] >= sum(told[:-1]) > 0
    pull(theirs)
    there, here = (each.root / "data/digits.h5" for each in (project, theirs))
    assert there.read_bytes() == here.read_bytes()
    assert os.listdir(theirs.root / "data") == ["digits.h5"]


def test_what_an_earlier_push_left_damaged_is_not_stored(mine, group):
    project, sha256 = mine
    group.mkdir()
    part = group / f".{sha256}-digits.h5.part"
    part.write_bytes(bytes(1000))  # of the right length, of other bytes
    with pytest.raises(Failed, match=r"does not hold the bytes of .* Type the same again"):
        push(project, group)
    assert files_at(project, str(group)) == []
    push(project, group)
    assert files_at(project, str(group)) == [f"{sha256}-digits.h5"]


def test_two_at_once_do_not_mix(mine, group, module):
    project, sha256 = mine
    group.mkdir()
    with (
        module("hdf5.file.atomic_file").open_part(group / f".{sha256}-digits.h5.part"),
        pytest.raises(Failed, match=r"another process writes .* Type the same again when"),
    ):
        push(project, group)


def test_another_file_of_the_name_is_not_replaced(mine, group, tmp_path):
    project, _ = mine
    push(project, group)
    theirs = without_data(project, tmp_path / "theirs")
    other = write_digits(theirs.root / "data/digits.h5", seed=1)
    with pytest.raises(Refused, match=r"holds other data than were pushed. Move it away"):
        pull(theirs)
    push(theirs, group)
    assert read_data_section(theirs, "digits")["stored"]["sha256"] == other


def test_lists(mine, group, capsys):
    project, sha256 = mine
    command.list_command(project, [])
    assert capsys.readouterr().out.split()[-3:] == ["digits", f"{project.root}/data/digits.h5", "-"]
    push(project, group)
    (group / "notes.txt").touch()
    capsys.readouterr()
    command.list_command(project, [str(group)])
    title, line = capsys.readouterr().out.splitlines()
    assert title.split() == ["data", "MB", "since", "sha256"]
    assert line.split()[::3] == ["digits", sha256[:12]]
    command.list_command(project, [])
    assert capsys.readouterr().out.split()[-1] == str(group)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["digit"], "no data set 'digit'; did you mean: digits"),
        (["digits"], "say where to: lab data push digits PLACE"),
        (
            ["digits", "gs://bucket/a"],
            "the place of the data: .* is not a folder, ssh://HOST/FOLDER or s3://BUCKET/FOLDER",
        ),
        (
            ["digits", "ssh://-oProxyCommand=x/a"],
            "the place of the data: .* is not a folder, ssh://HOST",
        ),
        (["digits", "ssh://host"], "the place of the data: .* is not a folder, ssh://HOST"),
    ],
)
def test_a_push_to_nowhere(mine, words, message):
    with pytest.raises(LabError, match=message):
        command.push_command(mine[0], words)


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/nowhere", "misspelt/data"])
def test_a_place_that_cannot_be_a_folder_is_told(mine, tmp_path, place, capsys):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(Failed, match=r"cannot be made, .*\. Name another place: lab data push"):
        push(mine[0], tmp_path / place)
    assert not (tmp_path / "misspelt").exists()
    capsys.readouterr()
    command.list_command(mine[0], [str(tmp_path / "misspelt")])
    assert "misspelt holds no data. To put some there: lab data push" in capsys.readouterr().out


def test_a_pull_without_a_place(mine, group):
    project, _ = mine
    with pytest.raises(LabError, match=r"the YAML of digits names no place.* lab data push digits"):
        pull(project)
    push(project, group)
    shutil.rmtree(group)
    (project.root / "data/digits.h5").unlink()
    with pytest.raises(Failed, match=rf"{group} has no file of the hash .* lab data list {group}"):
        pull(project)


def test_a_copy_that_ends_early_is_kept_for_the_next(mine, group, tmp_path, monkeypatch):
    project, _ = mine
    push(project, group)
    theirs = without_data(project, tmp_path / "theirs")
    with monkeypatch.context() as patch:
        patch.setattr(FolderStore, "open", lambda *_: io.BytesIO(bytes(10)))
        with pytest.raises(Failed, match=r"was cut: 10 of \d+ bytes. Type the same again"):
            pull(theirs)
    assert not (theirs.root / "data/digits.h5").exists()


def test_a_part_that_is_too_long_begins_again(mine, group, tmp_path):
    project, sha256 = mine
    content = (project.root / "data/digits.h5").read_bytes()
    group.mkdir()
    (group / f".{sha256}-digits.h5.part").write_bytes(bytes(len(content) + 1))
    push(project, group)
    theirs = without_data(project, tmp_path / "theirs")
    (theirs.root / "data").mkdir()
    part = theirs.root / "data" / f".digits.h5.{sha256[:12]}.part"
    part.write_bytes(bytes(len(content) + 1))
    pull(theirs)
    assert (theirs.root / "data/digits.h5").read_bytes() == content


def test_only_one_packed_file_is_shared(mine, group, tmp_path):
    project, _ = mine
    (project.root / "data/digits.h5").unlink()
    (project.root / "data/digits.h5").mkdir()
    with pytest.raises(LabError, match=r"is a folder. Pack it into one file first: lab data pack"):
        push(project, group)
    run = SimpleNamespace(id="20260101-000000-abcdef", data={})
    with pytest.raises(LabError, match=r"recorded no data file. See: lab runs show"):
        command.pull_for_run(project, run, None)


def test_a_class_that_takes_no_place_is_told(mine, group, capsys):
    project, sha256 = mine
    (project.source / "data.py").write_text(
        "from labrig import H5DataModule\n\n\nclass Digits(H5DataModule):\n"
        "    def __init__(self, path, search, batch_size):\n"
        "        super().__init__(path, search, batch_size)\n"
    )
    push(project, group)
    said = capsys.readouterr().out
    assert "takes no argument `stored`" in said
    assert f'stored: {{name: "digits", place: "{group}", sha256: "{sha256}"}}' in said
    assert "stored" not in read_data_section(project, "digits")


def test_a_list_imports_neither_numpy_nor_fsspec(mine, group):
    project, _ = mine
    push(project, group)
    code = (
        "import sys\nfrom labrig.cli import main\n"
        f"sys.argv = ['lab', 'data', 'list', {str(group)!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print({'numpy', 'torch', 'h5py', 'fsspec', 's3fs'} & set(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project.root, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "set()"
    assert "digits" in done.stdout


@pytest.mark.release
def test_a_colleagues_run_is_reproduced_with_its_data(tmp_path, group):
    """The record names the content; the place is in conf/data, also when it came there after the run."""
    folder = make_project(tmp_path / "myproj")
    lab(folder, "data", "pack", "digits")
    lab(folder, "train", "trial=baseline", "trainer.max_epochs=1", PYTHONHASHSEED="3")
    run_id = show(folder)["run_id"]
    file = folder / "data/digits.h5"
    file.rename(tmp_path / "digits.h5")
    said = lab(folder, "data", "pull", run_id, rc=2)
    assert f"neither {run_id} nor a file of conf/data says where its data lie" in said
    (tmp_path / "digits.h5").rename(file)
    assert "there is nothing to fetch" in lab(folder, "data", "pull", "@last")
    lab(folder, "data", "push", "digits", group)
    call(folder, "git", "commit", "-qam", "Name the place of the data")
    file.unlink()
    assert f"lab data pull {run_id}" in lab(folder, "runs", "reproduce", run_id, rc=3)
    write_data_file(file, {"x": [[1.0]] * 9}, {"train": range(9)}, source="-")
    said = lab(folder, "data", "pull", run_id)
    assert f"data/digits-{show(folder)['attempts'][0]['start']['data']['sha256'][:12]}.h5" in said
    assert "metrics are identical" in lab(folder, "runs", "reproduce", run_id, "--check")


def test_a_folder_that_is_not_there_holds_nothing(tmp_path):
    assert FolderStore(tmp_path / "none").files() == []
