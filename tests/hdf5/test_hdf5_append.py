"""`lab data append` adds a file to a data set; old rows, splits and hashes stay, and nothing is lost."""

import json
import os
import shutil
import signal
from contextlib import nullcontext

import numpy as np
import pytest
import soundfile
from hdf5_programs import start
from labrig.data import DataFileError, H5DataModule, read_layout, write_data_file
from labrig.errors import Failed, LabError
from labrig.hdf5.file.checksum import fingerprint, sha256_of_hashes
from labrig.hdf5.file.find import data_files_in, data_files_of, read_data_section
from labrig.hdf5.file.info import info_command, verify_command
from labrig.hdf5.file.joined import read_data_set, read_layouts
from labrig.hdf5.pack import append as module
from labrig.hdf5.pack.append import append_command
from labrig.hdf5.pack.command import pack_command
from labrig.record.read.run import Run
from projects import project_in
from reproduction import lab, make_project, show
from small_disks import fill, mounted, needs_root
from test_hdf5_pack import images


@pytest.fixture(name="project")
def project_to_pack_in(tmp_path, monkeypatch):
    """A project whose raw data lie in raw/."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "proj/raw").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "proj")
    return project_in(tmp_path / "proj")


def save(number, n=30, dtype=np.float32):
    """raw/NUMBER.npz with n samples that hold numbers from 1000 * NUMBER on."""
    path = f"raw/{number}.npz"
    numbers = 1000 * number + np.arange(n)
    np.savez(path, x=np.repeat(numbers, 4).reshape(n, 4).astype(dtype), y=numbers)
    return path


def pack(project, *words):
    pack_command(project, [*map(str, words)])


def append(project, *words):
    append_command(project, [*map(str, words)])


def listed(project, name="data/arr"):
    return sorted(path.name for path in (project.root / name).iterdir())


@pytest.fixture
def arr(project):
    """The data set arr, one file of 30 samples."""
    pack(project, "arr", save(0), "--as", "arrays")
    return project.root / "data/arr.h5"


def test_one_file_becomes_the_first_and_keeps_rows_splits_and_hash(project, arr, capsys):
    before = fingerprint(arr)
    rows_before = {
        name: read_layout(arr).map(read_layout(arr).split(name)) for name in ("train", "val")
    }
    x_before = read_layout(arr).map(read_layout(arr).field("x")).copy()
    append(project, "arr", save(1, n=20))
    assert listed(project) == ["arr-0001.h5", "arr-0002.h5"]
    assert os.path.samefile(arr, project.root / "data/arr/arr-0001.h5")
    assert fingerprint(arr)["sha256"] == before["sha256"]
    assert read_data_section(project, "arr")["path"] == "arr/"
    layout = read_layouts(data_files_of(project, "arr"))
    assert layout.n_samples == 50
    assert (layout.map(layout.field("x"))[:30] == x_before).all()
    for name, rows in rows_before.items():
        split = layout.map(layout.split(name))
        assert split[: len(rows)].tolist() == rows.tolist()
        assert (split[len(rows) :] >= 30).all()
    assert sorted(layout.map(layout.field("y"))[30:].tolist()) == [*range(1000, 1020)]
    second = read_layout(project.root / "data/arr/arr-0002.h5")
    assert second.attrs["command"] == "lab data append arr raw/1.npz"
    assert second.attrs["follows"] == before["sha256"]
    said = capsys.readouterr().out
    assert "path: arr/" in said
    assert "added arr-0002.h5: 20 samples" in said
    info_command(project, ["arr"])
    said = capsys.readouterr().out
    assert f"file arr-0001.h5: 30 samples, sha256 {before['sha256'][:12]}" in said
    assert "file arr-0002.h5: 20 samples" in said
    verify_command(project, ["arr", "--json"])
    assert json.loads(capsys.readouterr().out)["sha256"] == sha256_of_hashes(layout)


def test_the_hash_of_a_file_is_that_of_its_samples_whatever_lies_before_it(project, arr):
    append(project, "arr", save(1))
    pack(project, "alone", save(1), "--as", "arrays")
    alone = fingerprint(project.root / "data/alone.h5")
    assert fingerprint(project.root / "data/arr/arr-0002.h5")["sha256"] == alone["sha256"]


def test_files_are_added_behind_the_last(project, arr):
    for number in (1, 2, 3):
        append(project, "arr", save(number, n=10))
    assert listed(project) == [f"arr-000{number}.h5" for number in range(1, 5)]
    layout = read_layouts(data_files_of(project, "arr"))
    assert [part.n_samples for part in layout.parts] == [30, 10, 10, 10]
    data = H5DataModule("arr/", [str(project.root / "data")], batch_size=7)
    seen = [int(y) for _, ys in data.train_dataloader() for y in ys]
    train = layout.map(layout.split("train"))
    assert sorted(seen) == sorted(layout.map(layout.field("y"))[train].tolist())


def test_images_are_read_as_in_the_first_file_and_keep_their_classes(project, capsys):
    pack(project, "pets", images(project.root / "raw/a"), "--as", "images", "--size", 6, 5)
    source = images(project.root / "raw/b", classes=("ant", "dög é"), each=4)
    append(project, "pets", source)
    said = "new classes: ant. Not meant? Remove data/pets/pets-0002.h5"
    assert said in capsys.readouterr().out
    layout = read_layouts(data_files_of(project, "pets"))
    assert layout.field("x").shape == (20, 3, 6, 5)
    assert json.loads(layout.field("y").attrs["classes"]) == ["cat", "dög é", "ant"]
    y = layout.map(layout.field("y"))
    assert np.bincount(y[12:]).tolist() == [0, 4, 4]
    info_command(project, ["pets"])
    assert "3 classes: cat 6, dög é 10, ant 4" in capsys.readouterr().out


def test_a_file_that_was_packed_with_names_can_be_added_to(project, capsys):
    pack(project, "pets", images(project.root / "raw/first"), "--as", "images", "--names")
    append(
        project, "pets", images(project.root / "raw/second", sizes=((7, 9),)), "--size", "9", "7"
    )
    assert listed(project, "data/pets") == ["pets-0001.h5", "pets-0002.h5"]
    assert (project.root / "data/pets.names.csv").read_text().count("\n") == 1 + 12
    assert "  data/pets.names.csv has no lines for them\n" in capsys.readouterr().out


def test_recordings_of_another_rate_are_refused(project):
    for folder, rate_hz in (("a", 8000), ("b", 16000)):
        (project.root / "raw" / folder / "crow").mkdir(parents=True)
        for i in range(6):
            path = project.root / "raw" / folder / "crow" / f"{i}.wav"
            soundfile.write(path, np.zeros(100 + i, np.int16), rate_hz)
    pack(project, "birds", "raw/a", "--as", "audio")
    with pytest.raises(DataFileError, match=r"nothing was added. birds-0002.h5: sample_rate_hz of"):
        append(project, "birds", "raw/b")
    assert not (project.root / "data/birds").exists()
    append(project, "birds", "raw/b", "--rate", 8000, "--split", "train=1")
    layout = read_layouts(data_files_of(project, "birds"))
    assert [part.n_samples for part in layout.parts] == [6, 6]
    assert layout.is_ragged("wav")


def test_texts_of_a_table_keep_their_numbers(project):
    text = "city,age,sick\nrome,1,no\noslo,2,yes\nrome,3,no\n"
    (project.root / "raw/a.csv").write_text(text)
    (project.root / "raw/b.csv").write_text("age,sick,city\n7,maybe,bern\n8,yes,rome\n")
    pack(project, "t", "raw/a.csv", "--as", "table", "--label", "sick")
    append(project, "t", "raw/b.csv", "--split", "train=1")
    layout = read_layouts(data_files_of(project, "t"))
    x = layout.field("x")
    assert json.loads(x.attrs["columns"]) == ["city", "age"]
    assert json.loads(x.attrs["categories"]) == {"city": ["oslo", "rome", "bern"]}
    assert json.loads(layout.field("y").attrs["classes"]) == ["no", "yes", "maybe"]
    rows = np.column_stack([layout.map(x), layout.map(layout.field("y"))])[3:]
    assert sorted(rows.tolist()) == [[1, 8, 1], [2, 7, 2]]


def test_the_same_samples_are_not_added_twice(project, arr):
    append(project, "arr", save(1))
    for source in ("raw/0.npz", "raw/1.npz"):
        with pytest.raises(
            DataFileError, match=r"nothing was added: .*holds these samples already"
        ):
            append(project, "arr", source)
    assert listed(project) == ["arr-0001.h5", "arr-0002.h5"]


def contents(folder):
    """Size, time of the last change and content of each file below a folder."""
    return {
        path: (path.stat().st_size, path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    } | {path: "a directory" for path in folder.rglob("*") if path.is_dir()}


def test_a_table_that_is_there_already_changes_nothing(project, capsys):
    (project.root / "raw/a.csv").write_text("age,sick\n1,0\n2,1\n3,0\n")
    (project.root / "raw/other.csv").write_text("age,ill\n1,0\n2,1\n3,0\n")
    pack(project, "tab", "raw/a.csv", "--as", "table", "--label", "sick", "--split", "train=1")
    before = contents(project.root)
    with pytest.raises(
        DataFileError, match=r"nothing was added: .*data/tab\.h5 holds these samples"
    ):
        append(project, "tab", "raw/a.csv")
    with pytest.raises(DataFileError):
        append(project, "tab", "raw/other.csv")
    assert contents(project.root) == before
    assert "path: tab/" not in capsys.readouterr().out


def test_a_file_that_differs_in_its_fields_is_not_added(project, arr):
    with pytest.raises(
        DataFileError, match=r"nothing was added. arr-0002.h5: field 'x' is float64"
    ):
        append(project, "arr", save(1, dtype=np.float64))
    assert not (project.root / "data/arr").exists()
    append(project, "arr", save(1))
    assert len(data_files_of(project, "arr")) == 2


def test_a_missing_or_changed_file_is_named(project, arr):
    for number in (1, 2):
        append(project, "arr", save(number))
    middle = project.root / "data/arr/arr-0002.h5"
    away = middle.rename(project.root / "data/away.h5")
    message = (
        r"data/arr: a file is missing or was changed. arr-0003.h5 was added to files of sha256"
    )
    for use in (
        lambda: append(project, "arr", save(3)),
        lambda: H5DataModule("arr", [str(project.root / "data")]).prepare_data(),
    ):
        with pytest.raises(DataFileError, match=message) as refused:
            use()
        assert "\n" not in str(refused.value)
    with pytest.raises(Failed, match=message):
        verify_command(project, ["arr"])
    some = [f"arr/arr-000{number}.h5" for number in (1, 3)]
    assert H5DataModule(some, [str(project.root / "data")]).layout.n_samples == 60
    away.rename(middle)
    assert read_layouts(data_files_of(project, "arr")).n_samples == 90
    write_data_file(middle, {"x": np.ones((9, 4), np.float32), "y": np.arange(9)}, {})
    with pytest.raises(DataFileError, match=message):
        read_data_set(project, "arr")


@pytest.mark.slow
def test_two_at_once_both_add_their_file(project, arr):
    save(1), save(2)
    first = start("append", project.root, "arr", "raw/1.npz", "waits")
    while "packed" not in first.stdout.readline():
        assert first.poll() is None
    second = start("append", project.root, "arr", "raw/2.npz")
    assert "another process adds a file to" in second.stdout.readline()
    first.stdin.write("\n")
    outputs = [process.communicate(timeout=120)[0] for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], outputs
    layout = read_layouts(data_files_of(project, "arr"))
    y = [part.map(part.field("y")) for part in layout.parts]
    assert [int(values.min()) for values in y] == [0, 1000, 2000]


def test_without_locks_the_second_one_is_refused(project, arr, monkeypatch):
    check_fits = module.check_fits

    def check_and_lose(old, new, target):
        check_fits(old, new, target)
        write_data_file(target, {"x": np.ones((2, 4), np.float32), "y": np.arange(2)}, {})

    monkeypatch.setattr(module, "one_at_a_time", lambda *_: nullcontext())
    monkeypatch.setattr(module, "check_fits", check_and_lose)
    with pytest.raises(Failed, match=r"nothing was added: another process changed .*data/arr"):
        append(project, "arr", save(1))
    assert read_layout(project.root / "data/arr/arr-0002.h5").n_samples == 2


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_one_leaves_all_as_it_was(project, arr, how):
    save(1)
    process = start("append", project.root, "arr", "raw/1.npz", "waits")
    while "packed" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(how)
    process.communicate(timeout=60)
    assert [path.name for path in data_files_of(project, "arr")] == ["arr.h5"]
    append(project, "arr", "raw/1.npz")
    assert [path.name for path in (project.root / "data").glob(".*")] == []
    assert listed(project) == ["arr-0001.h5", "arr-0002.h5"]  # and nothing temporary


def test_one_that_ended_before_the_yaml_was_changed_goes_on(project, arr, monkeypatch):
    monkeypatch.setattr(module, "name_folder", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        append(project, "arr", save(1))
    assert read_data_section(project, "arr")["path"] == "arr.h5"
    monkeypatch.undo()
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.chdir(project.root)
    append(project, "arr", "raw/1.npz")
    assert listed(project) == ["arr-0001.h5", "arr-0002.h5"]


@needs_root
def test_a_full_disk_adds_nothing(project, arr):
    append(project, "arr", save(1))
    folder = project.root / "data/arr"
    files = shutil.copytree(folder, project.root / "copy")
    shutil.rmtree(folder)
    save(2, n=100_000)
    with mounted(folder, "size=4m"):
        shutil.copytree(files, folder, dirs_exist_ok=True)
        filler = fill(folder, 100_000)
        with pytest.raises(
            DataFileError, match=r"arr-0003.h5 (cannot be written|needs)|full|space"
        ):
            append(project, "arr", "raw/2.npz")
        filler.unlink()
        assert listed(project) == ["arr-0001.h5", "arr-0002.h5"]
        append(project, "arr", save(3))
        assert read_layouts(data_files_in(folder)).n_samples == 90


def set_path(project, text):
    file = project.root / "src/myproj/conf/data/arr.yaml"
    lines = file.read_text().splitlines()
    file.write_text("\n".join(text if line.startswith("path:") else line for line in lines) + "\n")


@pytest.mark.parametrize("text", ["path: [arr.h5]", "path: ar*.h5"])
def test_a_list_or_a_pattern_is_not_added_to(project, arr, text):
    set_path(project, text)
    with pytest.raises(LabError, match=r"is no folder, .*Write a folder .* path: arr/"):
        append(project, "arr", save(1))
    with pytest.raises(
        LabError, match=r"arr is a data set of several files.* lab data append arr SOURCE"
    ):
        pack(project, "arr", "raw/0.npz", "--as", "arrays")


def test_a_line_of_the_yaml_that_is_written_otherwise_is_left_to_its_owner(project, arr):
    set_path(project, 'path: "arr.\\u0068\\u0035"')
    with pytest.raises(
        LabError, match=r"Write path: arr/ into .*arr.yaml, then type the same again"
    ):
        append(project, "arr", save(1))
    set_path(project, "path: arr/")
    append(project, "arr", "raw/1.npz")
    assert listed(project) == ["arr-0001.h5", "arr-0002.h5"]


def test_a_folder_of_other_files_is_not_mixed_with_the_file(project, arr):
    (project.root / "data/arr").mkdir()
    write_data_file(project.root / "data/arr/other.h5", {"x": np.ones(3)}, {})
    with pytest.raises(LabError, match=r"data/arr holds other data files than .*arr.h5"):
        append(project, "arr", save(1))


def test_names_that_would_come_before_others_are_refused(project, arr):
    append(project, "arr", save(1))
    last = project.root / "data/arr/arr-0002.h5"
    last.rename(last.with_name("brr.h5"))
    with pytest.raises(DataFileError, match=r"holds brr.h5, behind which a new file brr-0003.h5"):
        append(project, "arr", save(2))


def test_a_folder_may_begin_empty(project):
    pack(project, "arr", save(0), "--as", "arrays")
    (project.root / "data/arr.h5").unlink()
    set_path(project, "path: arr/")
    append(project, "arr", "raw/0.npz", "--as", "arrays")
    append(project, "arr", save(1), "--as", "arrays")
    assert listed(project) == ["arr-0001.h5", "arr-0002.h5"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["arr"], "name the raw data to add: lab data append arr SOURCE"),
        (
            ["arr", "raw/0.npz", "--to", "x"],
            "the new file of arr lies next to the others. Leave --to out",
        ),
        (["arx", "raw/0.npz"], "no data set 'arx'"),
        (["arr", "raw/nowhere.npz"], "there is no raw/nowhere.npz. Name the directory or files"),
    ],
)
def test_what_is_typed_wrong_is_told(project, arr, words, message):
    yaml = (project.source / "conf/data/arr.yaml").read_text()
    with pytest.raises(LabError, match=message):
        append(project, *words)
    assert (project.source / "conf/data/arr.yaml").read_text() == yaml
    assert not (project.root / "data/arr").exists()


PACK = ("data", "pack", "arr", "data/raw/0.npz", "--as", "arrays")
TRAIN = ("train", "trial=baseline", "data=arr", "trainer.max_epochs=1")


@pytest.mark.release
@pytest.mark.slow
def test_a_run_goes_on_with_the_files_that_it_read(tmp_path, monkeypatch):
    """Trained on two files; a third comes; resume, verify, reproduce and show are of the two."""
    folder = make_project(tmp_path / "myproj")
    (folder / "data/raw").mkdir()
    monkeypatch.chdir(folder / "data")
    for number in range(3):
        save(number)
    lab(folder, *PACK)
    lab(folder, "data", "append", "arr", "data/raw/1.npz")
    lab(folder, *TRAIN, PYTHONHASHSEED="3")
    lab(folder, *TRAIN, "seed=1", LAB_STOP_STEP="3", PYTHONHASHSEED="3", rc=130)
    finished, stopped = (Run.open(path) for path in sorted((folder / "runs/baseline").iterdir()))
    recorded = finished.data["sha256"]
    assert [file["path"] for file in finished.data["files"]] == [
        f"{folder}/data/arr/arr-000{number}.h5" for number in (1, 2)
    ]
    assert "arr (arr-0001.h5, arr-0002.h5) sha256" in lab(folder, "runs", "show", finished.id)
    lab(folder, "data", "append", "arr", "data/raw/2.npz")
    assert "and data are as recorded" in lab(folder, "runs", "verify", finished.id)
    said = lab(folder, "resume", stopped.id)
    assert f"reads the 2 files that {stopped.id} read; its data have others now" in said
    hashes = [
        attempt["start"]["data"]["sha256"] for attempt in show(folder, stopped.id)["attempts"]
    ]
    assert hashes == [recorded, recorded]
    assert "bitwise: metrics are identical" in lab(
        folder, "runs", "reproduce", finished.id, "--check"
    )
    lab(folder, *TRAIN)
    assert len(show(folder)["attempts"][0]["start"]["data"]["files"]) == 3
    (folder / "data/arr/arr-0002.h5").unlink()
    assert "arr-0002.h5" in lab(folder, "runs", "verify", finished.id, rc=1)
