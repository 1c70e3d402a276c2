"""`lab submit -- COMMAND`: where the command runs, what it can import and read, and what stays of it."""

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from labrig import env
from labrig.cluster.job import command_attempt
from labrig.cluster.job.command_attempt import HASHED_BYTES
from labrig.cluster.submit.arrays import find_files
from labrig.cluster.submit.check_frozen import name_unseen_words
from labrig.errors import Failed
from labrig.project import Project
from labrig.record.freeze.frozen import unpack_code
from labrig.record.read.each import Inputs
from projects import call as call_lab
from projects import work_on
from record_package import call, commit, create, make_project
from repositories import write
from slurm_jobs import json_of, wait_until

# The shape of nanoGPT: a script that reads a Python file as settings and data that git ignores, imports
# its neighbour, and writes a checkpoint relative to the current directory.
SCRIPT = """
import os, sys
from pathlib import Path
from model import WIDTH
exec(Path(sys.argv[1]).read_text())
data = Path("data/chars/train.bin").read_bytes()
Path(out_dir).mkdir(exist_ok=True)
Path(out_dir, "ckpt.pt").write_bytes(data * WIDTH)
Path(__file__).with_name("beside.txt").write_text(os.environ["LAB_RUN_DIR"])
"""
FILES = {
    ".gitignore": "/runs\n*.bin\n/out\n__pycache__/\n",
    "train.py": SCRIPT,
    "model.py": "WIDTH = 3\n",
    "config/small.py": 'out_dir = "out-chars"\n',
    "data/chars/prepare.py": "# makes train.bin\n",
    "run.sh": "#!/bin/sh\nexec python train.py config/small.py\n",
}
PYTHON = ["python", "train.py", "config/small.py"]


@pytest.fixture
def own(tmp_path):
    project = make_project(tmp_path / "project")
    write(project.root, FILES)
    (project.root / "run.sh").chmod(0o755)
    commit(project.root, "script")
    write(project.root, {"data/chars/train.bin": "abc"})
    return project


