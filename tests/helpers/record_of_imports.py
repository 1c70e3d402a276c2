"""A program that creates a run and imports modules, and what its record says of them."""

import json
import shutil
import subprocess
import sys

import pytest
from projects import environment_of, equip
from repositories import write

# Creates a run, imports modules between the freeze and the check, and perhaps later; the file of a
# program would be own code too.
PROGRAM = """
import sys
from importlib import import_module
from pathlib import Path
from labrig.errors import LabError
from labrig.project import Project
from labrig.record.freeze.imported import Policy
from labrig.record.write.create import RunRequest, create_run
from labrig.record.write.recording import record_attempt

between, modules, later, policy, elsewhere = sys.argv[1:]
project = Project(Path.cwd(), "myproj")
run = create_run(project, Path("runs").absolute(), RunRequest("baseline", "seed: 0\\n", [], sys.argv, 0))
places = Path(elsewhere).absolute()
exec(between)
try:
    with record_attempt(run, project, "warn", Policy(*policy.split()), elsewhere=[places]) as recording:
        for module in modules.split():
            import_module(module)
        recording.check_code()
        exec(later)
except LabError as error:
    print(f"lab: {error}", file=sys.stderr)
    sys.exit(error.exit_code)
"""


def run_program(
    folder,
    *,
    modules="myproj.extra",
    between="",
    later="",
    policy="refuse",
    elsewhere="runs",
    rc=0,
    **variables,
):
    """What the program printed."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, between, modules, later, policy, elsewhere],
        cwd=folder,
        env=environment_of(folder, **variables),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == rc, done.stdout + done.stderr
    return done.stdout + done.stderr


def lab(folder, *words, rc=0):
    done = subprocess.run(
        [sys.executable, "-m", "labrig", *words],
        cwd=folder,
        env=environment_of(folder),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == rc, done.stdout + done.stderr
    return done.stdout + done.stderr


def start_of(folder):
    """start.json of the only run."""
    (path,) = folder.glob("runs/*/*/attempts/1/start.json")
    return json.loads(path.read_text())


@pytest.fixture(scope="session")
def with_extra(project, tmp_path_factory):
    """A project with a module that imports nothing slow."""
    folder = shutil.copytree(project, tmp_path_factory.mktemp("ran") / "myproj")
    write(folder, {"src/myproj/extra.py": "VALUE = 1\n"})
    return equip(folder)
