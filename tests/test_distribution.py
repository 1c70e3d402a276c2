"""What a paper's readers install: a wheel, a source distribution, or the project from its git address."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
from conftest import PROJECT
from repositories import commit

UV = f"{sys.prefix}/bin/uv"
CARRIED = {  # besides the package's Python files
    "myproj-0.1.0.dist-info/licenses/LICENSE",
    "myproj-0.1.0.dist-info/licenses/CITATION.cff",
    "myproj/conf/config.yaml",
    "myproj/conf/data/digits.yaml",
    "myproj/trials/baseline/config.yaml",
    "myproj/lab/conf/lab.yaml",
    "myproj/lab/cluster/job/job.sh",
}
PROGRAM = """
import myproj, myproj.data, myproj.lab.cli, myproj.trials.baseline.model as model
from importlib.metadata import metadata
assert myproj.__file__.startswith({place!r}), myproj.__file__
print(metadata("myproj")["License-Expression"], model.__name__)
"""


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def imported(source, place):
    """Installs `source` into an empty directory, and imports the package from there."""
    environment = os.environ | {"GIT_ALLOW_PROTOCOL": "file"}
    words = ("--no-deps", "--no-build-isolation", "--python", sys.executable, "--target", place)
    run(UV, "pip", "install", "--quiet", *words, source, env=environment)
    environment = os.environ | {"PYTHONPATH": str(place)}
    program = PROGRAM.format(place=str(place))
    assert run(sys.executable, "-c", program, cwd=place, env=environment) == (
        "MIT myproj.trials.baseline.model\n"
    )


@pytest.mark.release
def test_a_project_is_installed_from_a_wheel_a_source_distribution_and_git(tmp_path):
    folder = shutil.copytree(PROJECT, tmp_path / "myproj")
    commit(folder, "Start")
    words = ("--no-build-isolation", "--python", sys.executable, "--out-dir", tmp_path / "dist")
    run(UV, "build", "--quiet", *words, cwd=folder)  # the wheel from the source distribution
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    (sdist,) = (tmp_path / "dist").glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        assert set(archive.namelist()) >= CARRIED
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= {"LICENSE", "CITATION.cff", "README.md", "pyproject.toml"}
    assert not any(name.startswith((".venv", "runs/", "data/")) for name in names)
    imported(wheel, tmp_path / "from_wheel")
    imported(sdist, tmp_path / "from_sdist")
    (folder / "CITATION.cff").unlink()  # a user may
    commit(folder, "No citation")
    imported(f"git+file://{folder}", tmp_path / "from_git")
