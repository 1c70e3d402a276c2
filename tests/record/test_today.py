"""Evaluating, loading and resuming a run whose project has other code today."""

import importlib
import json
import os
import signal
import subprocess
import sys

import pytest
from labrig import env
from labrig.errors import LabError
from labrig.project import Project
from labrig.record.read.run import Run
from labrig.record.reproduce.today import (
    files_that_differ,
    format_names,
    require_own_code,
    run_with_frozen_code,
)
from projects import call, copy_library, copy_of, environment_of
from record_package import PACKAGE, commit, create, make_project
from repositories import git, write
from trainings import SHORT


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "myproj")


@pytest.mark.slow
def test_the_same_code_has_no_difference(project):
    write(project.root, {"src/myproj/new.py": "x = 1\n"})
    run = create(project)
    write(project.root, {"README.md": "hello\n"})
    assert files_that_differ(run.record["code"], project) == []
    commit(project.root, "what the run had uncommitted")
    assert files_that_differ(run.record["code"], project) == []


@pytest.mark.slow
def test_a_readme_is_no_code_and_a_prompt_is(project):
    run = create(project)
    write(project.root, {"src/myproj/trials/wide/README.md": "numbers\n"})
    assert files_that_differ(run.record["code"], project) == []
    write(project.root, {"src/myproj/trials/wide/prompt.md": "Answer.\n"})
    assert files_that_differ(run.record["code"], project) == ["src/myproj/trials/wide/prompt.md"]


@pytest.mark.slow
def test_edited_deleted_and_new_files_are_found(project):
    run = create(project)
    write(project.root, {"src/myproj/__init__.py": "x = 1\n", "src/myproj/new.py": "x = 1\n"})
    (project.root / "src/myproj/trials/wide/model.py").unlink()
    names = files_that_differ(run.record["code"], project)
    assert names == [
        "src/myproj/__init__.py",
        "src/myproj/new.py",
        "src/myproj/trials/wide/model.py",
    ]
    assert format_names(names) == "src/myproj/__init__.py and 2 more files differ"
    assert format_names(names[:2]) == "src/myproj/__init__.py and 1 more file differ"
    assert format_names(names[:1]) == "src/myproj/__init__.py differs"


@pytest.mark.slow
def test_other_line_ends_are_no_difference(project):
    git(project.root, "config", "core.autocrlf", "input")
    path = project.root / "src/myproj/__init__.py"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    run = create(project)
    assert files_that_differ(run.record["code"], project) == []


@pytest.mark.slow
def test_a_trial_that_is_gone_is_named_with_what_to_type(project):
    run = create(project, trial="gone/lowlr")
    with pytest.raises(LabError, match=r"no trial 'gone/lowlr' .*frozen=True"):
        require_own_code(run, project)
    write(project.root, {"src/myproj/trials/baseline/config.yaml": "{}\n"})
    require_own_code(create(project), project)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["resume", "eval"])
def test_a_run_of_a_renamed_trial_continues_with_its_own_code(
    project, monkeypatch, capsys, command
):
    started = []

    def note(run, project, words):
        started.append((run.id, words))
        return 7

    file, function = {
        "resume": ("start.command", "resume_command"),
        "eval": ("trained.evaluate", "eval_command"),
    }[command]
    module = importlib.import_module(f"labrig.training.{file}")
    monkeypatch.setattr(module, "run_with_frozen_code", note)
    run = create(project, trial="old")
    git(project.root, "mv", "src/myproj/trials/wide", "src/myproj/trials/renamed")
    exit_code = getattr(module, function)(project, [run.id, "trainer.max_epochs=4"])
    assert exit_code == 7
    assert started == [(run.id, [command, str(run.dir), "trainer.max_epochs=4"])]
    assert f"with the code of {run.id}" in capsys.readouterr().err


def frozen_run(home, folder):
    """A copy of a project with a trained run; the run's code is not that of today."""
    own = copy_of(home, folder)
    (own / "src/myproj/trials/baseline").rename(own / "src/myproj/trials/renamed")
    return own, Run.open(min(own.glob("runs/baseline/2*")))


