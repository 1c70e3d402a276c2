"""python: wheelhouse: each node makes the environment from the centre's wheels, in the versions that were recorded."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from job_scripts import job_script
from programs import need

ENV_TXT = """\
centre==1.2+local
edited==3.0 @ file:///home/ann/edited
labrig==0.1
pip==99.0
"""
# as the centre's: the last word is the directory
VIRTUALENV = f'#!/bin/sh\nexec {sys.executable} -m venv "$2"\n'


def write_wheel(folder, name, version):
    """A wheel with one module, which says its version."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def node(tmp_path, monkeypatch):
    """node(): prepares a node as the script of the Alliance does; its finished process."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    tools, wheels, run, disk = (tmp_path / name for name in ("tools", "wheels", "run", "disk"))
    for folder in (tools, wheels, run, disk):
        folder.mkdir()
    (tools / "virtualenv").write_text(VIRTUALENV)
    (tools / "virtualenv").chmod(0o755)
    for version in ("1.1+local", "1.2+local", "1.3+local"):
        write_wheel(wheels, "centre", version)
    (run / "env.txt").write_text(ENV_TXT)
    frozen = tmp_path / "frozen/labrig-frozen/labrig"
    frozen.mkdir(parents=True)
    (frozen / "__init__.py").write_text("")
    (frozen / "__main__.py").write_text(
        "import centre, sys\nprint(centre.VERSION, *sys.argv[1:])\n"
    )
    subprocess.run(
        ["tar", "-cf", tmp_path / "code.tar", "-C", tmp_path / "frozen", "."], check=True
    )
    text = job_script("alliance")
    for line in text.splitlines():
        if line.startswith("RUNS=("):
            text = text.replace(line, f"RUNS=({run})")
        if line.startswith("CODE="):
            text = text.replace(line, f"CODE={tmp_path}/code.tar")
        if "module" in line:
            text = text.replace(line, ":")
    script = tmp_path / "job.sh"
    script.write_text(text)
    variables = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "SLURM_TMPDIR": str(disk),
        "SLURM_JOB_ID": "7",
        "PIP_FIND_LINKS": str(wheels),
    }

    def prepare():
        done = subprocess.run(
            ["bash", script, "prepare"], env=variables, capture_output=True, text=True, timeout=300
        )
        made = list(disk.glob("lab-7-*/env"))
        return done, made[0] if made else None

    prepare.run = run
    return prepare


@pytest.mark.release
@pytest.mark.slow
def test_a_node_installs_what_was_recorded_and_has_lab(node):
    need("tar")
    done, environment = node()
    assert done.returncode == 0, done.stderr
    lab = Path(environment, "bin/lab")
    for command in ([lab, "a b"], [environment / "bin/python", "-m", "labrig", "a b"]):
        said = subprocess.run(command, env={}, capture_output=True, text=True, check=True).stdout
        assert said == "1.2+local a b\n"


@pytest.mark.release
@pytest.mark.slow
def test_a_version_that_the_centre_has_not_ends_the_job_with_its_name(node):
    (node.run / "env.txt").write_text("centre==9.9\n")
    done, _ = node()
    assert done.returncode != 0
    assert "centre==9.9" in done.stderr
