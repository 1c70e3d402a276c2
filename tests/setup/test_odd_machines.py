"""Commands on a machine whose user has no name and no home, and on a terminal without some letters."""

import os
import subprocess
import sys

import pytest

NOBODY = """
import os, pwd, sys

def unknown(*_):
    raise KeyError("getpwuid(): uid not found: 12345")

pwd.getpwuid = unknown
for name in ("HOME", "LOGNAME", "USER", "LNAME", "USERNAME"):
    os.environ.pop(name, None)
from labrig.cli import main
for command in sys.argv[1:]:
    print("CODE", main(command.split()), flush=True)
"""
COMMANDS = (
    "runs list",
    "trials tree",
    "config trial=baseline",
    "submit trial=baseline --dry-run --no-batch",
    "site show workstation",
    "completion bash",
    "--help",
)


def output_of(project, program, **variables):
    done = subprocess.run(
        [sys.executable, "-c", program, *COMMANDS],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(project / "src")} | variables,
        capture_output=True,
        timeout=300,
    )
    output = (done.stdout + done.stderr).decode("latin-1")
    assert "Traceback" not in output, output
    return [line for line in output.splitlines() if line.startswith("CODE ")]


@pytest.mark.slow
def test_a_user_without_name_and_home(own_project):
    assert output_of(own_project, NOBODY) == ["CODE 0"] * len(COMMANDS)


@pytest.mark.slow
def test_a_terminal_without_some_letters(own_project):
    program = NOBODY.partition("pwd.getpwuid")[0] + NOBODY[NOBODY.index("from labrig") :]
    codes = output_of(own_project, program, PYTHONIOENCODING="latin-1")
    assert codes == ["CODE 0"] * len(COMMANDS)


def test_the_setup_reads_paths_for_a_user_without_home(own_project):
    program = NOBODY.partition("from labrig")[0] + (
        "from labrig.project import Project\n"
        "from labrig.setup.environment import configured_path\n"
        "from labrig.setup.installer import pip_setting\n"
        "print('CODE', configured_path(Project.find(), 'environment'), pip_setting('nothing'))\n"
    )
    assert output_of(own_project, program) == [f"CODE {own_project}/.venv "]
