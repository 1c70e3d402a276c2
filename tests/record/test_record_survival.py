"""The code of a run outlives branch, refs, gc and repository; a changed byte anywhere is noticed."""

import os
import shutil

import pytest
from labrig import env
from labrig.errors import Failed, LabError
from labrig.project import Project
from labrig.record.freeze import bundle
from labrig.record.freeze.frozen import contains_code, unpack_code
from labrig.record.keep.archive import tree_bundles
from labrig.record.read.run import Run
from labrig.record.verify.command import check_parts, list_problems
from labrig.record.write.begin import begin_attempt
from labrig.record.write.create import create_run
from projects import HELPERS, call
from record_package import PACKAGE, commit, git, repository, request, tree, write


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def record(root, runs):
    """A finished run of the repository around `root`, with uncommitted changes."""
    write(root, {"new.py": "uncommitted\n"})
    project = Project(root, PACKAGE)
    run = create_run(project, runs, request())
    attempt = begin_attempt(run, project)
    (run.dir / "metrics.jsonl").write_text("")
    (run.checkpoints / "last.ckpt").write_bytes(b"weights")
    attempt.end("finished")
    return run


def contents(folder):
    paths = [path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts]
    own = [path for path in paths if path.name[:5] != ".lab-" and path.name != ".roots"]
    own = [path for path in own if path.relative_to(folder).parts[0] != env.FROZEN_LIBRARY]
    return {str(path.relative_to(folder)): path.read_text() for path in own}


@pytest.fixture
def root(tmp_path):
    files = {
        f"src/{PACKAGE}/trials/baseline/model__py": "model\n",
        "__gitattributes": "src export-ignore\n",
        "__gitignore": "/runs\n",
    }
    return repository(tmp_path / "repo", **files)


def restored(run, root, tmp_path):
    unpack_code(run.record["code"], root, run.dir, tmp_path / "restored")
    return contents(tmp_path / "restored")


def forget(root):
    """What years do to a repository: refs are gone, and everything that nothing names."""
    for line in git(root, "for-each-ref", "--format=%(refname)", "refs/runs").splitlines():
        git(root, "update-ref", "-d", line)
    git(root, "reflog", "expire", "--expire=now", "--all")
    git(root, "gc", "-q", "--prune=now")


@pytest.mark.slow
def test_from_the_repository_with_what_archive_would_leave_out(root, tmp_path):
    run = record(root, tmp_path / "runs")
    before = contents(root)
    assert restored(run, root, tmp_path) == before
    assert f"src/{PACKAGE}/trials/baseline/model.py" in before


@pytest.mark.slow
def test_after_its_branch_and_ref_are_deleted(root, tmp_path):
    git(root, "checkout", "-q", "-b", "idea")
    write(root, {"idea.py": "x\n"})
    commit(root, "idea")
    run = record(root, tmp_path / "runs")
    before = contents(root)
    git(root, "checkout", "-q", "-f", "main")
    git(root, "branch", "-D", "idea")
    forget(root)
    assert not contains_code(root / ".git", run.record["code"])
    assert run.record["code"]["bundle"] == "full"
    assert restored(run, root, tmp_path) == before


@pytest.mark.slow
def test_from_the_run_directory_alone(root, tmp_path):
    run = record(root, tmp_path / "runs")
    before = contents(root)
    shutil.rmtree(root)
    moved = shutil.copytree(run.dir, tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "runs")
    assert restored(Run.open(moved), root, tmp_path) == before


@pytest.mark.release
@pytest.mark.slow
def test_edits_without_a_remote_share_one_bundle_of_head(root, tmp_path):
    write(root, {"large.txt": "".join(f"{n * n}\n" for n in range(20_000))})
    commit(root, "large")
    runs = []
    for text in ("first", "second"):
        write(root, {"edit.py": text})
        runs.append(record(root, tmp_path / "runs"))
    bases = [run.dir / "code.base.bundle" for run in runs]
    assert bases[0].stat().st_ino == bases[1].stat().st_ino
    assert all(
        (run.dir / "code.bundle").stat().st_size < 1500 < bases[0].stat().st_size for run in runs
    )
    shutil.rmtree(root)
    assert restored(runs[0], root, tmp_path)["edit.py"] == "first"


def commit_step(root, text):
    write(root, {"step.txt": text})
    commit(root, text)


