"""The check `tokens`: no tokens and private keys, and every trial a package."""

from __future__ import annotations

from pathlib import Path

from ..machine.known_secrets import known_secrets
from ..machine.secrets import find_tokens
from ..project import this_project


def main(names: list[str]) -> int:
    """Prints what is wrong, and makes a trial a package; 1 when something was wrong, else 0.

    Args:
        names: files to be committed; those that were deleted are skipped.
    """
    paths = [Path(name) for name in names if Path(name).is_file()]
    secrets = known_secrets()
    tokens = [
        token for path in paths for token in find_tokens(path.read_bytes(), str(path), secrets)
    ]
    for token in tokens:
        print(f"{token}. Move it to .env, which git ignores")
    if tokens:
        print(
            "If it is no secret, name the file in `exclude:` of the hook `lab` "
            "in .pre-commit-config.yaml"
        )
    trials = invisible_trials(this_project().source)
    for trial in trials:
        (trial / "__init__.py").touch()
        print(
            f"import-linter does not see a trial without __init__.py. It is made. "
            f"Now add and commit again: git add {trial}/__init__.py"
        )
    return 1 if tokens or trials else 0


def invisible_trials(package: Path) -> list[Path]:
    """Directories of trials that import-linter does not see, since they have no __init__.py."""
    folders = {path.parent for path in (package / "trials").rglob("*.py")}
    return sorted(folder for folder in folders if not (folder / "__init__.py").exists())
