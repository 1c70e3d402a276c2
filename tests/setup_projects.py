"""Projects to set up: without their heavy packages, where only the way through lab/setup is of interest."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

UV = Path(sys.prefix) / "bin/uv"
INDEX_ONLY = {"PIP_FIND_LINKS": "", "UV_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
LIGHT = ["pyyaml", "pre-commit", "pre-commit-hooks"]  # all that `lab --help` and the hooks need


@pytest.fixture
def fresh(project, tmp_path):
    return shutil.copytree(project, tmp_path / "myproj")


@pytest.fixture
def light(fresh):
    """A project without its heavy packages, where only the path through setup.py is of interest."""
    path = fresh / "pyproject.toml"
    text = path.read_text()
    for start, names in (("lab = [", LIGHT), ("lab-dev = [", LIGHT), ('    "scikit-learn', [])):
        begin = text.index(start)
        end = text.index("]", begin)
        text = text[:begin] + (f"{start}{str(names)[1:-1]}" if names else "") + text[end:]
    path.write_text(text)
    return fresh


def setup(folder, uv=None, rc=0, target="setup", **variables):
    """`make setup` or another target, with or without uv on PATH, and its output. The pins: those of `make demo`."""
    tools = folder.parent / "tools"
    shutil.rmtree(tools, ignore_errors=True)
    tools.mkdir()
    for name in ("git", "make", "sh"):
        (tools / name).symlink_to(shutil.which(name))
    if uv:
        (tools / "uv").symlink_to(uv)
    pins = str(ROOT / "constraints.txt")
    environment = os.environ | {
        "PIP_CONSTRAINT": pins,
        "UV_CONSTRAINT": pins,
        "TORCH": "",
        "VIRTUAL_ENV": "",
    }
    environment |= {
        "PATH": str(tools),
        "PYTHON": str(Path(sys.base_prefix) / "bin/python3"),
    } | variables
    done = subprocess.run(
        ["make", target],
        cwd=folder,
        env={name: value for name, value in environment.items() if value},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == rc, done.stdout + done.stderr
    return done.stdout + done.stderr


def output_of(folder, *command):
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


def packages(folder):
    """When each installed package was written, in nanoseconds."""
    folders = (folder / ".venv/lib").glob("python3*/site-packages/*.dist-info")
    return {path.name: path.stat().st_mtime_ns for path in folders}


def logging_uv(folder, *, without=""):
    """A uv that writes what it is called with to a file, and fails when called with the word `without`."""
    log = folder / "uv-calls"
    uv = folder / "logging-uv"
    refuse = f'case "$*" in *{without}*) exit 1;; esac\n' if without else ""
    uv.write_text(f'#!/bin/sh\necho "$@" >> {log}\n{refuse}exec {UV} "$@"\n')
    uv.chmod(0o755)
    return uv, log
