"""What the record refuses: with its reason, and nothing half-done."""

import zipfile
from types import SimpleNamespace

import pytest
from labrig.errors import Failed, LabError, Refused
from labrig.machine.git import Git, GitFailed
from labrig.project import Project, read_yaml
from labrig.record.freeze import snapshot
from labrig.record.freeze.bundle import BundleFile, write_bundle
from labrig.record.freeze.frozen import freeze_code, frozen_code
from labrig.record.keep import archive_check
from labrig.record.keep.archive_check import verify_archive
from repositories import git


def test_yaml_files_of_the_project(tmp_path):
    file = tmp_path / "a.yaml"
    with pytest.raises(LabError, match=r"a.yaml is missing. Bring it back: git checkout HEAD -- "):
        read_yaml(file)
    file.write_text("a: [\n")
    with pytest.raises(LabError, match=r"a.yaml:2:1 is not valid YAML: .*Correct that line"):
        read_yaml(file)
    file.write_text("- a\n")
    with pytest.raises(LabError, match=r"a.yaml holds a list, but must hold `key: value` lines"):
        read_yaml(file)


def test_an_archive_that_is_none(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.txt", "1")
    with pytest.raises(
        Failed, match=r"is no archive of lab runs archive.*Make one: lab runs archive"
    ):
        verify_archive(tmp_path / "a.zip")


def test_git_that_fails(repo, tmp_path):
    git_here = Git(repo)
    with pytest.raises(Refused, match=r"git cat-file failed in .*\. To look: git status"):
        git_here.content("cat-file", "blob", "0" * 40)
    commit = git(repo, "rev-parse", "HEAD").strip()
    with pytest.raises(Refused, match=r"git bundle failed: .*To see more: git fsck"):
        write_bundle(git_here, tmp_path / "gone/a.bundle", BundleFile(".bundle", "a", commit))


def test_no_git(repo, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    git_here = Git(repo)
    for call in (git_here.run, git_here, git_here.content):
        with pytest.raises(GitFailed, match=r"git is not installed here.*module load git"):
            call("status")


def test_files_that_keep_changing(repo, monkeypatch):
    monkeypatch.setattr(Git, "paths", lambda self, *words: ["a.txt"] * ("--name-only" in words))
    with pytest.raises(Refused, match=r"keep changing while they are recorded: a.txt. Stop what"):
        snapshot.add_changes(Git(repo), [], 1e6, allow=True)


def test_a_file_that_cannot_be_read(repo, monkeypatch):
    monkeypatch.setattr(
        snapshot.os, "lstat", lambda _: (_ for _ in ()).throw(PermissionError(13, "no"))
    )
    with pytest.raises(
        Refused, match=r"cannot read .*a.txt .*Make it readable, or have git ignore"
    ):
        snapshot.refuse_tokens_in_files(repo, ["a.txt"])


def test_policies_and_labels_of_frozen_code(tmp_path, monkeypatch):
    with pytest.raises(LabError, match=r"record.dirty must be snapshot or refuse, but it is maybe"):
        freeze_code(Project(tmp_path, "myproj"), tmp_path, "wide", dirty="maybe")
    monkeypatch.setattr("labrig.record.freeze.frozen.check_frozen_directory", lambda: None)
    monkeypatch.setenv("LAB_FROZEN", str(tmp_path))
    with pytest.raises(
        Refused, match=r"names the commit None, expected None. Make such a directory"
    ):
        frozen_code()


def test_an_archive_that_does_not_fit_the_disk(tmp_path, monkeypatch):
    file = tmp_path / "a.zip"
    file.write_bytes(bytes(1000))
    full = SimpleNamespace(free=10)
    monkeypatch.setattr(archive_check.shutil, "disk_usage", lambda _: full)
    with pytest.raises(Failed, match=r"has less room. Name a larger disk: TMPDIR=DIRECTORY"):
        archive_check.refuse_large(file, 2000, tmp_path / "unpacked")
