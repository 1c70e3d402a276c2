"""An archive publishes what belongs to its runs, and no secret."""

import gzip
import zipfile

import pytest
from labrig.errors import LabError, Refused
from labrig.project import Project
from labrig.record.read.run import Run
from labrig.record.write.weights_place import OWNER
from projects import copy_of, work_on
from record_package import PACKAGE, call, make_project, train

TOKEN = "hf_" + "a1B2c3D4e5" * 3 + "Zz"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A project with a run. Shared: copy it."""
    project = make_project(tmp_path_factory.mktemp("archive") / "project")
    train(project)
    return project


@pytest.fixture
def own(trained, tmp_path):
    return work_on(Project(copy_of(trained.root, tmp_path / "project"), PACKAGE))


@pytest.fixture
def run(own):
    (run_dir,) = own.root.glob("runs/baseline/2*")
    return Run.open(run_dir)


def archive(own, *args):
    """The names and contents of an archive of all finished runs, by their place in the run."""
    file = own.root / "a.zip"
    call(own, "runs archive", "status=finished", "-o", file, *args)
    with zipfile.ZipFile(file) as opened:
        contents = {name: opened.read(name) for name in opened.namelist()}
    file.unlink()
    return {"/".join(name.split("/")[4:]): content for name, content in contents.items()}


def refused(own, *args):
    with pytest.raises(Refused) as error:
        archive(own, *args)
    assert not list(own.root.glob("*a.zip*"))
    return str(error.value)


# Links


@pytest.mark.parametrize("form", ["absolute", "relative", "directory", "chain"])
def test_what_a_link_leads_to_outside_is_not_published(own, run, tmp_path, capsys, form):
    """g6."""
    private = tmp_path / "private"
    private.mkdir()
    (private / "x.csv").write_text("grades of all")
    link = run.dir / "pictures/x.csv"
    link.parent.mkdir()
    if form == "absolute":
        link.symlink_to(private / "x.csv")
    elif form == "relative":
        link.symlink_to("../../../../../private/x.csv")
    elif form == "chain":
        (run.dir / "other").symlink_to(private)
        link.symlink_to("../other/x.csv")
    else:
        link.symlink_to(private)
    assert link.exists()
    contents = archive(own)
    assert not any(b"grades" in content for content in contents.values())
    assert "pictures/x.csv" in capsys.readouterr().out
    assert "run.json" in contents


def test_a_link_within_the_run_is_what_it_leads_to(own, run):
    (run.dir / "table.csv").write_text("1,2")
    (run.dir / "latest.csv").symlink_to("table.csv")
    assert archive(own, "--with", "latest.csv")["latest.csv"] == b"1,2"


def test_only_what_lab_wrote_is_published_unless_it_is_named(own, run, capsys):
    (run.dir / "work").mkdir()
    (run.dir / "work/patients.csv").write_text("names")
    (run.dir / "job.log").write_text("printed")
    (run.dir / "job.log.d").mkdir()
    (run.dir / "job.log.d/mine.txt").write_text("private")
    contents = archive(own)
    assert {"run.json", "config.yaml", "manifest.jsonl", "attempts/1/end.json", "job.log"} <= set(
        contents
    )
    assert not {"work/patients.csv", "job.log.d/mine.txt"} & set(contents)
    said = "as lab did not write it (to take it: --with PATH): job.log.d/mine.txt, work/patients"
    assert said in capsys.readouterr().out
    assert archive(own, "--with", "work")["work/patients.csv"] == b"names"
    for path in ("wurk", "../../pyproject.toml", str(own.root / "pyproject.toml")):
        with pytest.raises(LabError, match=f"--with {path}: expected a path inside a run"):
            archive(own, "--with", path)


@pytest.mark.parametrize(
    "content",
    [b"\x28\xb5\x2f\xfd zstd", b"PK\3\4 a damaged one", gzip.compress(gzip.compress(b"twice"))],
    ids=[
        "zstd",
        "zip",
        "gzip",
    ],  # a gzip file has the time in it, and all processes must agree on names
)
def test_what_cannot_be_searched_is_refused(own, run, content):
    (run.dir / "more.bin").write_bytes(content)
    assert "more.bin" not in archive(own)
    with pytest.raises(LabError, match="not searched for secrets"):
        archive(own, "--with", "more.bin")


@pytest.mark.parametrize("link", ["file", "directory"])
def test_weights_of_somebody_else_are_not_published(own, run, tmp_path, capsys, link):
    """A sibling: the link is that of the checkpoints, or one of them."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "last.ckpt").write_bytes(b"not yours")
    checkpoints = run.dir / "checkpoints"
    (checkpoints / "last.ckpt").unlink()
    if link == "directory":
        checkpoints.rmdir()
        checkpoints.symlink_to(theirs)
    else:
        (checkpoints / "last.ckpt").symlink_to(theirs / "last.ckpt")
    assert "checkpoints/last.ckpt" not in archive(own)
    assert "which its record does not know: last.ckpt" in capsys.readouterr().out