@pytest.mark.release
@pytest.mark.slow
def test_new_heads_lean_on_an_earlier_one_until_it_is_far(root, tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "MAX_COMMITS_AHEAD", 3)
    runs, before = [], []
    for text in ("1", "2", "3", "4"):
        commit_step(root, text)
        runs.append(record(root, tmp_path / "runs"))
        before.append(contents(root))
    commits = [run.record["code"]["head"] for run in runs]
    assert [run.record["code"]["base"] for run in runs] == [commits[0]] * 3 + [commits[3]]
    git(root, "checkout", "-q", commits[0])
    runs.append(record(root, tmp_path / "runs"))
    assert runs[-1].record["code"]["base"] == commits[3]
    shutil.rmtree(root)
    shutil.move(tmp_path / "runs", tmp_path / "elsewhere")
    for n, (run, files) in enumerate(zip(runs, [*before, before[0]], strict=True)):
        moved = Run.open(tmp_path / "elsewhere" / run.dir.relative_to(tmp_path / "runs"))
        unpack_code(moved.record["code"], root, moved.dir, tmp_path / f"restored{n}")
        assert contents(tmp_path / f"restored{n}") == files


@pytest.mark.slow
def test_a_commit_that_lies_behind_the_whole_bundle(root, tmp_path):
    commit_step(root, "later")
    record(root, tmp_path / "runs")
    git(root, "checkout", "-q", "HEAD~1")
    (root / "new.py").unlink()
    before = contents(root)
    run = create_run(Project(root, PACKAGE), tmp_path / "runs", request())
    assert (run.dir / "code.base.bundle").exists()
    assert not (run.dir / "code.bundle").exists()
    shutil.rmtree(root)
    assert restored(run, root, tmp_path) == before


@pytest.mark.slow
def test_clones_that_share_their_runs_lean_on_what_they_have(root, tmp_path):
    git(tmp_path, "clone", "-q", root, "clone")
    git(tmp_path / "clone", "remote", "remove", "origin")
    commit_step(root, "only here")
    first = record(root, tmp_path / "runs")
    commit_step(tmp_path / "clone", "only there")
    second = record(tmp_path / "clone", tmp_path / "runs")
    before = contents(tmp_path / "clone")
    assert (
        second.record["code"]["base"]
        == second.record["code"]["head"]
        != first.record["code"]["base"]
    )
    shutil.rmtree(tmp_path / "clone")
    shutil.rmtree(root)
    assert restored(second, root, tmp_path) == before


@pytest.mark.slow
def test_thin_bundle_after_the_repository_is_deleted(root, tmp_path):
    git(tmp_path, "clone", "-q", "--bare", root, "remote.git")
    git(root, "remote", "add", "origin", f"file://{tmp_path}/remote.git")
    git(root, "fetch", "-q", "origin")
    run = record(root, tmp_path / "runs")
    before = contents(root)
    assert run.record["code"]["bundle"] == "thin"
    assert (run.dir / "code.bundle").stat().st_size < 2000
    shutil.rmtree(root)
    assert restored(run, root, tmp_path) == before  # its base comes from the remote
    git(tmp_path, "clone", "-q", "remote.git", "again")
    shutil.rmtree(tmp_path / "remote.git")
    unpack_code(run.record["code"], tmp_path / "again", run.dir, tmp_path / "second")
    assert contents(tmp_path / "second") == before
    shutil.rmtree(tmp_path / "again")
    with pytest.raises(Failed, match="neither in"):
        unpack_code(run.record["code"], tmp_path / "again", run.dir, tmp_path / "third")


@pytest.mark.slow
def test_a_run_after_the_remote_was_removed_needs_none(root, tmp_path):
    git(tmp_path, "clone", "-q", "--bare", root, "remote.git")
    git(root, "remote", "add", "origin", f"file://{tmp_path}/remote.git")
    git(root, "fetch", "-q", "origin")
    assert record(root, tmp_path / "runs").record["code"]["bundle"] == "thin"
    git(root, "remote", "remove", "origin")
    run = record(root, tmp_path / "runs")
    before = contents(root)
    assert run.record["code"]["bundle"] == "full"
    shutil.rmtree(root)
    assert restored(run, root, tmp_path) == before


