"""`make add`, the chosen build of torch, uv.lock without uv, and an environment that was copied or moved.

A package of three lines stands in for torch: on an index like PyTorch's, on a package index, in a directory.
"""

import os
import subprocess
import sys
import threading
import tomllib
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from labrig.project import Project
from projects import PROJECT, copy_of
from repositories import commit, git
from setup_projects import INDEX_ONLY, UV, output_of, setup, unpinned, write_stand_in

NOWHERE = "http://127.0.0.1:1"
SHOW_TORCH = "import torch; print(torch.__version__)"
TELL = "from labrig.training.parts.settings import replaced_build; print(replaced_build())"


@pytest.fixture
def indexes(tmp_path):
    """Variables of a package index that has torch 99.0, and of PyTorch's index, which has 98.0+cpu."""
    write_stand_in(tmp_path / "served/simple/torch", "99.0")
    write_stand_in(tmp_path / "served/whl/cpu/torch", "98.0+cpu")
    handler = partial(QuietHandler, directory=tmp_path / "served")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        yield {
            "PIP_EXTRA_INDEX_URL": f"{url}/simple",
            "UV_EXTRA_INDEX_URL": f"{url}/simple",
            "TORCH_INDEX": f"{url}/whl",
            **INDEX_ONLY,
            **unpinned(tmp_path),
        }
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def with_torch(light):
    path = light / "pyproject.toml"
    path.write_text(path.read_text().replace("lab = [", "lab = ['torch', "))
    return light


def torch_of(folder):
    return output_of(folder, ".venv/bin/python", "-c", SHOW_TORCH)


def dependencies(folder):
    return tomllib.loads((folder / "pyproject.toml").read_text())["project"]["dependencies"]


@pytest.mark.release
def test_a_build_of_torch_stays_when_a_package_is_added_and_the_project_is_copied(
    with_torch, indexes, tmp_path
):
    output = setup(with_torch, UV, TORCH="cpu", **indexes)
    assert f"the build cpu of {indexes['TORCH_INDEX']}/cpu" in output
    assert torch_of(with_torch) == "98.0+cpu"
    assert not (with_torch / "uv.lock").exists(), "a lock file of one build fits no other machine"

    output = setup(with_torch, UV, target="add", PACKAGE="iniconfig", **indexes)
    assert "added iniconfig" in output
    assert dependencies(with_torch) == ["myproj[lab]", "iniconfig"]
    assert output_of(with_torch, ".venv/bin/python", "-c", "import iniconfig") == ""
    assert torch_of(with_torch) == "98.0+cpu"

    copied = copy_of(with_torch, tmp_path / "other/myproj")
    output = setup(copied, UV, **indexes)
    assert f"the environment was made for {with_torch}/.venv" in output
    for file in ("bin/activate", "bin/lab", "bin/pre-commit", "bin/pytest"):
        path = copied / ".venv" / file
        if path.exists():
            assert f"{with_torch}/" not in path.read_text(), file
    assert f"{copied}/.venv" in (copied / ".git/hooks/pre-commit").read_text()
    assert f"{with_torch}/" not in (copied / ".git/hooks/pre-commit").read_text()
    assert "lab train" in output_of(copied, "bash", "-c", ". .venv/bin/activate && lab --help")
    assert torch_of(copied) == "98.0+cpu", "the choice is kept"
    assert "up to date" in setup(copied, UV, **indexes)

    variables = {name: value for name, value in (os.environ | indexes).items() if value}
    subprocess.run([UV, "add", "--quiet", "pluggy"], cwd=copied, env=variables, check=True)
    assert torch_of(copied) == "99.0", "uv knows nothing of the build"
    told = output_of(copied, ".venv/bin/python", "-c", TELL)
    assert "torch 99.0 is not of the build cpu that make setup had chosen" in told
    setup(copied, UV, **indexes)
    assert torch_of(copied) == "98.0+cpu"
    assert output_of(copied, ".venv/bin/python", "-c", TELL) == "None"

    output = setup(copied, UV, TORCH="default", **indexes)
    assert "torch of the build cpu is replaced" in output
    assert torch_of(copied) == "99.0"


@pytest.mark.release
@pytest.mark.slow
def test_torch_comes_from_the_package_index_where_pytorch_does_not_answer(with_torch, indexes):
    output = setup(with_torch, UV, TORCH="cpu", **indexes | {"TORCH_INDEX": f"{NOWHERE}/whl"})
    assert f"{NOWHERE}/whl/cpu does not answer" in output
    assert "about 5 GB" in output
    assert torch_of(with_torch) == "99.0"


@pytest.mark.release
@pytest.mark.slow
def test_a_wheel_of_the_build_in_a_directory_comes_first(with_torch, indexes, tmp_path):
    write_stand_in(tmp_path / "wheels", "97.0+cpu")
    write_stand_in(tmp_path / "wheels", "97.0+cu126")
    wheels = {"PIP_FIND_LINKS": str(tmp_path / "wheels")}
    output = setup(with_torch, UV, TORCH="cpu", **indexes | wheels)
    assert f"torch==97.0+cpu, from {tmp_path / 'wheels'}" in output
    assert torch_of(with_torch) == "97.0+cpu"


@pytest.mark.release
@pytest.mark.slow
def test_a_wrong_build_is_refused(light):
    assert "must be a build such as cpu or cu126" in setup(light, rc=2, TORCH="gpu")
    assert not (light / "env-freeze.txt").exists(), "nothing but labrig itself was installed"


