"""What ends `make setup` before it has changed anything, where no other test meets it."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from labrig.setup import installer as setup_process
from labrig.setup import setup as setup_command
from projects import PROJECT
from setup_projects import setup


@pytest.fixture
def bootstrap(own_project, monkeypatch):
    """The module tools/bootstrap.py of a project."""
    spec = importlib.util.spec_from_file_location("bootstrap", own_project / "tools/bootstrap.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "UV", None)
    return module


def test_without_git_there_is_no_repository(own_project, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match=r"git is not installed.* again: make setup"):
        setup_command.make_repository(None, tmp_path)


def test_an_old_python_without_uv_is_refused(bootstrap, monkeypatch):
    monkeypatch.setattr(bootstrap.sys, "version_info", (3, 9))
    with pytest.raises(SystemExit, match=r"Python 3.11 is needed.*make setup PYTHON=python3.11"):
        bootstrap.main([])


def test_an_old_python_reads_the_bootstrap_and_says_what_is_missing():
    """Its syntax is that of Python 3.6, so that the message comes, and no SyntaxError."""
    text = (PROJECT / "tools/bootstrap.py").read_text()
    compile(text, "bootstrap.py", "exec", flags=0, dont_inherit=True)
    assert ":=" not in text
    assert "match " not in text
    assert len(text.splitlines()) < 100


def test_an_environment_that_cannot_be_made_leaves_nothing(bootstrap, monkeypatch, tmp_path):
    environment = tmp_path / "env"
    monkeypatch.setattr(bootstrap.sys, "executable", "/bin/false")
    with pytest.raises(SystemExit, match="apt install python3-venv"):
        bootstrap.make_environment(environment)
    assert not environment.exists()


def test_a_directory_that_is_no_environment_is_never_cleared(bootstrap, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/chapter1.tex").write_text("years of work")
    with pytest.raises(SystemExit, match=r"thesis exists and is no environment. Move it"):
        bootstrap.make_environment(tmp_path / "thesis")
    assert (tmp_path / "thesis/chapter1.tex").read_text() == "years of work"


def test_a_project_that_names_no_labrig_says_so(light):
    path = light / "pyproject.toml"
    path.write_text("".join(line for line in path.open() if "labrig @" not in line))
    assert "pyproject.toml names no labrig" in setup(light, rc=2)


@pytest.mark.release
@pytest.mark.slow
def test_a_library_that_cannot_be_installed_is_told(bare, tmp_path):
    path = bare / "pyproject.toml"
    path.write_text(path.read_text().replace("labrig @ file://", "labrig @ file:///nowhere"))
    output = setup(bare, rc=2)
    assert "failed, see above. Then again: make setup" in output
    assert "Traceback" not in output.partition("setup: pip install")[2]


def test_the_bootstrap_needs_nothing_but_python(tmp_path):
    program = "import runpy, sys; runpy.run_path(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, PROJECT / "tools/bootstrap.py"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        check=True,
    )
    assert Path(PROJECT / "tools/bootstrap.py").read_text().count("\nfrom ") == 1


def test_a_long_command_without_a_bar_says_how_far_it_is(monkeypatch, capsys):
    monkeypatch.setattr(setup_process, "QUIET_S", 0.05)
    monkeypatch.setattr(setup_process, "bytes_below", lambda _: 1_200_000_000)
    command = [sys.executable, "-c", "import time; time.sleep(0.3); raise SystemExit(3)"]
    with subprocess.Popen(command) as process:
        assert setup_process.wait_for(process) == 3
    assert "setup: 0 s; the environment has 1.2 GB\n" in capsys.readouterr().out