@pytest.mark.release
@pytest.mark.slow
def test_commands_run_with_the_frozen_code(home, tmp_path, capfd, monkeypatch):
    own, run = frozen_run(home, tmp_path / "myproj")
    today = copy_library(tmp_path / "today")
    with open(today / "labrig/record/list/show.py", "a") as show:
        show.write("\nraise RuntimeError('this is the library of today')\n")
    monkeypatch.setenv("PYTHONPATH", str(today))
    before = signal.getsignal(signal.SIGTERM)
    assert run_with_frozen_code(run, Project(own, PACKAGE), ["runs", "show", str(run.dir)]) == 0
    assert f"{run.id}  finished" in capfd.readouterr().out
    assert run_with_frozen_code(run, Project(own, PACKAGE), ["runs", "show", "nothing"]) == 2
    assert signal.getsignal(signal.SIGTERM) == before


def test_modules_of_the_user_stay_importable(project, tmp_path, monkeypatch):
    inside = [str(project.root / "src"), str(project.root / "libs")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*inside, str(tmp_path / "mine"), ""]))
    outside = env.paths_outside(project.root)
    assert outside == [str(tmp_path / "mine")]
    frozen = env.frozen_environment(tmp_path / "code", "sub/", project.root, "c0ffee", outside)
    paths = [f"{tmp_path}/code/sub/src", f"{tmp_path}/code/labrig-frozen", f"{tmp_path}/mine"]
    assert frozen["PYTHONPATH"] == os.pathsep.join(paths)


WAITS = """
import time

COMMANDS = [("wait", "waits", "commands:wait")]


def wait(project, args):
    print("waits", flush=True)
    time.sleep(99)
"""


def test_a_signal_reaches_the_frozen_code(home, tmp_path):
    """SIGTERM for the command that waits ends the one that it started, and leaves no directory."""
    own = copy_of(home, tmp_path / "myproj")
    write(own, {"src/myproj/commands.py": WAITS})
    run = create(Project(own, PACKAGE))
    (tmp_path / "temporary").mkdir()
    program = (
        "import sys; from pathlib import Path; from labrig.project import Project;"
        "from labrig.record.read.run import Run;"
        "from labrig.record.reproduce.today import run_with_frozen_code;"
        "run = Run.open(Path(sys.argv[1]));"
        "sys.exit(run_with_frozen_code(run, Project(Path.cwd(), 'myproj'), ['wait']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, run.dir],
        cwd=own,
        env=environment_of(own, TMPDIR=str(tmp_path / "temporary")),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "waits\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.stdout.close()
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.release
@pytest.mark.slow
def test_eval_uses_the_code_of_the_run(home, tmp_path):
    own = copy_of(home, tmp_path / "myproj")
    earlier = set(own.glob("runs/baseline/2*"))
    call(own, "lab", "train", "trial=baseline", *SHORT)
    (run_dir,) = set(own.glob("runs/baseline/2*")) - earlier
    run = Run.open(run_dir)
    recorded = json.loads((run.dir / "summary.json").read_text())["metrics"]["test/acc"]
    data = own / "src/myproj/data.py"
    text = data.read_text()
    assert text.count("return") > 0
    data.write_text(
        text + "\n\nold = Digits.on_after_batch_transfer\n\n\n"
        "def zero(self, batch, i):\n    image, label = old(self, batch, i)\n"
        "    return image * 0, label\n\n\nDigits.on_after_batch_transfer = zero\n"
    )
    output = call(own, "lab", "eval", run.id)
    assert f"with the code of {run.id}, since src/myproj/data.py differs" in output
    assert float(output.split("test/acc")[1].split()[0]) == pytest.approx(recorded, rel=1e-5)
    output = call(own, "lab", "eval", run.id, "--today")
    assert "with the code of today; src/myproj/data.py differs" in output
    assert float(output.split("test/acc")[1].split()[0]) < recorded / 2
    rows = [json.loads(line) for line in (run.dir / "evaluations.jsonl").read_text().splitlines()]
    frozen, today = [row["code"] for row in rows[-2:]]
    assert (frozen["commit"], frozen["same"]) == (run.record["code"]["commit"], True)
    assert frozen["not_frozen"] == today["not_frozen"] == []
    assert (today["same"], today["complete"]) == (False, True)
    assert "def zero" in git(own, "show", f"{today['commit']}:src/myproj/data.py")
