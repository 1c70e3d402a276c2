"""The tree of trials, and the hook that looks at what is committed."""

import pytest
from labrig.config.completion import candidates
from labrig.hooks import checks
from labrig.project import Project
from labrig.trials.tree import walk_tree
from projects import copy_project

# Put together here, so that this file holds none.
SECRETS = [
    "-----BEGIN RSA " + "PRIVATE KEY-----",
    "AKIA" + "ABCDEFGHIJKLMNOP",
    "ghp_" + "a1" * 18,
    "hf_" + "Ab" * 17,
    "WANDB_API_KEY = " + "3f8a0c9d1e" * 4,
]


def test_children_are_drawn_below_their_parent():
    parents = {
        "baseline": None,
        "deep": "wide",
        "lost": "gone",
        "slow": "baseline",
        "wide": "baseline",
    }
    lines = [branches + name for name, branches in walk_tree(list(parents), parents)]
    assert lines == ["baseline", "├─ slow", "└─ wide", "   └─ deep", "lost"]


def test_names_of_trials_are_completed(tmp_path):
    folder = copy_project(tmp_path / "myproj")
    (folder / "TRIALS.md").write_text("- 2026-11-22 dropped `wide` at `1a2b3c`: no runs. x\n")
    project = Project(folder, "myproj")
    assert candidates(project, "lab trials diff b") == ["baseline"]
    assert candidates(project, "lab trials restore ") == ["wide"]
    assert candidates(project, "lab trials re") == ["rename", "restore", "result"]


def test_trials_in_a_circle_are_drawn_once():
    parents = {"a": "c", "b": "a", "c": "b", "own": "own"}
    lines = [branches + name for name, branches in walk_tree(list(parents), parents)]
    assert lines == ["a", "└─ b", "   └─ c", "own"]


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_is_named_with_its_line(tmp_path, text, capsys):
    (tmp_path / "notes.txt").write_text(f"one\ntwo\n{text}\n")
    assert checks.check_tokens([str(tmp_path / "notes.txt")]) == 1
    assert "notes.txt:3 looks like" in capsys.readouterr().out


def test_ordinary_text_passes(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text(
        "task-specific sk-learn, a hash 0a1b2c, hf_hub, WANDB_API_KEY is in .env\n"
    )
    assert checks.check_tokens([str(tmp_path / "notes.txt"), str(tmp_path / "deleted.txt")]) == 0
    assert capsys.readouterr().out == ""


def test_a_trial_without_init_is_named(tmp_path):
    for name in ("seen", "unseen"):
        (tmp_path / "trials" / name).mkdir(parents=True)
        (tmp_path / "trials" / name / "model.py").touch()
    (tmp_path / "trials/__init__.py").touch()
    (tmp_path / "trials/seen/__init__.py").touch()
    assert checks.invisible_trials(tmp_path) == [tmp_path / "trials/unseen"]
