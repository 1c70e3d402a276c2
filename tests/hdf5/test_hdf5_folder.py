"""The hash of a folder is of the names, sizes and contents of its files, and read once."""

import os

import pytest
from labrig.data import DataFileError, fingerprint_folder
from labrig.hdf5.file import hashes, info
from projects import project_in


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "raw"
    for name in ("cat/1.png", "cat/2.png", "d\u00f6g/1.png"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


def rename(folder):
    (folder / "cat/1.png").rename(folder / "cat/3.png")


def swap(folder):
    (folder / "cat/1.png").write_text("cat/2.png")
    (folder / "cat/2.png").write_text("cat/1.png")


def edit_and_set_back_the_time(folder):
    path = folder / "cat/1.png"
    stat = path.stat()
    path.write_text("CAT/1.png")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def add(folder):
    (folder / "new.png").touch()


@pytest.mark.parametrize("change", [rename, swap, edit_and_set_back_the_time, add])
def test_any_change_is_another_hash(folder, change):
    before = fingerprint_folder(folder)
    assert (before["n"], before["folder_bytes"], before["path"]) == (3, 28, str(folder))
    change(folder)
    assert fingerprint_folder(folder)["sha256"] != before["sha256"]


def test_the_hash_is_the_same_anywhere_and_read_once(folder, tmp_path, monkeypatch):
    before = fingerprint_folder(folder)
    (folder / "up").symlink_to(folder)  # leads in a circle
    assert fingerprint_folder(folder) == before
    os.remove(folder / "up")
    moved = folder.rename(tmp_path / "moved")
    assert fingerprint_folder(moved)["sha256"] == before["sha256"]
    monkeypatch.setattr(hashes, "_hash_contents", None)
    assert fingerprint_folder(moved)["sha256"] == before["sha256"]


def test_what_is_no_folder_of_files_is_refused_in_words(folder, tmp_path):
    with pytest.raises(DataFileError, match="is not a folder"):
        fingerprint_folder(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataFileError, match="holds no files"):
        fingerprint_folder(tmp_path / "empty")
    (folder / "link.png").symlink_to("nowhere.png")
    with pytest.raises(DataFileError, match=r"link\.png cannot be read: No such file"):
        fingerprint_folder(folder)


def test_verify_prints_the_hash_of_a_folder(folder, tmp_path, capsys):
    project = project_in(tmp_path)
    info.verify_command(project, [str(folder), "--json"])
    assert fingerprint_folder(folder)["sha256"] in capsys.readouterr().out
    info.verify_command(project, [str(folder)])
    assert "3 files" in capsys.readouterr().out
