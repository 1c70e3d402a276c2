"""A disk that takes no more: one line says where and what to do, and nothing that was written is lost."""

import errno
import json
import os
import re
import sys

import pytest
from labrig.cli import main
from labrig.errors import LabError
from labrig.machine.disk import explain_disk_error
from labrig.record.files.json_lines import JsonLines, read_lines
from labrig.record.files.metrics_file import MetricsLog, read_metrics
from labrig.record.read.rows import read_rows
from labrig.record.read.run import Run
from labrig.record.write.recording import record_attempt
from record_package import create, make_project, train
from small_disks import Quota, fill, mounted, needs_root, read_only


@pytest.fixture
def project(tmp_path, monkeypatch):
    made = make_project(tmp_path / "project")
    for name in [name for name in sys.modules if name.partition(".")[0] == made.package]:
        monkeypatch.delitem(sys.modules, name)  # of the project of another test
    monkeypatch.setenv("LAB_PROJECT", str(made.root))
    monkeypatch.chdir(made.root)
    return made


@pytest.fixture
def runs(project):
    return project.root / "runs"


def lab(capsys, *words):
    """The exit code of a command, and what it printed."""
    capsys.readouterr()
    code = main([str(word) for word in words])
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return code, printed.out + printed.err


def attempt(run, project, work):
    """An attempt that does `work` with its log."""
    with record_attempt(Run.open(run.dir), project, "warn") as record:
        work(MetricsLog(run.dir, record.n))


def assert_readable(capsys, run):
    for words in (("runs", "list"), ("runs", "show", run.id), ("runs", "verify", run.id)):
        code, said = lab(capsys, *words)
        assert code == 0, (words, said)


@pytest.mark.release
@pytest.mark.slow
@needs_root
def test_a_disk_that_is_full_to_the_last_byte(project, runs, capsys):
    with mounted(runs, "size=4m"):
        run = create(project)
        steps = [0]

        def log_until_the_disk_is_full(log):
            (run.checkpoints / "last.ckpt").write_bytes(b"weights")
            fill(runs, free_bytes=100)
            while True:
                log.append(steps[-1] + 1, 0, {"train/loss": 0.123456789 * steps[-1]})
                steps.append(steps[-1] + 1)

        with pytest.raises(LabError, match="no space left") as raised:
            attempt(run, project, log_until_the_disk_is_full)
        message = str(raised.value)
        assert str(run.dir / "metrics.jsonl") in message
        assert "df -h" in message
        assert f"lab resume {run.id}" in message
        assert "Traceback" not in capsys.readouterr().err
        (row,) = read_rows([runs])
        assert (row["status"], row["exception"][:7]) == ("failed", "OSError")
        assert [entry["step"] for entry in read_metrics(run.dir)] == steps[1:]
        assert_readable(capsys, run)
        filler = fill(runs)
        code, said = lab(capsys, "runs", "note", run.id, "x" * 10_000)
        assert code == 1
        assert re.search(r"no space left on the disk of .*notes\.jsonl \(0.0 MB free\)", said)
        assert said.count("\n") == 1
        filler.unlink()
        lab(capsys, "runs", "note", run.id, "there is room again")
        assert read_lines(run.dir / "notes.jsonl")[-1]["note"] == "there is room again"
        attempt(run, project, lambda log: log.append(steps[-1] + 1, 0, {"train/loss": 1.0}))
        assert [entry["step"] for entry in read_metrics(run.dir)] == [*steps[1:], steps[-1] + 1]
        assert_readable(capsys, run)


def test_a_row_of_which_the_disk_takes_a_part_is_an_error(tmp_path, monkeypatch):
    lines = JsonLines(tmp_path / "metrics.jsonl")
    lines.add({"n": 1})
    write = os.write

    def take_five(file, content):
        if len(content) <= 8:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, content[:5])

    monkeypatch.setattr(os, "write", take_five)
    with pytest.raises(OSError, match=r"No space.*metrics\.jsonl"):
        lines.add({"n": 2})
    monkeypatch.setattr(os, "write", lambda file, content: write(file, content[:5]))
    lines.add({"n": 3})  # a slow disk takes all of it in parts
    assert [entry["n"] for entry in read_lines(tmp_path / "metrics.jsonl")] == [1, 3]


