"""A bundle leans on a remote only where its default branch was seen to have the base."""

import os
import shutil
import subprocess

import pytest
from labrig.errors import Failed
from labrig.project import Project
from labrig.record.files.code_section import library_of
from labrig.record.freeze import bundle
from labrig.record.freeze.bundle import STORE, is_complete
from labrig.record.freeze.frozen import unpack_code
from labrig.record.write.create import create_run
from record_package import PACKAGE, commit, git, repository, request, write

pytestmark = pytest.mark.usefixtures("no_git_settings")
MODEL = f"src/{PACKAGE}/trials/baseline/model.py"


@pytest.fixture
def remote(tmp_path):
    """A bare repository with one commit on main."""
    repository(tmp_path / "first", **{MODEL.replace(".", "__"): "model\n"})
    git(tmp_path, "clone", "-q", "--bare", tmp_path / "first", "remote.git")
    return tmp_path / "remote.git"


def clone(remote, folder, *options):
    git(remote.parent, "clone", "-q", *options, f"file://{remote}", folder)
    return folder


def record(root, runs):
    """A run of uncommitted changes."""
    write(root, {"new.py": "uncommitted\n"})
    return create_run(Project(root, PACKAGE), runs, request())


def kind(run):
    return run.record["code"]["bundle"]


def restores(run, root, tmp_path):
    """Whether the code of a run comes back."""
    shutil.rmtree(tmp_path / "restored", ignore_errors=True)
    unpack_code(run.record["code"], root, run.dir, tmp_path / "restored")
    return (tmp_path / "restored/new.py").read_text() == "uncommitted\n"


@pytest.mark.release
@pytest.mark.slow
def test_a_pushed_branch_may_be_deleted_after_a_squash(remote, tmp_path):
    root = clone(remote, tmp_path / "repo")
    git(root, "checkout", "-q", "-b", "idea")
    write(root, {"idea.py": "x\n"})
    commit(root, "idea")
    git(root, "push", "-q", "-u", "origin", "idea")
    run = record(root, tmp_path / "runs")
    assert kind(run) == "thin"
    git(remote, "branch", "-q", "-D", "idea")
    git(remote, "gc", "-q", "--prune=now")
    shutil.rmtree(root)
    assert restores(run, clone(remote, root), tmp_path)
    assert restores(run, tmp_path / "nowhere", tmp_path)


@pytest.mark.slow
def test_a_branch_that_only_the_other_remote_has_is_no_base(remote, tmp_path):
    root = clone(remote, tmp_path / "repo")
    git(tmp_path, "clone", "-q", "--bare", remote, "upstream.git")
    git(root, "remote", "add", "upstream", tmp_path / "upstream.git")
    write(root, {"later.py": "x\n"})
    commit(root, "later")
    git(root, "push", "-q", "upstream", "main")
    run = record(root, tmp_path / "runs")
    assert run.record["code"]["remote"] == f"file://{remote}"
    assert run.record["code"]["remote_base"] == git(root, "rev-parse", "origin/main")
    shutil.rmtree(root)
    shutil.rmtree(tmp_path / "upstream.git")
    assert restores(run, tmp_path / "nowhere", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("branch", ["develop", None])
def test_an_unknown_default_branch_is_not_trusted(remote, tmp_path, branch):
    root = clone(remote, tmp_path / "repo")
    git(root, "remote", "set-head", "origin", "--delete")
    if branch:
        git(root, "update-ref", "-d", "refs/remotes/origin/main")
        git(root, "push", "-q", "origin", f"HEAD:refs/heads/{branch}")
    run = record(root, tmp_path / "runs")
    assert kind(run) == ("full" if branch else "thin")


@pytest.mark.slow
def test_the_default_branch_may_have_any_name(remote, tmp_path):
    git(remote, "branch", "-q", "-m", "main", "trunk")
    run = record(clone(remote, tmp_path / "repo"), tmp_path / "runs")
    assert kind(run) == "thin"
    shutil.rmtree(tmp_path / "repo")
    assert restores(run, tmp_path / "nowhere", tmp_path)


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2])
def test_a_shallow_clone_without_a_remote_is_whole(remote, tmp_path, depth):
    source = clone(remote, tmp_path / "source")
    for text in ("one", "two", "three"):
        write(source, {"step.txt": text})
        commit(source, text)
    git(source, "push", "-q")
    root = clone(remote, tmp_path / "repo", f"--depth={depth}")
    git(root, "remote", "remove", "origin")
    runs = [record(root, tmp_path / "runs")]
    write(root, {"step.txt": "four"})
    commit(root, "four")
    runs.append(record(root, tmp_path / "runs"))
    assert [kind(run) for run in runs] == ["full", "full"]
    assert runs[0].record["code"]["base"] == runs[1].record["code"]["base"]
    shutil.rmtree(root)
    for run in runs:
        assert restores(run, tmp_path / "nowhere", tmp_path)


