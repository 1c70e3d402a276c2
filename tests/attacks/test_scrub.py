"""What `lab runs scrub` cannot take out is named, and no kill loses the run."""

import gzip
import io
import json
import os
import re

import pytest
from labrig.errors import LabError
from labrig.record.freeze.bundle import STORE
from labrig.record.keep import scrub as module
from labrig.record.keep.annotate import annotate
from labrig.record.list.rows import read_rows
from labrig.record.read.run import Run
from labrig.record.verify.command import check_parts, list_problems
from labrig.record.write.claim import claim_attempt, in_use
from labrig.report.report import report_command
from record_package import call, make_project, train

LEAKED = "Zq8vTn3Lw0"


@pytest.fixture
def own(tmp_path):
    return make_project(tmp_path / "project")


@pytest.fixture
def scrub(monkeypatch, capsys):
    """scrub(project, run, *options): exit code and output."""

    def called(project, run, *options):
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{LEAKED}\n"))
        capsys.readouterr()
        code = call(project, "runs scrub", getattr(run, "id", run), *options)
        return code, capsys.readouterr().out

    return called


def noted(own):
    """A run with the value in a note."""
    run = train(own)
    annotate(run, note=f"the key is {LEAKED}")
    return run


@pytest.mark.slow
def test_a_value_in_texts_alone_leaves_nothing(own, scrub):
    run = noted(own)
    code, output = scrub(own, run, "--yes")
    assert (code, "still in" in output) == (0, False)
    assert scrub(own, run) == (0, f"the value is nowhere in {run.id}\n")


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--yes",)], ids=["look", "yes"])
@pytest.mark.parametrize("name", ["data.bin", "rows.csv.gz", "arrays.npz", "nested/x.dat"])
def test_binary_and_compressed_files_of_the_run_are_named(own, scrub, name, options):
    """f-scrub: a binary file of the run, also where the value is compressed."""
    run = noted(own)
    path = run.dir / name
    path.parent.mkdir(exist_ok=True)
    content = b"\0" + LEAKED.encode()
    if name.endswith(".gz"):
        content = gzip.compress(content)
    if name.endswith(".npz"):
        np = pytest.importorskip("numpy")
        np.savez_compressed(path, key=np.frombuffer(LEAKED.encode() * 99, np.uint8))
    else:
        path.write_bytes(content)
    code, output = scrub(own, run, *options)
    assert code == 1
    assert f"still in {path}, which cannot be changed: delete it" in output
    if options:
        assert "taking it out of notes.jsonl" in output
        path.unlink()
        assert scrub(own, run)[0] == 0


@pytest.mark.slow
def test_names_of_files_and_directories_change(own, scrub):
    """f-scrub: the value as the name of a file."""
    run = noted(own)
    (run.dir / f"out-{LEAKED}").mkdir()
    (run.dir / f"out-{LEAKED}/{LEAKED}.txt").write_text(f"{LEAKED} twice")
    (run.checkpoints / f"{LEAKED}.ckpt").write_bytes(b"weights")
    code, output = scrub(own, run, "--yes")
    assert code == 1
    assert (run.dir / "out-***/***.txt").read_text() == "*** twice"
    assert f"still in {run.checkpoints}/{LEAKED}.ckpt" in output
    scrubbed = Run.open(run.dir)
    assert LEAKED not in json.dumps(scrubbed.record)
    assert list_problems(check_parts(scrubbed, own.root)) == []


@pytest.mark.slow
def test_a_json_file_of_the_user_that_is_a_list_is_scrubbed_too(own, scrub):
    run = noted(own)
    (run.dir / "list.json").write_text(json.dumps([LEAKED]))
    assert scrub(own, run, "--yes")[0] == 0
    assert (run.dir / "list.json").read_text() == '["***"]'


PLACES = (
    "runs/sweeps/baseline-1/sweep.json",
    "runs/sweeps/baseline-1/journal.log",
    "src/myproj/key.py",
    "notes.txt",
    "results.csv.gz",
    f"figures/{LEAKED}.svg",
    "picture.bin",
)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_other_files_of_the_project_are_named(own, scrub, place):
    """f-scrub: sweep.json, and whatever else holds the value."""
    run = noted(own)
    path = own.root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    content = b"\0key " + LEAKED.encode()
    path.write_bytes(gzip.compress(content) if place.endswith(".gz") else content)
    code, output = scrub(own, run, "--yes")
    assert code == 1
    assert f"still in {path}: " in output
    path.unlink()
    assert scrub(own, run, "--yes")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["report.html", "mine.html"])
def test_a_report_is_named_and_writing_it_again_helps(own, scrub, name):
    """f-scrub, f-scrub-report: the page holds the value compressed."""
    run = train(own, why=f"with {LEAKED}")
    options = [] if name == "report.html" else ["-o", str(own.root / name)]
    report_command(own, options)
    path = own.root / ("runs/report.html" if not options else name)
    assert LEAKED not in path.read_text()
    code, output = scrub(own, run, "--yes")
    assert code == 1
    (advice,) = re.findall(rf"still in {path}: write it again: lab report(.*)", output)
    report_command(own, advice.split())
    assert scrub(own, run) == (0, f"the value is nowhere in {run.id}\n")