@pytest.mark.slow
def test_a_pipe_in_place_of_the_metrics_ends_the_attempt(project, runs):
    run = create(project)
    os.mkfifo(run.dir / "metrics.jsonl")
    with pytest.raises(LabError, match=r"metrics\.jsonl is no file.*rm "):
        attempt(run, project, lambda log: log.append(1, 0, {"train/loss": 1.0}))
    (row,) = read_rows([runs])
    assert row["status"] == "failed"


@needs_root
@pytest.mark.release
def test_out_of_inodes_at_any_file(project, runs, capsys):
    """With one inode more each time, the record comes one file further."""
    failures = 0
    for n_inodes in range(5, 60):  # 5: git itself makes its bundles
        with mounted(runs, f"size=4m,nr_inodes={n_inodes}"):
            try:
                run = train(project)
            except OSError as error:
                failures += 1
                message = explain_disk_error(error)
                assert "too many files" in message
                assert "df -i" in message
                assert str(runs) in message
                assert lab(capsys, "runs", "list")[0] == 0
                assert not list(runs.glob("*/.2*")), "half a run is left"
                continue
            assert_readable(capsys, run)
            break
    assert failures > 10
    assert read_rows([runs]) == []


@pytest.mark.slow
@needs_root
def test_runs_on_a_read_only_disk_are_read(project, runs, capsys):
    with mounted(runs, "size=4m"):
        run = train(project)
        with read_only(runs):
            assert_readable(capsys, run)
            for words in (("runs", "note", run.id, "x"), ("runs", "tag", run.id, "paper")):
                code, said = lab(capsys, *words)
                assert code == 1
                assert re.fullmatch(r"lab: the disk of .*notes\.jsonl is read-only\..*\n", said)
            with pytest.raises(OSError, match="Read-only") as raised:
                create(project)
            assert "paths.runs=" in explain_disk_error(raised.value)
            with (
                pytest.raises(OSError, match="Read-only"),
                record_attempt(run, project, "warn"),
            ):
                pass
        assert_readable(capsys, run)


@pytest.mark.release
@pytest.mark.slow
def test_a_quota_at_any_write(project, runs, capsys, monkeypatch):
    first = train(project)  # which must stay as it is
    quota = Quota(runs, monkeypatch)
    endings = []
    for n_writes in range(200):
        quota.n_left = n_writes
        try:
            train(project, code=first.record["code"])
        except OSError as error:
            quota.n_left = None
            message = explain_disk_error(error)
            assert "your quota is used up" in message
            assert "quota -s" in message
            assert str(runs) in message
            assert not list(runs.glob("*/.2*")), "half a run is left"
            assert lab(capsys, "runs", "list")[0] == 0
            endings += [row["status"] for row in read_rows([runs]) if row["run_id"] != first.id]
            continue
        break
    quota.n_left = None
    assert_readable(capsys, first)
    assert n_writes > 30
    assert set(endings) <= {"running", "finished"}, "the process of these runs lives"


@pytest.mark.slow
def test_how_it_ended_could_not_be_written_either(project, runs, capsys, monkeypatch):
    run = create(project)
    quota = Quota(runs, monkeypatch)

    def use_up(log):
        quota.n_left = 0
        log.append(1, 0, {"train/loss": 1.0})

    with pytest.raises(LabError, match=r"your quota is used up.*lab resume"):
        attempt(run, project, use_up)
    said = capsys.readouterr().err
    assert "how it ended could not be recorded: your quota" in said
    assert "Traceback" not in said
    quota.n_left = None


@pytest.mark.parametrize(
    ("number", "kind", "expected"),
    [
        (errno.EDQUOT, "lustre", "lfs quota -h"),
        (errno.EDQUOT, "ext4", "quota -s"),
        (errno.EROFS, "nfs4", "findmnt"),
        (errno.EACCES, "ext4", "belongs to"),
        (errno.ECONNRESET, "ext4", None),
    ],
)
def test_the_message_names_the_place_and_the_command(tmp_path, monkeypatch, number, kind, expected):
    monkeypatch.setattr("labrig.machine.disk.filesystem_type", lambda path: kind)
    place = tmp_path / "gone" / "run.json"
    message = explain_disk_error(OSError(number, os.strerror(number), str(place)))
    if expected is None:
        assert message is None
        return
    assert expected in message
    assert str(place) in message
    assert str(tmp_path) in message
    assert "\n" not in message
    assert json.dumps(message)