@pytest.mark.slow
def test_pushed_code_needs_no_bundle(root, tmp_path):
    git(tmp_path, "clone", "-q", "--bare", root, "remote.git")
    git(root, "remote", "add", "origin", f"file://{tmp_path}/remote.git")
    git(root, "fetch", "-q", "origin")
    project = Project(root, PACKAGE)
    run = create_run(project, tmp_path / "runs", request())
    before = contents(root)
    assert run.record["code"]["bundle"] == "pushed"
    assert not (run.dir / "code.bundle").exists()
    shutil.rmtree(root)
    assert restored(run, root, tmp_path) == before


@pytest.mark.slow
def test_submodules_come_back_as_they_were_edited(root, tmp_path):
    lib = repository(tmp_path / "lib")
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", lib, "deep/lib")
    git(root, "commit", "-q", "-m", "with lib")
    write(root / "deep/lib", {"a.txt": "edited inside\n"})
    run = record(root, tmp_path / "runs")
    before = contents(root)
    assert (run.dir / "code.deep+lib.bundle").exists()
    alone = tmp_path / "alone"
    assert len(tree_bundles(run, root, alone)) == 2
    shutil.rmtree(root)
    assert (
        restored(run, root, tmp_path) == before
    )  # the base of the submodule's bundle comes from its remote
    assert before["deep/lib/a.txt"] == "edited inside\n"
    (library,) = run.dir.glob("code.*.gz.bundle")
    shutil.copy(library, alone)
    unpack_code(run.record["code"], None, alone, tmp_path / "archived", from_remote=False)
    assert contents(tmp_path / "archived") == before


@pytest.mark.release
@pytest.mark.slow
def test_project_below_the_top_of_its_repository(tmp_path):
    top = repository(
        tmp_path / "mono", **{f"research/src/{PACKAGE}/trials/baseline/model__py": "model\n"}
    )
    run = record(top / "research", tmp_path / "runs")
    assert run.record["code"]["prefix"] == "research/"
    assert run.record["code"]["trial_tree"]
    assert restored(run, top / "research", tmp_path) == contents(top)


def test_project_that_the_repository_around_it_ignores(tmp_path):
    top = repository(tmp_path / "mono")
    write(top / "ignored", {f"src/{PACKAGE}/x.py": "x"})
    run = record(top / "ignored", tmp_path / "runs")
    assert "ignores" in run.record["code"]["reason"]
    with pytest.raises(LabError, match="was not recorded"):
        restored(run, top / "ignored", tmp_path)


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "code.bundle",
        "code.base.bundle",
        "config.yaml",
        "overrides.txt",
        "env.txt",
        "metrics.jsonl",
        "checkpoints/last.ckpt",
    ],
)
def test_one_changed_byte_is_found(root, tmp_path, name):
    run = record(root, tmp_path / "runs")
    assert list_problems(check_parts(run, root)) == []
    path = run.dir / name
    content = path.read_bytes() or b"x"
    path.unlink()
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    assert list_problems(check_parts(run, root)) == [f"{path.resolve()} was changed"]
    path.unlink()
    assert list_problems(check_parts(run, root)) == [f"{path.resolve()} is missing"]


@pytest.mark.slow
def test_damaged_objects_and_another_commit_are_found(root, tmp_path):
    run = record(root, tmp_path / "runs")
    blob = git(root, "rev-parse", f"{run.record['code']['commit']}:new.py")
    path = root / ".git/objects" / blob[:2] / blob[2:]
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-3] + b"abc")
    (run.dir / "code.bundle").unlink()
    assert any("code" in problem for problem in list_problems(check_parts(run, root)))
    run.record["code"]["tree"] = git(root, "rev-parse", "HEAD^{tree}")
    path.unlink()
    write(root, {"new.py": "uncommitted\n"})
    git(root, "hash-object", "-w", "new.py")
    assert any("another tree" in problem for problem in list_problems(check_parts(run, root)))


@pytest.mark.release
@pytest.mark.slow
def test_runs_code_from_the_command_line(own_project, tmp_path):
    (own_project / "notes.txt").write_text("not committed\n")
    program = HELPERS / "record_program.py"
    call(own_project, own_project / ".venv/bin/python", program, own_project, "3")
    run = Run.open(next((own_project / "runs/baseline").iterdir()))
    before = tree(own_project, run.record["code"]["ref"])
    call(own_project, "lab", "runs", "code", "@last", tmp_path / "code")
    assert contents(tmp_path / "code")["notes.txt"] == "not committed\n"
    assert contents(tmp_path / "code").keys() == before.keys()
    assert "exists already" in call(
        own_project, "lab", "runs", "code", "@last", tmp_path / "code", rc=2
    )
