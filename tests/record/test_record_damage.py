"""Records that were damaged, or that hold what a terminal would obey: read, shown, and said by name."""

import json
import os
import shutil

import pytest
from labrig import cli, errors
from labrig.cluster.watch.queue import QueuedJob, format_queue
from labrig.machine.text_formats import printable, printable_lines
from labrig.record.files.atomic import read_advisory, write_json
from labrig.record.files.metrics_file import MetricsLog, last_metrics, read_metrics
from labrig.record.keep.annotate import annotate
from labrig.record.read.find import find_run
from labrig.record.read.rows import read_row
from labrig.record.write.begin import begin_attempt
from labrig.trials.files import read_readme
from record_package import call, create, make_project, train

EVIL = "\x1b[2J\n  test/acc    1.0\r\x1b]0;title\x07"
SHOWN = r"\x1b[2J\n  test/acc    1.0\r\x1b]0;title\x07"


@pytest.fixture
def own(tmp_path):
    return make_project(tmp_path / "project")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (EVIL, SHOWN),
        ("手書き　数字 é 👩‍🔬", "手書き　数字 é 👩‍🔬"),
        ("caf\udce9.txt", r"caf\xe9.txt"),
        ("\u202egpj.exe\u2028", r"\u202egpj.exe\u2028"),
        ("a\x9b31mb\u0085c", r"a\x9b31mb\x85c"),
    ],
)
def test_what_a_terminal_would_obey_is_escaped(text, shown):
    assert printable(text) == shown
    assert printable_lines(f"{text}\n") == printable_lines(text) + "\n"


@pytest.mark.release
@pytest.mark.slow
def test_nothing_recorded_reaches_the_terminal_raw(own, capsys):
    (own.root / f"big{EVIL.replace('/', '-')}.bin").write_bytes(b"x" * 2000)
    changes = {"why": EVIL, "config_yaml": f"seed: 0\nname: {json.dumps(EVIL)}\n"}
    failure = ValueError(EVIL)
    train(own, max_file_mb=0.001, config_yaml="seed: 0\nname: x\n")
    run = train(own, "failed", max_file_mb=0.001, metrics={EVIL: 1.0}, exception=failure, **changes)
    annotate(run, note=EVIL)
    annotate(run, tag=EVIL)
    call(own, "snapshot")
    for words in (
        ["runs list"],
        ["runs list", "--columns", "why,tags,name"],
        ["runs list", "--json"],
        ["runs show", run.id],
        ["runs diff", run.id, find_run([own.root / "runs"], "@last").id],
        ["runs table", "--by", "name", "status=failed"],
        ["runs cost"],
        ["runs prune"],
        [""],
    ):
        call(own, *words)
        output = capsys.readouterr()
        assert not set("\x1b\r\x07") & set(output.out + output.err), words
        assert not [line for line in output.out.splitlines() if line.startswith("  test/acc")]
    call(own, "runs show", run.id)
    assert f"  note        {SHOWN}\n" in capsys.readouterr().out


