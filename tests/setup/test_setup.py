"""`make setup` gives an environment with `lab`, a git repository and its hooks; again, it is done at once."""

import os
import subprocess

import pytest
from labrig.project import CONF
from projects import ROOT
from setup_projects import INDEX_ONLY, UV, logging_uv, output_of, packages, setup

NOBODY = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


def set_environment(folder, value):
    path = next(folder.glob("src/*/conf/config.yaml"))
    path.write_text(
        f"paths:\n  # environment: wrong\n  environment: {value} # right\n" + path.read_text()
    )


@pytest.mark.release
@pytest.mark.slow
def test_with_pip_alone(bare):
    """With all its packages, `make demo` of .ci/run shows it."""
    output = setup(bare)
    assert ". .venv/bin/activate" in output
    assert "PyYAML==" in (bare / "env-freeze.txt").read_text()
    assert not (bare / "uv.lock").exists()
    assert "lab train" in output_of(bare, ".venv/bin/lab", "--help")
    assert output_of(bare, "git", "log", "--format=%s") == "Start from the template"
    assert output_of(bare, "git", "status", "--porcelain") == ""
    assert (bare / ".git/hooks/pre-commit").exists()
    installed = packages(bare)
    assert "up to date (env-freeze.txt)" in setup(bare)
    assert packages(bare) == installed, "nothing was installed again"


@pytest.mark.release
@pytest.mark.slow
def test_with_uv_from_the_index(bare, tmp_path):
    setup(bare, UV, **INDEX_ONLY)
    assert not (bare / "env-freeze.txt").exists()
    pinned = next(
        line
        for line in (ROOT / "constraints.txt").read_text().split()
        if line.startswith("pyyaml==")
    )
    name, version = pinned.split("==")
    assert f'name = "{name}"\nversion = "{version}"' in (bare / "uv.lock").read_text()
    assert "uv.lock" in output_of(bare, "git", "ls-files")
    assert "lab train" in output_of(bare, ".venv/bin/lab", "--help")
    fake, log = logging_uv(tmp_path)
    assert "up to date (uv.lock)" in setup(bare, fake, **INDEX_ONLY)
    assert not log.exists(), "uv was not called"


@pytest.mark.slow
def test_with_uv_and_a_folder_of_wheels(light, tmp_path):
    (tmp_path / "wheels").mkdir()
    setup(light, UV, PIP_FIND_LINKS=str(tmp_path / "wheels"), UV_FIND_LINKS="")
    assert not (light / "uv.lock").exists(), "a lock file of local wheels fits no other machine"
    assert "pyyaml==" in (light / "env-freeze.txt").read_text().lower()
    assert "lab train" in output_of(light, ".venv/bin/lab", "--help")


@pytest.mark.release
@pytest.mark.slow
def test_a_changed_dependency_is_installed(light):
    setup(light, UV)
    path = light / "pyproject.toml"
    path.write_text(path.read_text().replace('[lab]",\n', '[lab]",\n    "iniconfig",\n'))
    assert "up to date" not in setup(light, UV)
    assert output_of(light, ".venv/bin/python", "-c", "import iniconfig; print('here')") == "here"


@pytest.mark.release
@pytest.mark.slow
def test_the_hooks_of_a_new_project_stop_what_does_not_belong_in_git(light, tmp_path):
    setup(light, UV)
    assert commit_in(light, tmp_path).returncode == 0
    (light / "scan.bin").write_bytes(bytes(1_100_000))
    (light / "id.txt").write_text("-----BEGIN OPENSSH " + "PRIVATE KEY-----\n")
    (light / "notes.md").write_text("key: AKIA" + "ABCDEFGHIJKLMNOP\n")
    (light / "src/myproj/trials/wide").mkdir()
    (light / "src/myproj/trials/wide/model.py").touch()
    done = commit_in(light, tmp_path)
    assert done.returncode == 1
    for file in ("scan.bin", "id.txt", "notes.md:1", "trials/wide/__init__.py"):
        assert file in done.stderr, file


