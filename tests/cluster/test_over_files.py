"""`lab submit --each`: a task for every k files, whatever their names; the same again takes the rest."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from labrig.cluster.submit.arrays import OverFiles, check_words, files_to_submit, find_files
from labrig.errors import LabError
from labrig.record.files.manifest import listed_files
from labrig.record.read.each import Inputs, done_files
from projects import call
from record_package import create, make_project
from slurm_jobs import json_of, wait_until

NAMES = [
    "plain.wav",
    "with space.wav",
    "-leading.wav",
    'it\'s "quoted".wav',
    "new\nline.wav",
    "$HOME `date`.wav",
    "a[1]*.wav",
    os.fsdecode(b"latin-\xe9.wav"),
]
# Copies its file into a directory under the same name; refuses one of them until `good` is there.
PROGRAM = """
import os, pathlib, shutil, sys
source, target, good = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
if os.path.basename(source) == "plain.wav" and not os.path.exists(good):
    sys.exit("not yet")
with open(target / "log", "a", errors="surrogateescape") as log:
    log.write(repr(os.path.basename(source)) + "\\n")
shutil.copy(source, target)
"""


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "raw files"
    (folder / "deep").mkdir(parents=True)
    for name in NAMES:
        (folder / name).write_text(name, errors="surrogateescape")
    (folder / "deep/other.wav").touch()
    return folder


@pytest.mark.release
@pytest.mark.slow
def test_the_same_again_takes_the_files_that_are_not_done(own_project, files, tmp_path):
    target, good = tmp_path / "out", tmp_path / "good"
    target.mkdir()
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    settings = ["trial=baseline", "site=workstation", "job.gpus=0", "--json"]
    each = ["--each", files / "*.wav", "--per-task", 3]
    command = ["--", sys.executable, program, "{}", target, good]

    def submit():
        said = call(own_project, "lab", "submit", *settings, *each, *command)
        sent = json_of(said)
        return said, [sent] if isinstance(sent, dict) else sent

    said, sent = submit()
    assert len(sent) == 3, "8 files, 3 a task"
    summaries = [Path(run["run_dir"], "summary.json") for run in sent]
    wait_until(lambda: all(file.exists() for file in summaries), "all tasks", 120)
    statuses = [json.loads(file.read_text())["status"] for file in summaries]
    assert sorted(statuses) == ["failed", "finished", "finished"]
    assert sorted(os.listdir(target)) == sorted({*NAMES, "log"} - {"plain.wav"})
    assert "over files  1 of 2 done" in call(own_project, "lab", "runs", "show", sent[-1]["run_id"])
    assert "as recorded" in call(own_project, "lab", "runs", "verify", sent[-1]["run_id"])

    good.touch()
    said, sent = submit()
    assert "7 of 8 files done, 0 queued or running; submitting the other 1" in said
    wait_until((target / "plain.wav").exists, "the last file", 120)
    wait_until(Path(sent[0]["run_dir"], "summary.json").exists, "its task", 120)
    assert "8 of 8 files done, 0 queued or running; nothing to submit" in submit()[0]
    done = [eval(line) for line in (target / "log").read_text().splitlines()]
    assert sorted(done) == sorted(NAMES), "each file once"


@pytest.fixture
def own(tmp_path):
    return make_project(tmp_path / "project")


def run_over(own, command, paths):
    """A run over files as `lab submit --each` records it, before its job begins."""
    inputs = Inputs(command, find_files([str(path) for path in paths]))
    return create(own, trial="command", inputs=inputs)


def start_rank(own, run, command):
    """The process that a job script starts for the run."""
    variables = {
        "LAB_RUN_DIR": str(run.dir),
        "LAB_PROJECT": str(own.root),
    }
    words = [sys.executable, "-m", "labrig", "rank", "--", *command]
    return subprocess.Popen(
        words, env=os.environ | variables, cwd=own.root, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.release
@pytest.mark.slow
def test_a_task_that_is_stopped_continues_where_it_was(own, files, tmp_path):
    paths = sorted(files / name for name in NAMES[:3])
    log = tmp_path / "log"
    wait = f'echo "$1" >> {log}; test "$2" = go || test ! "$1" -ef "{paths[1]}" || exec sleep 300'
    command = ["bash", "-c", wait, "bash", "{}", "stop"]
    run = run_over(own, command, paths)
    process = start_rank(own, run, command)
    wait_until(
        lambda: log.exists() and len(log.read_text().splitlines()) == 2, "the second file", 120
    )
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 143, said
    assert {Path(file.path) for file in done_files(run.dir)} == {paths[0]}
    waiting = files_to_submit([own.root / "runs"], command, find_files([str(files / "*.wav")]))
    assert {Path(file.path).name for file in waiting} == {*NAMES} - {paths[0].name}


@pytest.mark.release
@pytest.mark.slow
def test_a_changed_file_is_another_one_and_a_queued_one_is_not_sent_twice(own, files, capsys):
    paths = sorted(files / name for name in NAMES[:3])
    command = ["true", "{}"]
    run = run_over(own, command, paths[:2])
    process = start_rank(own, run, command)
    assert process.wait(timeout=120) == 0
    queued = create(
        own,
        trial="command",
        inputs=Inputs(command, find_files([str(paths[2])])),
        job_of=lambda _: {"sending": True},
    )
    assert "inputs.json" in listed_files(queued.dir)
    found = find_files([str(path) for path in paths])
    assert files_to_submit([own.root / "runs"], command, found) == []
    assert "2 of 3 files done, 1 queued or running" in capsys.readouterr().err
    paths[0].write_text("edited since")
    found = find_files([str(path) for path in paths])
    changed = files_to_submit([own.root / "runs"], command, found)
    assert [file.path for file in changed] == [str(paths[0])]
    other = files_to_submit([own.root / "runs"], ["true", "{}", "other"], found)
    assert len(other) == 3, "another command has done nothing yet"


def test_patterns_find_files_once_and_by_their_whole_paths(files, monkeypatch):
    monkeypatch.chdir(files)
    found = find_files(["*.wav", "**/*.wav", "a[1]*.wav"])
    assert len(found) == len(NAMES) + 1
    assert all(Path(file.path).is_absolute() for file in found)
    assert [file.path for file in find_files(["a[1]*.wav"])] == [str(files / "a[1]*.wav")]


@pytest.mark.parametrize(
    ("overrides", "command", "per_task", "words"),
    [
        ([], None, 1, "--each needs a command after --"),
        ([], ["python", "convert.py"], 1, "the command has no {}"),
        (["raw/b.wav"], ["cp", "{}"], 1, "Put it in quotes"),
        ([], ["cp", "{}"], 0, "--per-task is 0"),
    ],
)
def test_what_makes_no_sense_is_reported(overrides, command, per_task, words):
    with pytest.raises(LabError, match=words):
        check_words(overrides, command, OverFiles(["raw/*.wav"], per_task))


def test_a_pattern_without_files_is_reported(tmp_path):
    with pytest.raises(LabError, match="matches no file"):
        find_files([str(tmp_path / "*.wav")])


@pytest.mark.release
@pytest.mark.slow
def test_a_program_that_is_not_there_is_reported(own, files):
    command = ["no-such-program", "{}"]
    run = run_over(own, command, [files / NAMES[0]])
    process = start_rank(own, run, command)
    assert process.wait(timeout=120) == 1
    end = json.loads((run.dir / "attempts/1/end.json").read_text())
    assert end["status"] == "failed"
    assert "No such file" in end["exception"]["line"]