@pytest.mark.release
@pytest.mark.slow
def test_a_shallow_clone_and_its_remote_restore_a_thin_bundle(remote, tmp_path):
    source = clone(remote, tmp_path / "source")
    run = record(source, tmp_path / "runs")
    (source / "new.py").unlink()
    write(source, {"step.txt": "later"})
    commit(source, "later")
    git(source, "push", "-q")
    shutil.rmtree(source)
    shallow = clone(remote, tmp_path / "shallow", "--depth=1")
    assert restores(run, shallow, tmp_path)  # its base comes from the remote
    run = record(shallow, tmp_path / "runs")
    assert kind(run) == "thin"
    shutil.rmtree(remote)
    assert restores(run, shallow, tmp_path)
    shutil.rmtree(shallow)
    with pytest.raises(Failed, match="In a clone that has"):
        restores(run, shallow, tmp_path)


@pytest.mark.release
@pytest.mark.slow
def test_a_repository_of_sha256_is_whole(tmp_path):
    root = tmp_path / "repo"
    root.mkdir()
    git(root, "init", "-q", "-b", "main", "--object-format=sha256")
    write(root, {MODEL: "model\n"})
    commit(root, "first")
    runs = [record(root, tmp_path / "runs") for _ in range(2)]
    shutil.rmtree(root)
    assert restores(runs[1], root, tmp_path)


@pytest.mark.release
@pytest.mark.slow
def test_the_library_comes_out_of_its_bundle_with_gunzip_and_git(tmp_path):
    root = repository(tmp_path / "repo", **{MODEL.replace(".", "__"): "model\n"})
    run = record(root, tmp_path / "runs")
    library = library_of(run.record["code"])
    packed = (run.dir / "code.labrig-frozen.gz.bundle").read_bytes()
    unzipped = subprocess.run(["gunzip", "-c"], input=packed, capture_output=True, check=True)
    assert unzipped.stderr == b""
    (tmp_path / "library.bundle").write_bytes(unzipped.stdout)
    git(tmp_path, "init", "-q", "alone")
    alone = tmp_path / "alone"
    git(alone, "fetch", "-q", tmp_path / "library.bundle", "refs/runs/*:refs/runs/*")
    assert git(alone, "rev-parse", f"{library['commit']}^{{tree}}").strip() == library["tree"]


def test_a_bundle_that_would_fill_the_disk_is_not_unpacked_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "MAX_LIBRARY_BYTES", 1000)
    (tmp_path / "plain").write_bytes(b"# v2 git bundle\n\n" + bytes(10_000))
    path = tmp_path / f"code{bundle.COMPRESSED}"
    bundle.compress_bundle(tmp_path / "plain", path)
    assert is_complete(path)
    with bundle.open_bundle(path) as file:
        assert len(file.read()) == 1000


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "zeros", "empty"])
def test_a_bundle_that_was_cut_is_made_again(tmp_path, damage):
    root = repository(tmp_path / "repo", **{MODEL.replace(".", "__"): "model\n"})
    first = record(root, tmp_path / "runs")
    stored = sorted((tmp_path / "runs" / STORE).glob("*.bundle"))
    assert len(stored) == 2
    for path in stored:
        assert is_complete(path)
        size = path.stat().st_size
        kept = {"cut": size - 40, "zeros": size - 40, "empty": 0}[damage]
        os.truncate(path, kept)
        if damage == "zeros":
            os.truncate(path, size)
        assert not is_complete(path)
    later = record(root, tmp_path / "runs")
    shutil.rmtree(root)
    assert restores(later, root, tmp_path)
    with pytest.raises(Failed, match="Copy the whole directory of the run"):
        restores(first, root, tmp_path)


@pytest.mark.slow
def test_submodules_of_whole_code_are_whole(tmp_path):
    lib = repository(tmp_path / "lib")
    root = repository(tmp_path / "repo", **{MODEL.replace(".", "__"): "model\n"})
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", lib, "deep/lib")
    commit(root, "with lib")
    write(root / "deep/lib", {"a.txt": "edited inside\n"})
    run = record(root, tmp_path / "runs")
    assert run.record["code"]["submodules"][0]["bundle"] == "full"
    shutil.rmtree(root)
    shutil.rmtree(lib)
    assert restores(run, root, tmp_path)
    assert (tmp_path / "restored/deep/lib/a.txt").read_text() == "edited inside\n"


@pytest.mark.release
@pytest.mark.slow
def test_submodules_of_thin_code_lean_on_their_own_remote(remote, tmp_path):
    lib = repository(tmp_path / "lib")
    root = clone(remote, tmp_path / "repo")
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", lib, "lib")
    commit(root, "with lib")
    run = record(root, tmp_path / "runs")
    assert run.record["code"]["submodules"][0]["bundle"] == "pushed"
    shutil.rmtree(root)
    assert restores(run, root, tmp_path)
    assert (tmp_path / "restored/lib/a.txt").read_text() == "one\n"
