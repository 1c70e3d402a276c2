"""Projects of the tests: copies of tests/project, which is what the template renders, with a real `lab`."""

import atexit
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from repositories import commit
from warm import WarmProcess, same_libraries

HELPERS = Path(__file__).parent
ROOT = HELPERS.parents[1]
LIBRARY = ROOT / "src/labrig"
PROJECT = ROOT / "tests/project"  # tests/template holds it to the template
SOURCE = PROJECT / "src"
IMPORT_TORCH = ("train", "resume", "eval", "predict", "check", "bench", "data")  # commands that do


def copy_project(folder):
    """A copy of the project of the default answers."""
    ignored = shutil.ignore_patterns("__pycache__", ".*_cache")
    return shutil.copytree(PROJECT, folder, ignore=ignored, dirs_exist_ok=True)


def copy_of(project, folder):
    """A copy of the folder of a project with all that it holds, its links as links."""
    return shutil.copytree(project, folder, symlinks=True)


def copy_library(folder):
    """A copy of labrig to change; `folder` goes to PYTHONPATH."""
    shutil.copytree(LIBRARY, folder / "labrig", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def work_on(project):
    """Has the code that runs in the process of a test work on `project`, from which it imports nothing."""
    from labrig import project as module

    module._entered[:] = [project]
    return project


def project_in(folder):
    """The project of the default answers, copied into `folder`, as the one that this process works on."""
    from labrig.project import Project

    copy_project(folder)
    return work_on(Project(folder, "myproj"))


def equip(folder):
    """What `make setup` would do, in a moment: git, a commit, and .venv as a link to this environment."""
    (folder / ".venv").symlink_to(sys.prefix)
    tools = tools_of(folder)
    tools.mkdir(exist_ok=True)
    (tools / "lab").symlink_to(Path(sys.prefix) / "bin/lab")
    commit(folder, "Start")
    return folder


def tools_of(folder):
    """The first directory of PATH for commands in a project; tests put stand-ins there."""
    return folder.parent / f"{folder.name}-bin"


def call(folder, *command, rc=0, timeout_s=300, cold=False, **variables):
    """Runs a command in a project and returns its output; any other exit code than `rc` fails the test.

    A `lab` command that imports torch is a fork of the warm process. With `cold` it starts as for a user.
    """
    environment = environment_of(folder, **variables)
    command = [str(word) for word in command]
    heavy = command[0] == "lab" and (
        " ".join(command[1:2]) in IMPORT_TORCH or command[1:3] == ["trials", "new"]
    )
    if heavy and not cold and same_libraries(environment):
        done = warm_process().start("labrig", command[1:], folder, environment)
        out, err = done.communicate(timeout=timeout_s)
    else:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        out, err = done.stdout, done.stderr
    assert done.returncode == rc, f"{command} gave {done.returncode}:\n{out}\n{err}"
    return out + err


def environment_of(folder, **variables):
    """The variables of a command in a project: these, those of its environment, and the others as they are."""
    path = os.pathsep.join(
        [str(tools_of(folder)), str(Path(sys.prefix) / "bin"), os.environ["PATH"]]
    )
    own = {"PATH": path, "PRE_COMMIT_HOME": str(folder.parent / "pre-commit")}
    return os.environ | own | variables


@cache
def warm_process():
    """One for each process that runs tests."""
    process = WarmProcess()
    atexit.register(process.close)
    return process
