"""`lab runs archive`: runs as one file, which another machine verifies and reproduces from."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import zipfile

import pytest
from labrig.errors import Failed, LabError, Refused
from labrig.record.keep.archive import ArchivedFile, write_archive
from labrig.record.write.begin import begin_attempt
from labrig.version import __version__
from record_package import call, create, make_project, train
from repositories import git
from reproduction import add_data, lab
from reproduction import make_project as make_trained_project
from tqdm import tqdm

BITWISE = "bitwise: metrics are identical"


@pytest.fixture
def project(tmp_path):
    """A project whose default branch is at a remote, so that bundles are thin; two runs."""
    project = make_project(tmp_path / "myproj")
    git(project.root, "clone", "-q", "--bare", ".", "../remote.git")
    git(project.root, "remote", "add", "origin", "../remote.git")
    git(project.root, "fetch", "-q", "origin")
    (project.root / "src/myproj/new.py").write_text("uncommitted = 1\n")
    run = create(project)
    assert run.record["code"]["bundle"] == "thin"
    attempt = begin_attempt(run, project)
    for name in ("best", "last", "previous"):
        (run.checkpoints / f"{name}.ckpt").write_text(name)
    attempt.end("finished", metrics={"test/loss": 0.1})
    train(project, status="failed", exception=RuntimeError("boom"))
    return project


def archive(project, *args):
    file = project.root / "paper.zip"
    call(project, "runs archive", *args, "-o", file)
    return file


def change(file, name, content):
    """Rewrites one file of an archive, and its line in the manifest."""
    with zipfile.ZipFile(file) as before:
        contents = {entry: before.read(entry) for entry in before.namelist()}
    (path,) = [entry for entry in contents if entry.endswith(name)]
    old, new = (hashlib.sha256(each).hexdigest() for each in (contents[path], content))
    manifest = "paper/manifest-sha256.txt"
    contents[manifest] = contents[manifest].replace(old.encode(), new.encode())
    with zipfile.ZipFile(file, "w") as after:
        for entry, data in (contents | {path: content}).items():
            after.writestr(entry, data)


def test_a_bar_counts_every_byte(tmp_path, monkeypatch):
    bars = []

    def shown(*args):
        bars.append(tqdm(total=args[1], file=io.StringIO()))
        return bars[0]

    monkeypatch.setattr("labrig.record.keep.archive.byte_progress", shown)
    (tmp_path / "best.ckpt").write_bytes(b"x" * 1000)
    write_archive(tmp_path / "a.zip", [ArchivedFile(tmp_path / "best.ckpt", "best.ckpt")])
    assert (bars[0].n, bars[0].total) == (1000, 1000)


@pytest.mark.slow
def test_another_machine_verifies_every_byte_without_remote_and_repository(
    project, tmp_path, capsys
):
    file = archive(project, "status=finished,failed")
    os.rename(tmp_path / "remote.git", tmp_path / "gone.git")
    elsewhere = make_project(tmp_path / "other/myproj")
    moved = shutil.move(file, tmp_path / "paper.zip")
    shutil.rmtree(project.root)
    call(elsewhere, "runs verify", moved)
    printed = capsys.readouterr().out
    assert "as recorded, with the code: 2 runs" in printed
    assert "previous.ckpt is not in the archive" in printed
    assert "code: compared by its tree" in printed
    shutil.unpack_archive(moved, tmp_path, "zip")
    checked = subprocess.run(
        ["sha256sum", "--check", "--quiet", "manifest-sha256.txt"], cwd=tmp_path / "paper"
    )
    assert checked.returncode == 0


@pytest.mark.release
@pytest.mark.slow
def test_a_change_is_noticed_even_with_a_new_manifest(project):
    file = archive(project, "status=finished")
    change(file, "best.ckpt", b"other")
    with pytest.raises(Failed, match=r"checkpoints/best.ckpt was changed"):
        call(project, "runs verify", file)
    file.unlink()
    file = archive(project, "status=finished")
    change(file, "code.tree.bundle", b"cut")
    with pytest.raises(Failed, match="is not whole in"):
        call(project, "runs verify", file)
    with zipfile.ZipFile(file, "a") as opened:
        opened.writestr("paper/more.txt", "more")
    with pytest.raises(Failed, match=r"more.txt is not in the manifest"):
        call(project, "runs verify", file)
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(Failed, match="is damaged"):
        call(project, "runs verify", file)


def test_crate_describes_the_runs(project):
    file = archive(project, "status=finished,failed")
    with zipfile.ZipFile(file) as opened:
        crate = json.loads(opened.read("paper/ro-crate-metadata.json"))
        names = {name.removeprefix("paper/") for name in opened.namelist()}
    entities = {entity["@id"]: entity for entity in crate["@graph"]}
    root = entities["./"]
    assert {part["@id"] for part in root["hasPart"]} < names
    actions = [entities[action["@id"]] for action in root["mentions"]]
    assert sorted(action["actionStatus"]["@id"].rpartition("/")[2] for action in actions) == [
        "CompletedActionStatus",
        "FailedActionStatus",
    ]
    for action in actions:
        for end in (action["agent"], action["instrument"], *action["object"], *action["result"]):
            assert end["@id"] in entities
        assert action["startTime"] <= action["endTime"]
        code = entities[action["instrument"]["@id"]]
        library = entities[code["softwareRequirements"]["@id"]]
        assert (library["name"], library["softwareVersion"]) == ("labrig", __version__)
    assert any(each["@id"].endswith("best.ckpt") for action in actions for each in action["result"])


def test_mistakes_and_secrets_are_refused(project, tmp_path, capsys):
    create(project)
    with pytest.raises(LabError, match=r"expected NAME.zip"):
        call(project, "runs archive", "status=finished", "-o", tmp_path / "x.tar")
    with pytest.raises(LabError, match="none of 3 runs"):
        call(project, "runs archive", "trial=none", "-o", tmp_path / "x.zip")
    file = archive(project, "trial=baseline")
    assert "left out: 1 run," in capsys.readouterr().out
    with pytest.raises(LabError, match="exists already"):
        archive(project, "trial=baseline")
    file.unlink()
    (run,) = (project.root / "runs/baseline").glob("*/checkpoints/best.ckpt")
    (run.parent.parent / "job.log").write_text("hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH")
    with pytest.raises(Refused, match="Hugging Face"):
        archive(project, "trial=baseline")
    assert not file.exists()
    archive(project, "trial=baseline", "--allow")


@pytest.mark.release
@pytest.mark.slow
def test_a_run_is_reproduced_from_an_archive_and_its_readme_alone(tmp_path):
    made = make_trained_project(tmp_path / "made/myproj")
    (made / "factor.txt").write_text("not committed")
    lab(made, "train", "trial=baseline", "trainer.max_epochs=1", PYTHONHASHSEED="3")
    lab(made, "runs", "archive", "trial=baseline", "-o", tmp_path / "paper.zip")
    shutil.rmtree(tmp_path / "made")
    with zipfile.ZipFile(tmp_path / "paper.zip") as opened:
        opened.extractall(tmp_path)
    (run,) = (tmp_path / "paper/runs/baseline").iterdir()
    code = json.loads((run / "run.json").read_text())["code"]
    readme = (tmp_path / "paper/README.md").read_text()
    assert code["commit"] in readme
    elsewhere = tmp_path / "elsewhere/myproj"
    elsewhere.mkdir(parents=True)
    git(elsewhere, "init", "-q")
    assert "code.tree.bundle 'refs/runs/*:refs/runs/*'\n    git checkout FETCH_HEAD" in readme
    git(elsewhere, "fetch", "-q", run / "code.tree.bundle", "refs/runs/*:refs/runs/*")
    git(elsewhere, "checkout", "-q", "FETCH_HEAD")
    assert git(elsewhere, "rev-parse", "HEAD^{tree}") == code["tree"]
    assert git(elsewhere, "rev-list", "--count", "HEAD") == "1"
    add_data(elsewhere, "digits.h5")
    said = lab(elsewhere, "runs", "reproduce", run, "--check")
    assert BITWISE in said
    assert f"note: code: compared by its tree {code['tree'][:12]}: an archive holds no" in said
    (again,) = (elsewhere / "runs/baseline").iterdir()
    repeated = json.loads((again / "run.json").read_text())["code"]
    assert (repeated["commit"], repeated["tree"]) == (code["commit"], code["tree"])
    shutil.rmtree(elsewhere / ".git")
    git(elsewhere, "init", "-q")
    lab(elsewhere, "runs", "code", again, tmp_path / "code")
    assert (tmp_path / "code/factor.txt").read_text() == "not committed"
