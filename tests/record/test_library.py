"""The library is frozen with the code of a run: no later edit, upgrade or removal of it reaches that run."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from labrig.errors import Failed, LabError
from labrig.record.freeze import wheel
from labrig.record.freeze.frozen import unpack_library
from labrig.record.freeze.library import read_library
from labrig.record.read.run import Run
from projects import ROOT, SOURCE, call, copy_library, copy_project, environment_of, equip
from trainings import SHORT

BITWISE = "bitwise: metrics are identical"
TRAINS = "labrig/training/parts/trainer.py"  # imported by every training, after the freeze


def mark(library, word):
    """Has the library of today print `word` when it trains."""
    with open(library / TRAINS, "a", encoding="utf-8") as file:
        file.write(f"\nprint('this is {word}')\n")


def upgrade(library, version):
    """What `pip install` of another version does: other files, another version."""
    (library / "labrig/version.py").write_text(f'__version__ = "{version}"\n')
    mark(library, version)


class Checkout:
    """A project, and the labrig that its `lab` imports."""

    def __init__(self, folder):
        self.dir = equip(copy_project(folder / "myproj"))
        self.library = copy_library(folder / "library")
        call(self.dir, "lab", "data", "pack", "digits")

    def lab(self, *words, **more):
        return call(self.dir, "lab", *words, PYTHONPATH=str(self.library), **more)

    def runs(self):
        return [Run.open(path) for path in sorted(self.dir.glob("runs/baseline/2*"))]


def test_a_run_without_a_recorded_library_says_so(tmp_path):
    with pytest.raises(LabError, match="the library of this run was not recorded"):
        unpack_library({"submodules": []}, tmp_path, tmp_path / "code")


def test_a_library_that_was_never_installed_makes_no_wheel(tmp_path, monkeypatch):
    monkeypatch.setattr(wheel, "installation_facts", list)
    with pytest.raises(Failed, match=r"is not installed\. Install it: pip install"):
        wheel.write_wheel(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def own(tmp_path):
    return Checkout(tmp_path)


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory):
    """A project with a run of labrig ONE, whose library was upgraded since."""
    own = Checkout(tmp_path_factory.mktemp("upgraded"))
    upgrade(own.library, "0.4.1")
    assert "this is 0.4.1" in own.lab("train", "trial=baseline", *SHORT)
    upgrade(own.library, "0.5.0")
    return own


def identity(library):
    """The commit of the library in a directory, asked of itself."""
    program = "from labrig.record.freeze.library import read_library; print(read_library().commit)"
    variables = environment_of(library, PYTHONPATH=str(library))
    done = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.slow
def test_the_id_is_that_of_the_content_wherever_it_lies(tmp_path):
    one, other = copy_library(tmp_path / "one"), copy_library(tmp_path / "somewhere/else")
    first = identity(one)
    assert identity(other) == first
    (other / "labrig/__pycache__").mkdir(exist_ok=True)
    (other / "labrig/__pycache__/cli.cpython-311.pyc").write_bytes(b"x")
    assert identity(other) == first
    mark(other, "other")
    assert identity(other) != first


@pytest.mark.release
@pytest.mark.slow
def test_a_run_stores_the_library_once_for_each_content(own):
    own.lab("train", "trial=baseline", *SHORT)
    own.lab("train", "trial=baseline", "seed=1", *SHORT)
    mark(own.library, "edited")
    own.lab("train", "trial=baseline", "seed=2", *SHORT)
    bundles = [run.dir / "code.labrig-frozen.gz.bundle" for run in own.runs()]
    stored = sorted(own.dir.glob("runs/.code/labrig-frozen/*.bundle"))
    assert len(stored) == 2
    inodes = [bundle.stat().st_ino for bundle in bundles]
    assert inodes[0] == inodes[1] != inodes[2]
    assert {path.stat().st_ino for path in stored} == set(inodes)
    assert all(bundle.stat().st_size < 1_000_000 for bundle in bundles)
    for run in own.runs():
        own.lab("runs", "verify", run.id)


@pytest.mark.slow
def test_an_edit_between_freeze_and_import_is_refused(own):
    """The modules that this process imports later would be others than those that were frozen."""
    edits = f"open({str(own.library / TRAINS)!r}, 'a').write('# edited while torch is imported')"
    (own.dir / "src/myproj/trials/baseline/early.py").write_text(f"{edits}\n")
    model = own.dir / "src/myproj/trials/baseline/model.py"
    model.write_text(f"from . import early  # noqa\n{model.read_text()}")
    said = own.lab("train", "trial=baseline", *SHORT, rc=4)
    assert re.search(r"labrig 0\S+ \(\w{12}\): it was labrig 0\S+ \(\w{12}\)", said)
    (run,) = own.runs()
    assert json.loads((run.dir / "summary.json").read_text())["status"] == "failed"


@pytest.mark.slow
def test_resume_continues_with_the_library_that_the_run_began_with(upgraded):
    (run,) = upgraded.runs()[:1]
    said = upgraded.lab("resume", run.id, "trainer.max_epochs=3")
    assert (
        f"continues with labrig 0.4.1 ({run.record['code']['submodules'][-1]['commit'][:12]})"
        in said
    )
    assert "installed is labrig 0.5.0" in said
    assert "this is 0.4.1" in said
    assert "this is 0.5.0" not in said
    starts = [
        json.loads(path.read_text()) for path in sorted(run.dir.glob("attempts/*/start.json"))
    ]
    assert all(start["code"]["complete"] for start in starts)


@pytest.mark.release
@pytest.mark.slow
def test_a_repetition_runs_the_library_of_its_run(upgraded):
    run = upgraded.runs()[0]
    said = upgraded.lab("runs", "reproduce", run.id, "--check")
    assert "this is 0.4.1" in said
    assert "this is 0.5.0" not in said
    assert BITWISE in said


@pytest.mark.release
@pytest.mark.slow
def test_two_versions_are_a_line_of_their_own(upgraded):
    upgraded.lab("train", "trial=baseline", *SHORT)
    first, second = upgraded.runs()[0], upgraded.runs()[-1]
    said = upgraded.lab("runs", "diff", first.id, second.id, rc=1)
    assert "labrig 0.4.1 -> 0.5.0" in said
    assert "labrig/" not in said, "no file of it is listed among those of the project"
    assert "labrig 0.4.1 (" in upgraded.lab("runs", "show", first.id)
    tree = upgraded.lab("trials", "tree")
    assert "changed" not in tree


@pytest.mark.slow
def test_a_damaged_library_is_found(upgraded):
    run = upgraded.runs()[0]
    bundle = run.dir / "code.labrig-frozen.gz.bundle"
    content = bundle.read_bytes()
    bundle.unlink()
    try:
        bundle.write_bytes(content[: len(content) // 2])
        assert "labrig-frozen" in upgraded.lab("runs", "verify", run.id, rc=1)
    finally:
        bundle.unlink()
        bundle.write_bytes(content)


def wait_for(run_dirs, timeout_s=240):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if all((run_dir / "summary.json").exists() for run_dir in run_dirs):
            return
        time.sleep(0.2)
    logs = [
        (run_dir / "job.log").read_text() for run_dir in run_dirs if (run_dir / "job.log").exists()
    ]
    raise AssertionError("\n".join(logs))


@pytest.mark.release
@pytest.mark.slow
def test_a_job_runs_the_library_that_submitted_it(own):
    """Of an array the second run waits for the first; the library is upgraded meanwhile, and the installed one
    is another all along."""
    mark(own.library, "the library that submitted")
    words = ("trial=baseline", "seed=0,1", "site=workstation", "job.gpus=0", "--no-batch", "--json")
    sent = json.loads(own.lab("submit", *words, *SHORT).splitlines()[-1])
    run_dirs = [Path(row["run_dir"]) for row in (sent if isinstance(sent, list) else [sent])]
    upgrade(own.library, "9.9.9")
    wait_for(run_dirs)
    for run_dir in run_dirs:
        log = (run_dir / "job.log").read_text()
        assert "this is the library that submitted" in log
        assert "9.9.9" not in log
        start = json.loads((run_dir / "attempts/1/start.json").read_text())
        assert start["code"]["complete"]


def environment_without_labrig(folder):
    """An environment with everything that this one has, except labrig."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (own_packages,) = folder.glob("lib/python*/site-packages")
    here = Path(sys.prefix) / own_packages.relative_to(folder)
    for entry in here.iterdir():
        if "labrig" not in entry.name and not (own_packages / entry.name).exists():
            (own_packages / entry.name).symlink_to(entry)
    program = "import importlib.util as util; print(util.find_spec('torch') and not util.find_spec('labrig'))"
    assert (
        subprocess.check_output([folder / "bin/python", "-c", program], text=True).strip() == "True"
    )
    return folder