def commit_in(folder, home):
    """`git commit` of everything; without the hooks whose packages a light project lacks."""
    subprocess.run(["git", "add", "--all"], cwd=folder, check=True)
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.org")
    variables = {"SKIP": "style,imports", "PRE_COMMIT_HOME": str(home / "cache")}
    return subprocess.run(
        ["git", *identity, "commit", "--allow-empty", "-m", "Try the hooks"],
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )


@pytest.mark.release
@pytest.mark.slow
def test_without_a_git_identity(light):
    only_config = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "user.useConfigOnly",
        "GIT_CONFIG_VALUE_0": "true",
    }
    output = setup(light, UV, **NOBODY, **only_config)
    assert "git does not know who you are" in output
    assert output_of(light, "git", "log", "--format=%an %s") == "nobody Start from the template"


@pytest.mark.slow
def test_inside_a_larger_repository_git_is_left_alone(light, tmp_path):
    subprocess.run("git init -q && git add myproj", shell=True, cwd=tmp_path, check=True)
    assert "part of a larger git repository" in setup(light, UV)
    assert not (light / ".git").exists()
    assert not (tmp_path / ".git/hooks/pre-commit").exists()


@pytest.mark.release
@pytest.mark.slow
def test_environment_elsewhere(light, tmp_path):
    set_environment(light, "$PLACE/env-${package}")
    setup(light, UV, PLACE=str(tmp_path / "scratch"))
    assert (light / ".venv").readlink() == tmp_path / "scratch/env-myproj"
    assert "lab train" in output_of(light, ".venv/bin/lab", "--help")
    assert output_of(light, "git", "status", "--porcelain") == ""


@pytest.mark.release
@pytest.mark.slow
def test_environment_of_the_site(light, tmp_path):
    site = light / "src/myproj/conf/site/workstation.yaml"
    site.parent.mkdir()
    shipped = (CONF / "site/workstation.yaml").read_text()
    site.write_text(shipped.replace("environment: .venv", f"environment: {tmp_path}/of-site"))
    setup(light, UV)
    assert (light / ".venv").readlink() == tmp_path / "of-site"


@pytest.mark.release
@pytest.mark.slow
def test_an_environment_behind_an_unset_variable_is_named(light):
    set_environment(light, "$NOWHERE/env")
    assert "paths.environment is $NOWHERE/env, but that variable is not set here" in setup(
        light, UV
    )
    assert (light / ".venv/bin/lab").exists()


@pytest.mark.release
@pytest.mark.slow
def test_a_directory_that_is_no_environment_is_left_alone(light, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/chapter1.tex").write_text("years of work")
    set_environment(light, tmp_path / "thesis")
    output = setup(light, UV, rc=2)
    assert "thesis exists and is not a Python environment" in output
    assert "paths.environment" in output
    assert "mpty it" not in output, "it may hold anything"
    assert (tmp_path / "thesis/chapter1.tex").read_text() == "years of work"


@pytest.mark.release
@pytest.mark.slow
def test_two_environments_are_refused(bare, tmp_path):
    subprocess.run([UV, "venv", "--quiet", "--seed", bare / ".venv"], check=True)
    (bare / ".venv/mine.txt").write_text("made by hand, with packages of a year")
    set_environment(bare, tmp_path / "env")
    output = setup(bare, UV, rc=2)
    assert "mv .venv" in output
    assert "rm " not in output
    assert (bare / ".venv/mine.txt").exists()


@pytest.mark.slow
def test_a_failing_installation_says_what_failed(light, tmp_path):
    (tmp_path / "pins.txt").write_text("pyyaml==0.0.0\n")
    output = setup(
        light, UV, rc=2, UV_CONSTRAINT=str(tmp_path / "pins.txt"), UV_FIND_LINKS=str(tmp_path)
    )
    assert "this command failed" in output
    assert "type the same make again" in output
    assert "Traceback" not in output
    assert not (light / ".git").exists()