@pytest.mark.parametrize(
    ("chosen", "installed", "told"),
    [
        ("cpu", "2.13.0+cpu", ""),
        ("", "2.13.0", ""),
        (None, "2.13.0+cu126", ""),
        ("cpu", "2.15.0", "torch 2.15.0 is not of the build cpu"),
        ("cu126", "2.13.0+cpu", "To get it back: make setup."),
    ],
)
def test_another_build_than_the_chosen_one_is_reported(
    module, monkeypatch, tmp_path, chosen, installed, told
):
    build = module("training.parts.settings")
    assert build.RECORD == module("setup.torch_build").RECORD
    monkeypatch.setattr(build.sys, "prefix", str(tmp_path))
    monkeypatch.setattr(build.metadata, "version", lambda name: installed)
    if chosen is not None:
        (tmp_path / build.RECORD).write_text(chosen)
    said = build.replaced_build()
    assert said is None if told == "" else told in said


def test_a_machine_without_a_gpu_is_reported_before_gigabytes_come(
    module, monkeypatch, capsys, tmp_path
):
    project = Project(PROJECT, "myproj")
    build = module("setup.torch_build")
    monkeypatch.setattr(build, "has_nvidia_gpu", lambda: False)
    monkeypatch.setattr(build, "WHEELS", [])
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(build.platform, "machine", lambda: "x86_64")
    environment = tmp_path / "env"
    build.say_how_large_torch_is(project, environment)
    text = capsys.readouterr().out
    assert "5 GB" in text
    assert "make setup TORCH=cpu" in text
    assert max(map(len, text.splitlines())) <= 80
    monkeypatch.setattr(build, "has_nvidia_gpu", lambda: True)
    build.say_how_large_torch_is(project, environment)
    (environment / "lib/python3.11/site-packages/torch-2.13.0.dist-info").mkdir(parents=True)
    monkeypatch.setattr(build, "has_nvidia_gpu", lambda: False)
    build.say_how_large_torch_is(project, environment)
    assert capsys.readouterr().out == "", "it is there already"


@pytest.mark.release
@pytest.mark.slow
def test_without_uv_a_package_is_added_and_the_lock_file_is_followed(light, tmp_path):
    output = setup(light, target="add", PACKAGE="iniconfig>=2.3")
    assert dependencies(light) == ["myproj[lab]", "iniconfig>=2.3"]
    assert "iniconfig==2.3.1" in (light / "env-freeze.txt").read_text()
    assert "added iniconfig>=2.3" in output

    package = (
        'name = "iniconfig"\nversion = "2.3.0"\nsource = { registry = "https://pypi.org/simple" }\n'
    )
    (light / "uv.lock").write_text(f"version = 1\n\n[[package]]\n{package}")
    (tmp_path / "pins.txt").write_text("pyyaml==6.0.3\n")
    output = setup(light, PIP_CONSTRAINT=str(tmp_path / "pins.txt"), UV_CONSTRAINT="")
    assert "the versions are those of uv.lock" in output
    assert "iniconfig==2.3.0" in (light / "env-freeze.txt").read_text()


@pytest.mark.release
@pytest.mark.slow
def test_an_addition_that_fails_changes_nothing(light):
    before = (light / "pyproject.toml").read_bytes()
    for words, reason in {
        "": "name a package",
        "'rm -rf'": "is no package",
        "no-such-package-of-anybody==0.0.1": "was not added",
    }.items():
        assert reason in setup(light, UV, target="add", PACKAGE=words, rc=2)
        assert (light / "pyproject.toml").read_bytes() == before
    assert not (light / "uv.lock").exists()
    assert "has myproj[lab] already" in setup(light, UV, target="add", PACKAGE="MyProj")
    assert (light / "pyproject.toml").read_bytes() == before


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ('dependencies = [\n    "a",\n]\n', 'dependencies = [\n    "a",\n    "b>=1",\n]\n'),
        ('dependencies = [\n    "a"\n]\n', 'dependencies = [\n    "a",\n    "b>=1",\n]\n'),
        ('dependencies = ["a[x]"]\n', 'dependencies = ["a[x]", "b>=1"]\n'),
        ("dependencies = []\n", 'dependencies = ["b>=1"]\n'),
    ],
)
def test_the_ways_to_write_dependencies(module, tmp_path, text, result):
    add = module("setup.installer")
    project = Project(tmp_path, "p")
    (tmp_path / "pyproject.toml").write_text(f"[project]\nname = 'p'\n{text}other = [1]\n")
    assert add.write_requirements(project, ["b>=1"]) == ["b>=1"]
    assert (
        tmp_path / "pyproject.toml"
    ).read_text() == f"[project]\nname = 'p'\n{result}other = [1]\n"
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'p'\n")
    with pytest.raises(SystemExit, match="by hand"):
        add.write_requirements(project, ["b>=1"])


def test_the_settings_of_pip_are_read(module, monkeypatch, tmp_path):
    installer = module("setup.installer")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://mirror/simple\n")
    assert installer.pip_setting("index-url") == "https://mirror/simple"
    monkeypatch.setenv("PIP_INDEX_URL", "https://other/simple")
    assert installer.pip_setting("index-url") == "https://other/simple"


def test_setup_names_the_files_that_an_update_left_in_conflict(light):
    commit(light, "Start")
    for branch, text in (("theirs", "one\n"), ("ours", "two\n")):
        git(light, "checkout", "-q", "-b", branch, "main")
        (light / "README.md").write_text(text)
        commit(light, branch)
    git(light, "merge", "theirs", check=False)
    output = setup(light, rc=2)
    assert "hold two versions of some lines:\n  README.md\n" in output
    assert "git add FILE" in output
    assert not (light / "env-freeze.txt").exists()
