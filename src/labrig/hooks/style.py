"""The check `style`: ruff repairs the files of a commit, and names what is left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# As `make fix`: the formatter also parts lines that the linter would object to.
REPAIRS = (["check", "--fix-only"], ["format"])
SUFFIXES = (".py", ".pyi", ".ipynb")


def main(names: list[str]) -> int:
    """Repairs the Python among `names`; 1 when one was changed, or when something is left to do."""
    names = [name for name in names if name.endswith(SUFFIXES)]
    if not names:
        return 0
    before = {name: Path(name).read_bytes() for name in names}
    for words in REPAIRS:
        run_ruff([*words, "--quiet"], names)
    left = run_ruff(["check", "--quiet", "--output-format=concise"], names)
    sys.stdout.write(left)
    repaired = [name for name in names if Path(name).read_bytes() != before[name]]
    if repaired:
        files = " ".join(repaired)
        print(f"ruff repaired {files}\nNow add and commit again: git add {files}")
    return 1 if repaired or left else 0


def run_ruff(words: list[str], names: list[str]) -> str:
    """What ruff says about files; "" when it has no objection."""
    command = [sys.executable, "-m", "ruff", *words, "--force-exclude", "--", *names]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