@pytest.mark.slow
def test_own_weights_behind_a_link_are_published(tmp_path):
    """The place names the run; without that, their hash is in the record."""
    own = make_project(tmp_path / "project")
    run = train(own, checkpoints=tmp_path / "big")
    weights = run.checkpoints / "last.ckpt"
    assert archive(own)["checkpoints/last.ckpt"] == weights.read_bytes()
    (run.checkpoints / OWNER).unlink()
    assert archive(own)["checkpoints/last.ckpt"] == weights.read_bytes()
    weights.write_bytes(b"others")
    assert "checkpoints/last.ckpt" not in archive(own)


# Secrets


@pytest.mark.release
@pytest.mark.parametrize("n_bytes", [10, pytest.param(21_000_000, marks=pytest.mark.slow)])
def test_a_large_file_is_searched_for_secrets(own, run, n_bytes):
    """g7: a log of 21 MB."""
    line = "nothing to see in this line\n"
    log = line * (n_bytes // len(line))
    (run.dir / "job.log").write_text(f"{log}token {TOKEN}\n")
    assert "job.log" in refused(own)
    (run.dir / "job.log").write_text(log)
    assert "job.log" in archive(own)


@pytest.mark.parametrize("before", [-40, -20, -3, 0])
def test_a_secret_across_two_blocks_is_found(own, run, monkeypatch, before):
    monkeypatch.setattr("labrig.record.keep.contents.BLOCK_BYTES", 1 << 17)
    (run.dir / "job.log").write_text("x" * ((1 << 17) + before) + f" {TOKEN} " + "y" * (1 << 18))
    assert "looks like a Hugging Face token" in refused(own)


def test_compressed_files_are_searched_too(own, run):
    """A sibling: .gz, .zip and .npz of a run."""
    (run.dir / "job.log.gz").write_bytes(gzip.compress(f"token {TOKEN}\n".encode()))
    assert "job.log.gz" in refused(own)
    (run.dir / "job.log.gz").unlink()
    with zipfile.ZipFile(run.dir / "more.zip", "w", zipfile.ZIP_DEFLATED) as inner:
        inner.writestr("notes.txt", f"token {TOKEN}\n")
    assert "more.zip" in refused(own, "--with", "more.zip")
    (run.dir / "more.dat").write_bytes(gzip.compress(f"token {TOKEN}\n".encode()))
    assert "more.dat" in refused(own, "--with", "more.dat")


def test_weights_with_a_known_secret_are_refused(own, run, monkeypatch):
    """A sibling: settings that the training kept in its checkpoint."""
    monkeypatch.setenv("MY_API_KEY", "Zq8vTn3Lw0kk")
    (run.checkpoints / "last.ckpt").write_bytes(b"\0key Zq8vTn3Lw0kk\0")
    assert "last.ckpt holds a known secret" in refused(own)
    assert "checkpoints/last.ckpt" in archive(own, "--allow")
