"""Where `make setup` puts packages and caches, the lock that pip reads, and the Python of a centre as a base."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from repositories import git
from setup_projects import INDEX_ONLY, UV, output_of, packages, setup, unpinned, write_stand_in
from small_disks import mounted, needs_root

TESTS_OF_PROJECT_S = 600


def configure(folder, **paths):
    """Writes `paths` into the project's configuration."""
    path = next(folder.glob("src/*/conf/config.yaml"))
    lines = "".join(f"  {key}: {value}\n" for key, value in paths.items())
    path.write_text(f"paths:\n{lines}{path.read_text()}")


def versions(folder):
    return sorted(
        name
        for name in packages(folder)
        if not name.startswith(("pip-", "setuptools-", "wheel-", "myproj-"))
    )


@pytest.fixture
def small_home(tmp_path):
    """Variables with a HOME of 2 MB, and with none of this machine's caches."""
    with mounted(tmp_path / "home", "size=2m") as home:
        pip_settings = Path.home() / ".config/pip"
        if pip_settings.exists():
            shutil.copytree(pip_settings, home / ".config/pip")
        unset = dict.fromkeys(
            ("UV_CACHE_DIR", "PIP_CACHE_DIR", "XDG_CACHE_HOME", "PRE_COMMIT_HOME", "LAB_CACHES"), ""
        )
        yield {"HOME": str(home), "WORK": str(tmp_path / "work"), **unset}


@needs_root
@pytest.mark.release
@pytest.mark.slow
def test_packages_fit_where_home_is_small_and_the_shell_follows(bare, small_home):
    configure(bare, environment="$WORK/env", caches="$WORK/caches")
    setup(bare, UV, **INDEX_ONLY, **small_home)
    work = Path(small_home["WORK"])
    # before the settings can be read: labrig and four small packages
    cache_of_pip = Path(small_home["HOME"]) / ".cache/pip"
    assert (bare / ".venv").readlink() == work / "env"
    assert list((work / "caches/uv").iterdir())
    written = [
        path
        for path in Path(small_home["HOME"]).rglob("*")
        if path.is_file() and ".config" not in path.parts and not path.is_relative_to(cache_of_pip)
    ]
    assert written == []
    shell = ". .venv/bin/activate && echo $PIP_CACHE_DIR:$HF_HOME"
    assert output_of(bare, "sh", "-c", shell) == f"{work}/caches/pip:{work}/caches/huggingface"
    lock = (bare / "requirements.lock").read_text()
    assert "--hash=sha256:" in lock
    assert "myproj" not in lock
    assert "requirements.lock" in output_of(bare, "git", "ls-files")


@needs_root
@pytest.mark.release
def test_pip_rebuilds_the_environment_from_the_lock_with_hashes(bare, small_home):
    configure(bare, environment="$WORK/env", caches="$WORK/caches")
    setup(bare, UV, **INDEX_ONLY, **small_home)
    locked = versions(bare)
    shutil.rmtree(Path(small_home["WORK"]) / "env")
    assert "hashes are those of requirements.lock" in setup(bare, **INDEX_ONLY, **small_home)
    assert versions(bare) == locked
    assert "lab train" in output_of(bare, ".venv/bin/lab", "--help")
    assert "up to date" in setup(bare, **INDEX_ONLY, **small_home)

    lock = bare / "requirements.lock"
    lock.write_text(re.sub(r"sha256:\w{4}", "sha256:0000", lock.read_text()))
    shutil.rmtree(Path(small_home["WORK"]) / "env")
    assert "DO NOT MATCH THE HASHES" in setup(bare, rc=2, **INDEX_ONLY, **small_home)


@pytest.mark.release
@pytest.mark.slow
def test_an_added_package_is_in_both_locks(light):
    setup(light, UV, **INDEX_ONLY)
    setup(light, UV, target="add", PACKAGE="iniconfig", **INDEX_ONLY)
    for name in ("uv.lock", "requirements.lock"):
        assert "iniconfig" in (light / name).read_text()
    before = (light / "requirements.lock").read_text()
    setup(light, UV, rc=2, target="add", PACKAGE="no-such-package-anywhere-x", **INDEX_ONLY)
    assert (light / "requirements.lock").read_text() == before


