"""What ends `make setup` before it has changed anything, where no other test meets it."""

import pytest


def test_without_git_there_is_no_repository(module, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match=r"git is not installed.* again: make setup"):
        module("setup.repository").make_repository(tmp_path)


def test_an_old_python_without_uv_is_refused(module, monkeypatch):
    main = module("setup.__main__")
    monkeypatch.setattr(main.sys, "version_info", (3, 9))
    with pytest.raises(SystemExit, match=r"Python 3.9 is too old.*make setup PYTHON=python3.11"):
        main.require_python(uv=None, words=[])


def test_an_environment_that_cannot_be_made_leaves_nothing(module, tmp_path):
    environment = tmp_path / "env"
    environment.mkdir()
    (environment / "half.txt").write_text("")
    with pytest.raises(SystemExit, match="apt install python3-venv"):
        module("setup.environment").create_environment(environment, "/bin/false", on_centre=False)
    assert not environment.exists()