def test_neither_does_what_a_scheduler_or_an_error_says(monkeypatch, capsys):
    job = QueuedJob("id", EVIL, "1", "slurm", "queued", f"reason {EVIL}", 0, 0.0)
    queue = format_queue([job])
    assert "\x1b" not in queue
    assert len(queue.splitlines()) == 3

    def refuse(command, args):
        raise errors.LabError(f"first\nsecond {EVIL}")

    monkeypatch.setattr(cli.Command, "run", refuse)
    assert cli.main(["train"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("lab: first\nsecond ")
    assert "\x1b" not in said


@pytest.mark.slow
def test_file_names_that_are_no_utf8_are_recorded_and_read(own, capsys):
    with open(os.fsencode(own.root) + b"/caf\xe9.bin", "wb") as file:
        file.write(b"x" * 2000)
    run = train(own, max_file_mb=0.001)
    json.loads((run.dir / "run.json").read_text(encoding="utf-8"))  # JSON for every reader
    call(own, "runs show", run.id)
    assert r"left out: caf\xe9.bin (size)" in capsys.readouterr().out


def test_lines_of_metrics_that_are_no_rows_are_passed_over(tmp_path):
    row = {"step": 1, "epoch": 0, "attempt": 1, "time_unix_s": 1.0, "val/loss": 0.5}
    garbage = [
        row | {"step": "one"},
        row | {"attempt": None},
        row | {"time_unix_s": [1]},
        [row],
        7,
    ]
    lines = [json.dumps(each).encode() for each in (row, *garbage, row | {"step": 2})]
    lines[3:3] = [b"\xff\xfe\x00", b"[" * 100_000, b'{"step": 1', b"", b"\x1b[2J"]
    (tmp_path / "metrics.jsonl").write_bytes(b"\n".join(lines))
    assert [row["step"] for row in read_metrics(tmp_path)] == [1, 2]
    assert last_metrics(tmp_path) == {"val/loss": 0.5}


@pytest.mark.slow
def test_a_metric_far_up_in_a_long_file_is_still_listed(own, capsys):
    run = create(own)
    attempt = begin_attempt(run, own)
    log = MetricsLog(run.dir, attempt.n)
    log.append(1, 0, {"val/loss": 0.5, "val/acc": 0.7})
    log.append(2, 0, {"val/loss": 0.4})
    line = {"step": 3, "epoch": 0, "attempt": 1, "time_unix_s": 1.0, "train/loss": 0.3}
    with open(run.dir / "metrics.jsonl", "a") as file:
        file.writelines(f"{json.dumps(line | {'step': step})}\n" for step in range(3, 5000))
    assert os.path.getsize(run.dir / "metrics.jsonl") > 1 << 18
    metrics = read_row(str(run.dir))["metrics"]
    assert metrics == {"val/loss": 0.4, "val/acc": 0.7, "train/loss": 0.3}


@pytest.mark.slow
def test_damaged_records_are_named_and_hide_no_other(own, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    good, broken, odd, hollow = (train(own, metrics={"val/loss": 0.1}) for _ in range(4))
    for run in (broken, hollow):
        (run.dir / "summary.json").unlink()
    (broken.dir / "run.json").write_text('{"run_id": "2026')
    (hollow.dir / "run.json").unlink()
    (odd.dir / "summary.json").write_text(json.dumps({"status": 7, "metrics": [1]}))
    call(own, "runs list")
    output = capsys.readouterr()
    lines = {line.split()[0]: line for line in output.out.splitlines()}
    assert [lines[run.id].split()[1] for run in (good, broken, odd, hollow)] == [
        "finished",
        "damaged",
        "damaged",
        "damaged",
    ]
    assert f"{broken.dir}: its record cannot be read: in run.json, there is no JSON" in output.err
    assert f"{odd.dir}: its record cannot be read: " in output.err
    for words in (
        ["runs cost"],
        ["runs list", "status=damaged"],
        [""],
        ["runs table", "--by", "seed"],
    ):
        call(own, *words)
    call(own, "runs prune")
    assert "0 B would be freed" in capsys.readouterr().out, "a damaged run is never touched unasked"
    with pytest.raises(
        errors.LabError, match=f"the record of {broken.id} cannot be read: .*\n.*backup"
    ):
        find_run([own.root / "runs"], broken.id)
    with pytest.raises(errors.LabError, match=r"has no run\.json"):
        find_run([own.root / "runs"], hollow.id)


@pytest.mark.slow
def test_notes_with_odd_entries(own, capsys):
    run = train(own)
    lines = [{"tag": 5}, {"tag": ["a"]}, {"note": {"a": 1}}, {"untag": 5}, "x", {"tag": "paper"}]
    (run.dir / "notes.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert read_row(str(run.dir))["tags"] == ["paper"]
    call(own, "runs show", run.id)
    assert "{'a': 1}" not in capsys.readouterr().out


def test_the_readme_of_a_trial_may_have_any_bytes(tmp_path):
    (tmp_path / "README.md").write_bytes(b"\xff\xfe# wide\n\n**Parent.** [baseline](x) \x1b[2J\n")
    assert read_readme(tmp_path).parent == "baseline"


def test_json_with_surrogates_is_read_back(tmp_path):
    value = {"name": "caf\udce9", "text": "é 手"}
    write_json(tmp_path / "a.json", value)
    assert read_advisory(tmp_path / "a.json") == value
    assert "手" in (tmp_path / "a.json").read_text(encoding="utf-8")
    shutil.rmtree(tmp_path)


@pytest.mark.release
@pytest.mark.slow
def test_half_of_a_character_in_place_of_a_number_is_damage(own, capsys):
    run = train(own)
    end = run.dir / "attempts/1/end.json"
    end.write_text(json.dumps(json.loads(end.read_text()) | {"metrics": {"train/acc": "\ud800"}}))
    with pytest.raises(errors.Failed, match=r"end\.json was changed: .*half of a character"):
        call(own, "runs verify", run.id)
    assert call(own, "runs show", run.id) == 0
    assert "half of a character" in capsys.readouterr().out
