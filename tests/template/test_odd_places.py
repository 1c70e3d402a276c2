"""Where people make projects: strange paths, strict masks, no home, no git, a directory with files in it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from project_files import check_project

BIN = Path(sys.prefix) / "bin"


def run(*words, cwd, variables=None, **options):
    """A command with nothing but the given variables, and PATH; its result with output as text."""
    environment = {"PATH": os.environ["PATH"]} | (variables or {})
    return subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        stdin=subprocess.DEVNULL,
        timeout=120,
        **options,
    )


def make_project(template, folder, **options):
    """`copier copy --defaults`, as it is typed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    command = [BIN / "copier", "copy", "--defaults", template, folder.name]
    return run(*command, cwd=folder.parent, **options)


def shows_settings(folder, **options):
    """Whether `lab config` works there, with the same restrictions."""
    command = [BIN / "python", "-m", "labrig", "config", "trial=baseline"]
    done = run(*command, cwd=folder, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return "trial: baseline" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["it's Größe 日本語 $HOME; a & (c) #1", ".hidden/-x"])
def test_a_path_that_a_shell_would_misread(template, tmp_path, name):
    folder = tmp_path / name / "my project"
    done = make_project(template, folder)
    assert done.returncode == 0, done.stderr
    assert check_project(folder) == "my_project"
    assert shows_settings(folder)


@pytest.mark.slow
def test_a_user_without_name_and_language(template, tmp_path):
    """In a container, on a node: an id that has no entry, LC_ALL=C, files for the owner alone.

    copier itself wants HOME, and says so; `lab` works without it.
    """
    program = (
        "import os, pwd, sys\n"
        "def unknown(*_): raise KeyError('getpwuid(): uid not found: 54321')\n"
        "pwd.getpwuid = unknown\n"
        "os.umask(0o077)\n"
        "from copier._cli import CopierApp\n"
        "CopierApp.run()\n"
    )
    command = [BIN / "python", "-c", program, "copy", "--defaults", template, "nets"]
    done = run(*command, cwd=tmp_path, variables={"LC_ALL": "C", "HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert check_project(tmp_path / "nets") == "nets"
    assert shows_settings(tmp_path / "nets", variables={"LC_ALL": "C"}, umask=0o077)


@pytest.mark.slow
def test_without_git(template, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("make", "sh"):
        (tools / name).symlink_to(shutil.which(name))
    variables = {"PATH": str(tools), "HOME": str(tmp_path)}
    folder = tmp_path / "nets"
    done = make_project(template, folder, variables=variables)
    assert done.returncode == 0, done.stderr
    assert "This project cannot be updated: the template was read without git." in done.stderr
    assert shows_settings(folder, variables=variables)


@pytest.mark.slow
def test_a_directory_with_files_in_it_is_not_overwritten(template, tmp_path):
    folder = tmp_path / "nets"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("# mine\n")
    (folder / "README.md").write_text("mine\n")
    done = make_project(template, folder)
    assert done.returncode == 1
    assert "Consider using `--overwrite`" in done.stderr
    assert (folder / "pyproject.toml").read_text() == "# mine\n"
    assert (folder / "README.md").read_text() == "mine\n"


@pytest.mark.slow
@pytest.mark.traceback("copier shows it")
def test_a_place_where_nothing_can_be_written(template):
    done = make_project(template, Path("/proc/sys/nets"))
    assert done.returncode == 1
    assert "/proc/sys/nets" in done.stderr.splitlines()[-1]
