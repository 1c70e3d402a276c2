# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The hook `files` stops large files, secrets and trials that import-linter cannot see; nothing else."""

from importlib import import_module
from pathlib import Path

import pytest

PACKAGE = next(Path(__file__).parents[2].glob("src/*/lab")).parent.name
leaks = import_module(f"{PACKAGE}.lab.machine.leaks")

# Put together here, so that this file holds none.
SECRETS = [
    "-----BEGIN RSA " + "PRIVATE KEY-----",
    "AKIA" + "ABCDEFGHIJKLMNOP",
    "ghp_" + "a1" * 18,
    "hf_" + "Ab" * 17,
    "WANDB_API_KEY = " + "0a" * 20,
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_is_named_with_its_line(tmp_path, text, capsys):
    (tmp_path / "notes.txt").write_text(f"one\ntwo\n{text}\n")
    assert leaks.main([str(tmp_path / "notes.txt")]) == 1
    assert "notes.txt:3 looks like" in capsys.readouterr().out


def test_ordinary_text_passes(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("task-specific sk-learn, a hash 0a1b2c, hf_hub, WANDB_API_KEY is in .env\n")
    assert leaks.main([str(tmp_path / "notes.txt"), str(tmp_path / "deleted.txt")]) == 0
    assert capsys.readouterr().out == ""


def test_a_large_file_is_refused(tmp_path, capsys):
    (tmp_path / "scan.bin").write_bytes(bytes(1_000_001))
    assert leaks.main([str(tmp_path / "scan.bin")]) == 1
    assert "data/" in capsys.readouterr().out
    (tmp_path / "scan.bin").write_bytes(bytes(1_000_000))
    assert leaks.main([str(tmp_path / "scan.bin")]) == 0


def test_a_trial_without_init_is_named(tmp_path):
    for name in ("seen", "unseen"):
        (tmp_path / "trials" / name).mkdir(parents=True)
        (tmp_path / "trials" / name / "model.py").touch()
    (tmp_path / "trials/__init__.py").touch()
    (tmp_path / "trials/seen/__init__.py").touch()
    assert leaks.invisible_trials(tmp_path) == [tmp_path / "trials/unseen"]