class Job:
    """A job of a command: its run, its node's copy of the frozen code, and its first process."""

    def __init__(self, project, node, command=PYTHON, **changes):
        self.project = project
        self.command = command
        self.run = create(project, trial="command", **changes)
        self.code = self.run.record["code"]
        self.frozen = node / "code"
        unpack_code(self.code, project.root, self.run.runs / ".code", self.frozen)
        (self.frozen / "runs").symlink_to(project.root / "runs")  # as the job script does

    def start(self, n_ranks=1, rank=0, attempt=1):
        frozen = env.frozen_environment(
            self.frozen, self.code["prefix"], self.project.root, self.code["commit"]
        )
        of_job = {"LAB_RUN_DIR": str(self.run.dir), "LAB_NEXT_ATTEMPT": str(attempt)}
        if n_ranks > 1:
            of_job |= {"RANK": str(rank), "WORLD_SIZE": str(n_ranks), "LOCAL_RANK": str(rank)}
            of_job |= {"LOCAL_WORLD_SIZE": str(n_ranks), "GROUP_RANK": "0"}
            of_job |= {"TORCHELASTIC_RUN_ID": "x", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
        return subprocess.Popen(
            [sys.executable, "-m", "labrig", "rank", "--", *self.command],
            env=os.environ | frozen | of_job,
            cwd=self.frozen / self.code["prefix"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ended(self, rc=0):
        process = self.start()
        said, _ = process.communicate(timeout=120)
        assert process.returncode == rc, said
        return said

    @property
    def work(self):
        return self.run.dir / "work"

    def outputs(self, attempt=1):
        return json.loads((self.run.dir / f"attempts/{attempt}/end.json").read_text())["outputs"]


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("command", [PYTHON, ["./run.sh"]], ids=["python", "script"])
def test_a_script_runs_as_in_a_shell_and_what_it_writes_is_kept_and_listed(
    own, tmp_path, command, capsys
):
    job = Job(own, tmp_path / "node", command)
    write(own.root, {"model.py": "WIDTH = 5\n", "config/small.py": "out_dir = 'other'\n"})
    job.ended()
    assert (job.work / "out-chars/ckpt.pt").read_bytes() == b"abcabcabc", "the frozen WIDTH is 3"
    assert (job.work / "beside.txt").read_text() == str(job.run.dir)
    assert files_in(job.work) == ["beside.txt", "out-chars/ckpt.pt"], "no copy of the code stays"
    assert not (job.frozen / "out-chars").exists()
    outputs = job.outputs()
    assert (outputs["n"], outputs["bytes"]) == (2, 9 + len(str(job.run.dir)))
    assert sorted(outputs["files"]) == ["work/beside.txt", "work/out-chars/ckpt.pt"]
    call(own, "runs show", job.run.id)
    assert "wrote       work/out-chars/ckpt.pt, 9 bytes" in capsys.readouterr().out
    call(own, "runs verify", job.run.id)
    (job.work / "out-chars/ckpt.pt").write_bytes(b"edited")
    with pytest.raises(Failed, match=r"ckpt\.pt was changed"):
        call(own, "runs verify", job.run.id)
    assert (own.root / "data/chars/train.bin").exists(), "only the link to it was removed"


@pytest.mark.release
@pytest.mark.slow
def test_a_file_of_the_code_that_the_command_changes_stays_changed(own, tmp_path):
    job = Job(own, tmp_path / "node", ["bash", "-c", "echo more >>config/small.py; rm model.py"])
    job.ended()
    assert files_in(job.work) == ["config/small.py"]
    assert (job.work / "config/small.py").read_text() == 'out_dir = "out-chars"\nmore\n'
    assert (job.frozen / "config/small.py").read_text() == 'out_dir = "out-chars"\n'


@pytest.mark.release
@pytest.mark.slow
def test_a_job_that_was_stopped_finds_its_files_when_it_starts_again(own, tmp_path):
    program = """
    import os, signal, sys, time
    from pathlib import Path
    from model import WIDTH
    if Path("ckpt.pt").exists():
        Path("done.txt").write_text(Path("ckpt.pt").read_text())
        sys.exit(0)
    def save(*_):
        Path("ckpt.pt").write_text(str(WIDTH))
        Path(os.environ["LAB_RUN_DIR"], "requeue").touch()
        sys.exit(0)
    signal.signal(signal.SIGTERM, save)
    Path("listens").touch()
    time.sleep(300)
    """
    write(own.root, {"loop.py": textwrap.dedent(program)})
    job = Job(own, tmp_path / "node", ["python", "loop.py"])
    process = job.start()
    wait_until((job.work / "listens").exists, "the program", 120)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=120) == 0
    listed = job.outputs()["files"]
    assert sorted(listed) == ["work/ckpt.pt", "work/listens"]
    assert listed["work/ckpt.pt"]["sha256"] is None, "there is no time to read what may be large"
    (job.run.dir / "requeue").unlink()
    assert job.start(attempt=2).wait(timeout=120) == 0
    assert (job.work / "done.txt").read_text() == "3"
    assert job.outputs(2)["files"]["work/ckpt.pt"]["sha256"]


@pytest.mark.release
@pytest.mark.slow
def test_the_runs_of_an_array_do_not_share_a_directory(own, tmp_path):
    jobs = [Job(own, tmp_path / name, ["bash", "-c", f"echo {name} >out"]) for name in ("a", "b")]
    for job in jobs:
        job.ended()
    assert [(job.work / "out").read_text() for job in jobs] == ["a\n", "b\n"]


@pytest.mark.slow
def test_all_ranks_run_in_one_directory(own, tmp_path):
    job = Job(own, tmp_path / "node", ["bash", "-c", "cat model.py >rank-$RANK"])
    processes = [job.start(n_ranks=2, rank=rank) for rank in (1, 0)]
    for process in processes:
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0, said
    assert {"rank-0", "rank-1", "model.py"} <= set(files_in(job.work)), "others may still read it"
    assert "work/model.py" not in job.outputs()["files"]


@pytest.mark.release
@pytest.mark.slow
def test_a_command_over_files_runs_there_too(own, tmp_path):
    command = ["bash", "-c", 'cp "$0" copy-of-$(basename "$0"); cat model.py', "{}"]
    source = tmp_path / "x.wav"
    source.write_text("x")
    inputs = Inputs(command, find_files([str(source)]))
    job = Job(own, tmp_path / "node", command, inputs=inputs)
    assert "WIDTH = 3" in job.ended()
    assert files_in(job.work) == ["copy-of-x.wav"]


@pytest.mark.release
@pytest.mark.slow
def test_a_project_inside_a_larger_repository_sees_the_files_above_it(tmp_path):
    top = tmp_path / "larger"
    make_project(top)
    write(top, {"shared.txt": "shared", "sub/pyproject.toml": (top / "pyproject.toml").read_text()})
    write(top, {"sub/src/pack/__init__.py": "", "sub/src/pack/conf/config.yaml": "{}\n"})
    write(top, {".gitignore": "runs\ndata\n"})
    package = next((top / "src").iterdir()).name
    os.rename(top / "sub/src/pack", top / "sub/src" / package)
    commit(top, "sub")
    project = work_on(Project(top / "sub", package))
    job = Job(project, tmp_path / "node", ["cp", "../shared.txt", "here.txt"])
    job.ended()
    assert files_in(job.work) == ["sub/here.txt"]


@pytest.mark.release
@pytest.mark.slow
def test_only_small_outputs_are_read_for_their_hash(own, tmp_path):
    job = Job(own, tmp_path / "node", ["bash", "-c", f"truncate -s {HASHED_BYTES} a; echo b >b"])
    job.ended()
    files = job.outputs()["files"]
    assert files["work/a"] == {"bytes": HASHED_BYTES, "sha256": None}
    assert files["work/b"]["sha256"]


@pytest.mark.slow
def test_a_word_that_names_a_file_which_the_command_will_not_see_is_named(own, tmp_path, capsys):
    write(own.root, {"out/first.pt": "weights"})
    job = Job(own, tmp_path / "node")
    words = [
        "python",
        "train.py",
        "--init=no.pt",
        "out/first.pt",
        "data/chars/train.bin",
        "x" * 999,
    ]
    name_unseen_words(own, job.code, job.frozen, words)
    said = capsys.readouterr().err
    assert "the command does not see out/first.pt: ignored by '/out'" in said
    assert f"type the whole path: {own.root}/out/first.pt" in said
    assert said.count("does not see") == 1


HYDRA = """
import os
from pathlib import Path
import hydra

@hydra.main(version_base=None, config_path="settings", config_name="main")
def main(config):
    Path("weights.pt").write_text(str(config.lr))
    print("width", __import__("model").WIDTH)

main()
"""


@pytest.mark.release
@pytest.mark.slow
def test_the_outputs_of_a_hydra_program_stay_in_the_run(own_project):
    write(own_project, {"app.py": HYDRA, "model.py": "WIDTH = 3\n"})
    write(own_project, {"settings/main.yaml": "lr: 1\nhydra: {job: {chdir: true}}\n"})
    words = ["lab", "submit", "site=workstation", "job.gpus=0", "--json", "--"]
    program = ["python", "app.py", "-m", "lr=1,2"]
    sent = json_of(call_lab(own_project, *words, *program))
    run_dir = Path(sent["run_dir"])
    wait_until((run_dir / "summary.json").exists, "the end", 240)
    assert json.loads((run_dir / "summary.json").read_text())["status"] == "finished"
    assert sorted(path.read_text() for path in run_dir.glob("work/multirun/*/*/*/weights.pt")) == [
        "1",
        "2",
    ]
    shown = call_lab(own_project, "lab", "runs", "show", sent["run_id"])
    assert "wrote       work/multirun/" in shown


@pytest.mark.slow
def test_a_rank_that_waits_in_vain_for_the_first_says_so(own, monkeypatch):
    run = create(own)
    monkeypatch.setenv(env.NEXT_ATTEMPT, "1")
    monkeypatch.setattr(command_attempt, "AWAIT_S", 0)
    with pytest.raises(Failed, match=r"not begun its attempt within 0 s. Its log: lab logs"):
        command_attempt.join_command(own, run)


@pytest.mark.slow
def test_a_command_that_cannot_begin_leaves_its_run_as_it_was(own, monkeypatch):
    run = create(own)

    def no_room(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(command_attempt, "fill", no_room)
    monkeypatch.setattr(command_attempt.WorkDirectory, "of", lambda *_: object())
    with pytest.raises(Failed, match=r"the command cannot begin in .*Then lab submit again"):
        command_attempt.CommandAttempt.begin(own, run, ["true"])
    assert not list(run.dir.glob("attempts/*/start.json"))
