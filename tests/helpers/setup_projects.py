"""Projects to set up: without their heavy packages, where only the way to an environment is of interest."""

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import pytest
from labrig.record.freeze.wheel import write_wheel
from projects import ROOT, copy_project

UV = Path(sys.prefix) / "bin/uv"
INDEX_ONLY = {"PIP_FIND_LINKS": "", "UV_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}


@cache
def wheel():
    """The wheel of labrig."""
    folder = tempfile.mkdtemp(prefix="labrig-wheel-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return write_wheel(Path(folder))


@pytest.fixture
def fresh(tmp_path):
    """A project as it was made, with labrig from its wheel."""
    return pin(copy_project(tmp_path / "myproj"), wheel().as_uri(), extras="[train]")


@pytest.fixture
def bare(tmp_path):
    """A project that pins the light labrig and no heavy packages: of interest is only the way to an environment."""
    return make_light(copy_project(tmp_path / "myproj"), wheel().as_uri())


@pytest.fixture
def light(bare):
    """The same, in which tools/bootstrap.py has done its part already."""
    made = bootstrapped()
    copy = shutil.copytree(made, bare / ".venv", symlinks=True)
    for file in (copy / "bin").iterdir():
        if not file.is_symlink() and file.is_file():
            file.write_bytes(file.read_bytes().replace(bytes(made), bytes(copy)))
    return bare


@cache
def bootstrapped():
    """An environment with labrig alone, as tools/bootstrap.py leaves it."""
    folder = Path(tempfile.mkdtemp(prefix="labrig-bootstrapped-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    project = make_light(copy_project(folder / "myproj"), wheel().as_uri())
    variables = os.environ | {"PATH": f"{UV.parent}{os.pathsep}{os.environ['PATH']}"}
    command = [Path(sys.base_prefix) / "bin/python3", "tools/bootstrap.py", "--version"]
    subprocess.run(command, cwd=project, env=variables, check=True, capture_output=True)
    return project / ".venv"


def pin(folder, library, extras=""):
    """Has a project pin `library`, such as file:///wheel."""
    path = folder / "pyproject.toml"
    line = f'"labrig{extras} @ {library}"'
    path.write_text(re.sub(r'"labrig(\[\w*\])? @ [^"]*"', line, path.read_text()))
    return folder


def make_light(folder, library, tools=("pre-commit",)):
    """Has a project pin `library`, and take nothing else that is large."""
    path = pin(folder, library) / "pyproject.toml"
    text = path.read_text().replace('    "scikit-learn>=1.5",\n', "")
    listed = "".join(f'    "{tool}",\n' for tool in tools)
    tools_of_project = re.compile(r"dev = \[\n.*?\]", re.DOTALL)
    path.write_text(tools_of_project.sub(f"dev = [\n{listed}]", text))
    return folder


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


def write_stand_in(folder, version, name="torch", needs=()):
    """A wheel of the stand-in for torch, or of a package that needs one."""
    folder.mkdir(parents=True, exist_ok=True)
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {line}\n" for line in needs)
    wheel = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", f"__version__ = {version!r}\n")
        file.writestr(f"{info}/METADATA", metadata)
        file.writestr(f"{info}/WHEEL", wheel)
        file.writestr(f"{info}/RECORD", "")


def unpinned(folder):
    """The constraints without torch, of which only the stand-in is there."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = folder / "pins.txt"
    pins.write_text("\n".join(line for line in lines if not line.startswith("torch")))
    return {"PIP_CONSTRAINT": str(pins), "UV_CONSTRAINT": str(pins)}
