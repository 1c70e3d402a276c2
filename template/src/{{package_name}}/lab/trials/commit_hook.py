# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The hook `files` of .pre-commit-config.yaml: no tokens, and every trial a package."""

from __future__ import annotations

import sys
from pathlib import Path

from ..machine.secrets import find_tokens

LARGEST_MB = 1.0


def problems(path: Path) -> list[str]:
    """Why `path` should not be committed, and what to do instead."""
    size_MB = path.stat().st_size / 1e6
    if size_MB > LARGEST_MB:
        return [
            f"{path}: {size_MB:.1f} MB; at most {LARGEST_MB:g} MB are committed. "
            "Data belongs in data/, results in runs/: git ignores both"
        ]
    found = find_tokens(path.read_bytes(), str(path))
    return [
        f"{hit}. Take it out (settings of the environment belong in .env, which git ignores)"
        for hit in found
    ]


def invisible_trials(source: Path) -> list[Path]:
    """Trials below `source`/trials that import-linter does not see, since they have no __init__.py."""
    folders = {path.parent for path in (source / "trials").rglob("*.py")}
    return sorted(folder for folder in folders if not (folder / "__init__.py").exists())


def main(names: list[str]) -> int:
    found = [line for name in names if Path(name).is_file() for line in problems(Path(name))]
    found += [
        f"{trial}: import-linter cannot see this trial. Type: touch {trial}/__init__.py"
        for trial in invisible_trials(Path(__file__).resolve().parents[2])
    ]
    if found:
        print(
            *found,
            "If it is meant, name the file in `exclude:` of this hook in .pre-commit-config.yaml.",
            sep="\n",
        )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
