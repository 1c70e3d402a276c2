"""What a paper's readers install: a wheel, a source distribution, or the project from its git address."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
from packaging.requirements import Requirement
from projects import PROJECT
from rendering import SMALL_LIBRARY, copy_template, release, render_template
from repositories import commit, git, write

UV = f"{sys.prefix}/bin/uv"
CARRIED = {  # besides the package's Python files
    "myproj-0.1.0.dist-info/licenses/LICENSE",
    "myproj-0.1.0.dist-info/licenses/CITATION.cff",
    "myproj/conf/config.yaml",
    "myproj/conf/data/digits.yaml",
    "myproj/trials/baseline/config.yaml",
}
PROGRAM = """
import myproj, myproj.data, labrig, myproj.trials.baseline.model as model
from importlib.metadata import metadata
assert myproj.__file__.startswith({place!r}), myproj.__file__
print(metadata("myproj")["License-Expression"], model.__name__)
"""
PACKAGES = '"scikit-learn>=1.5",'  # all that a project needs besides labrig


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def install(source, place, *options):
    """Installs `source` into an empty directory."""
    environment = os.environ | {"GIT_ALLOW_PROTOCOL": "file", "UV_CACHE_DIR": f"{place}.cache"}
    words = ("--no-build-isolation", "--python", sys.executable, "--target", place, *options)
    run(UV, "pip", "install", "--quiet", *words, source, env=environment)


def imported(source, place):
    """Installs `source` into an empty directory, and imports the package from there."""
    install(source, place, "--no-deps")
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
        names = set(archive.namelist())
        assert names >= CARRIED
        assert {name.partition("/")[0] for name in names} == {"myproj", "myproj-0.1.0.dist-info"}
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= {"LICENSE", "CITATION.cff", "README.md", "pyproject.toml"}
    assert not any(name.startswith((".venv", "runs/", "data/")) for name in names)
    imported(wheel, tmp_path / "from_wheel")
    imported(sdist, tmp_path / "from_sdist")
    (folder / "CITATION.cff").unlink()  # a user may
    commit(folder, "No citation")
    imported(f"git+file://{folder}", tmp_path / "from_git")


@pytest.mark.slow
def test_who_installs_a_project_gets_the_library_of_its_pin(tmp_path):
    """With a small one in place of labrig, and no package besides."""
    template = copy_template(tmp_path / "template")
    write(template, SMALL_LIBRARY)
    release(template, "0.1.0")
    folder = render_template(template, tmp_path / "myproj")
    pyproject = (folder / "pyproject.toml").read_text(encoding="utf-8")
    assert PACKAGES in pyproject
    write(folder, {"pyproject.toml": pyproject.replace(PACKAGES, "")})
    write(template, {"src/labrig/__init__.py": "STATE = 'later'\n"})
    release(template, "0.2.0")
    install(folder, tmp_path / "installed", "--no-index")
    assert (tmp_path / "installed/myproj/train.py").exists()
    library = (tmp_path / "installed/labrig/__init__.py").read_text(encoding="utf-8")
    assert library == SMALL_LIBRARY["src/labrig/__init__.py"]
    (metadata,) = (tmp_path / "installed").glob("myproj-*.dist-info/METADATA")
    texts = re.findall(r"^Requires-Dist: (.*)$", metadata.read_text("utf-8"), re.M)
    requirements = {one.name: one for one in map(Requirement, texts)}
    assert set(requirements) == {"labrig", "myproj"}
    assert requirements["myproj"].extras == {"lab"}
    assert requirements["labrig"].extras == {"train"}
    address = f"git+file://localhost{template}"
    assert requirements["labrig"].url == f"{address}@{git(template, 'rev-parse', '0.1.0')}"