@pytest.mark.slow
def test_other_runs_with_the_value_are_named(own, scrub):
    run, other = noted(own), noted(own)
    code, output = scrub(own, run, "--yes")
    assert code == 1
    assert f"still in the run {other.id}: lab runs scrub {other.id}" in output
    assert scrub(own, other, "--yes")[0] == 0


@pytest.mark.slow
def test_the_file_for_secrets_and_data_are_not_read(own, scrub):
    run = noted(own)
    (own.root / ".env").write_text(f"KEY={LEAKED}\n")
    (own.root / "data").mkdir()
    (own.root / "data/raw.csv").write_text(LEAKED)
    assert scrub(own, run, "--yes")[0] == 0


@pytest.mark.slow
def test_what_lies_across_two_blocks_is_found(own, scrub, monkeypatch):
    monkeypatch.setattr("labrig.record.keep.contents.BLOCK_BYTES", 64)
    run = noted(own)
    path = run.dir / "data.bin"
    for before in range(50, 70):
        path.write_bytes(b"\0" * before + LEAKED.encode() + b"\0" * 99)
        assert str(path) in scrub(own, run)[1]


# A kill at any moment


class Killed(BaseException):
    """What no handler catches."""


def kill_at_rename(monkeypatch, n):
    """Has the process end right after the n-th renaming of a directory."""
    rename = os.rename
    count = iter(range(1, 99))

    def renamed(source, target):
        rename(source, target)
        if next(count) == n:
            raise Killed

    monkeypatch.setattr(module.os, "rename", renamed)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_kill_between_two_renames_leaves_the_run_listed(own, scrub, monkeypatch, n):
    """g12: listed under its id, never pruned, and the same command ends the work."""
    run = noted(own)
    with monkeypatch.context() as patched:
        kill_at_rename(patched, n)
        with pytest.raises(Killed):
            scrub(own, run, "--yes")
    rows = read_rows([own.root / "runs"])
    assert run.id in {row["run_id"] for row in rows} | {row["renamed_from"] for row in rows}
    for hidden in (own.root / "runs").glob("*/.*-*"):
        os.utime(hidden, (0, 0))
    call(own, "runs prune", "status=finished", "--keep-best", 0, "--yes", "trial=wide")
    code, _ = scrub(own, run, "--yes")
    assert code == 0
    (row,) = read_rows([own.root / "runs"])
    assert (row["run_id"], row["is_copied"]) == (run.id, False)
    texts = [path.read_bytes() for path in run.dir.rglob("*") if path.is_file()]
    assert not any(LEAKED.encode() in text for text in texts)
    assert list_problems(check_parts(Run.open(run.dir), own.root)) == []


@pytest.mark.slow
def test_what_an_older_lab_left_between_its_renames_is_never_deleted(own, capsys):
    """g12: both names were hidden for a moment."""
    run = train(own)
    hidden = [run.dir.with_name(f".{what}-{run.id}") for what in ("deleted", "scrub")]
    os.rename(run.dir, hidden[0])
    hidden[1].mkdir()
    for path in hidden:
        os.utime(path, (0, 0))
    call(own, "runs prune", "--yes")
    assert all(path.exists() for path in hidden)
    os.rename(hidden[0], run.dir)
    call(own, "runs prune", "--yes")
    assert not hidden[1].exists()
    assert run.dir.exists()


# Who is using the run


@pytest.mark.slow
def test_a_run_in_use_or_behind_a_link_is_refused(own, scrub, tmp_path):
    run = noted(own)
    with in_use(run.dir), pytest.raises(LabError, match="resumes or evaluates"):
        scrub(own, run, "--yes")
    (own.root / "runs/baseline").rename(tmp_path / "theirs")
    (own.root / "runs/baseline").symlink_to(tmp_path / "theirs")
    with pytest.raises(LabError, match="lies behind a link"):
        scrub(own, run, "--yes")
    (own.root / "runs/baseline").unlink()
    (tmp_path / "theirs").rename(own.root / "runs/baseline")
    claim_attempt(run.dir)
    with pytest.raises(LabError, match="resumes or evaluates"):
        scrub(own, run, "--yes")


@pytest.mark.slow
def test_links_in_the_run_are_not_followed(own, scrub, tmp_path):
    """A sibling: a link of the run leads to a file of somebody's own."""
    run = noted(own)
    outside = tmp_path / "outside.txt"
    outside.write_text(LEAKED)
    (run.dir / "link.txt").symlink_to(outside)
    assert scrub(own, run, "--yes")[0] == 0
    assert outside.read_text() == LEAKED
    assert (run.dir / "link.txt").is_symlink()
    assert (own.root / "runs" / STORE).is_dir()