@pytest.mark.release
@pytest.mark.slow
def test_a_disk_with_little_room_is_reported(light, tmp_path):
    with mounted(tmp_path / "disk", "size=200m") as disk:
        configure(light, environment=disk / "env")
        assert f"the disk of {disk}/env has 0.2 GB free" in setup(light, UV)
        shutil.rmtree(disk / "env")


@pytest.fixture
def centre(tmp_path):
    """centre(version): a Python of its own, which is no environment, and has torch of that version."""
    base = Path(sys.base_prefix)
    library = Path(sysconfig.get_paths()["stdlib"])
    packages_of_centre = tmp_path / "centre" / library.relative_to(base) / "site-packages"
    packages_of_centre.mkdir(parents=True)
    for path in library.iterdir():
        if path.name != "site-packages":
            (packages_of_centre.parent / path.name).symlink_to(path)
    (tmp_path / "centre/bin").mkdir()
    python = tmp_path / "centre/bin/python3"
    shutil.copy(Path(base / "bin/python3").resolve(), python)

    def with_torch(version):
        write_stand_in(tmp_path / "wheels", version)
        shutil.unpack_archive(
            tmp_path / f"wheels/torch-{version}-py3-none-any.whl", packages_of_centre, "zip"
        )
        return python

    with_torch.python = python
    return with_torch


@pytest.fixture
def on_centre(light, tmp_path):
    """A project that wants torch, for a site with the centre's Python."""
    path = light / "pyproject.toml"
    path.write_text(path.read_text().replace("lab = [", "lab = ['torch>=98', "))
    folder = next(light.glob("src/*/conf")) / "site"
    folder.mkdir()
    profile = "scheduler: local\nlauncher: shell\npython: module # theirs\nmodules: {load: [pytorch/98]}\n"
    (folder / "workstation.yaml").write_text(profile)
    return light


@pytest.mark.release
@pytest.mark.slow
def test_the_torch_of_a_centre_is_used_and_only_what_it_lacks_is_installed(
    on_centre, centre, tmp_path
):
    variables = {**INDEX_ONLY, **unpinned(tmp_path)}
    output = setup(on_centre, UV, PYTHON=str(centre("98.5")), **variables)
    assert "with torch 98.5" in output
    show = "import torch, yaml; print(torch.__version__, torch.__file__)"
    version, file = output_of(on_centre, ".venv/bin/python", "-c", show).split()
    assert version == "98.5"
    assert file.startswith(str(tmp_path / "centre"))
    assert not any(name.startswith("torch-") for name in packages(on_centre))
    assert "up to date" in setup(on_centre, UV, PYTHON=str(centre.python), **variables)

    shutil.rmtree(next((tmp_path / "centre").glob("lib/python3*/site-packages/torch-*")))
    output = setup(on_centre, UV, rc=2, PYTHON=str(centre("97.0")), **variables)
    assert "torch==97.0 stays, and pyproject.toml asks for torch>=98" in output


@pytest.mark.slow
def test_without_the_modules_of_the_centre_the_setup_says_which(on_centre, centre):
    output = setup(on_centre, UV, rc=2, PYTHON=str(centre.python))
    assert "has no torch" in output
    assert "modules: {load: [pytorch/98]}" in output
    output = setup(on_centre, UV, rc=2, PYTHON=sys.executable)
    assert f"{Path(sys._base_executable)} has no torch" in output, (
        "what lies below that environment"
    )


@needs_root
@pytest.mark.release
def test_a_whole_environment_is_deleted_and_rebuilt_and_the_projects_tests_pass(fresh, small_home):
    configure(fresh, environment="$WORK/env", caches="$WORK/caches")
    subprocess.run([UV, "lock", "--quiet"], cwd=fresh, check=True, env=os.environ | INDEX_ONLY)
    git(fresh, "init", "-q")
    variables = {"TORCH": "cpu", **small_home}
    setup(fresh, UV, **variables)
    installed = versions(fresh)
    shutil.rmtree(Path(small_home["WORK"]) / "env")
    setup(fresh, UV, **variables)
    assert versions(fresh) == installed
    done = subprocess.run(
        ["make", "test"], cwd=fresh, env=os.environ | variables | {"PYTHONPATH": ""}, capture_output=True, text=True,
        timeout=TESTS_OF_PROJECT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
