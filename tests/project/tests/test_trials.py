"""Yours: what must hold for every trial. `make test` runs it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TRIALS = sorted(path.parent.name for path in ROOT.glob("src/*/trials/*/config.yaml"))


@pytest.mark.parametrize("trial", TRIALS)
def test_its_keys_targets_and_arguments_are_right(trial):
    command = [sys.executable, "-m", "labrig", "check", f"trial={trial}", "--no-batch"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("trial", TRIALS)
def test_its_readme_says_what_was_asked_and_found(trial):
    text = next(ROOT.glob(f"src/*/trials/{trial}/README.md")).read_text(encoding="utf-8")
    for part in ("**Question.**", "**Change.**", "**Numbers.**", "**Verdict.**"):
        assert part in text, f"{trial}/README.md has no {part}"