@pytest.mark.release
@pytest.mark.slow
def test_a_machine_without_labrig_runs_a_job_and_repeats_it(tmp_path):
    own = Checkout(tmp_path)
    bare = environment_without_labrig(tmp_path / "bare")
    python = bare / "bin/python"
    (own.dir / ".venv").unlink()
    (own.dir / ".venv").symlink_to(bare)
    words = ("trial=baseline", "site=workstation", "job.gpus=0", "--no-batch", "--json", *SHORT)
    path = {"PYTHONPATH": str(own.library)}
    sent = json.loads(
        call(own.dir, python, "-m", "labrig", "submit", *words, **path).splitlines()[-1]
    )
    run_dir = Path(sent["run_dir"])
    wait_for([run_dir])
    assert json.loads((run_dir / "summary.json").read_text())["status"] == "finished"

    unpacked = tmp_path / "code"
    said = call(own.dir, "lab", "runs", "code", run_dir.name, unpacked)
    assert "labrig-frozen" in os.listdir(unpacked), said
    here = {"PYTHONPATH": f"{unpacked}/src:{unpacked}/labrig-frozen", "PYTHONSAFEPATH": "1"}
    again = call(
        own.dir, python, "-m", "labrig", "runs", "reproduce", run_dir.name, "--check", **here
    )
    assert BITWISE in again


def test_freezing_the_library_costs_little():
    """The bound is measured in benchmarks/record.py; here only that nothing is read twice."""
    read_library()
    opened = []

    def hook(event, args):
        if event == "open" and str(ROOT / "src/labrig") in str(args[0]):
            opened.append(args[0])

    sys.addaudithook(hook)
    assert SOURCE.exists()
    read_library()
    assert opened == []
