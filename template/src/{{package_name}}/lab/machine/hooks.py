# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Checks of files before a commit: no large files, no secrets, every trial visible to import-linter.

Called by the hook `files` of .pre-commit-config.yaml with the names of the files. Standard library only.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LARGEST_MB = 1.0
SECRETS = {
    "a private key": rb"-----BEGIN [A-Z ]*PRIVATE KEY( BLOCK)?-----",
    "an AWS key": rb"\b(AKIA|ASIA)[0-9A-Z]{16}\b",
    "a GitHub token": rb"\b(gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{50})",
    "a GitLab token": rb"\bglpat-[A-Za-z0-9_-]{20}",
    "a Google key": rb"\bAIza[A-Za-z0-9_-]{35}",
    "a Hugging Face token": rb"\bhf_[A-Za-z0-9]{30}",
    "an OpenAI or Anthropic key": rb"\bsk-[A-Za-z0-9_-]{32}",
    "a Slack token": rb"\bxox[abprs]-[A-Za-z0-9-]{20}",
    "a W&B key": rb"(?i)\bwandb[\w.]*key[\"']?\s*[=:]\s*[\"']?([0-9a-f]{40}|wandb_v1_\w{20})",
}


def secret(content: bytes) -> str | None:
    """What kind of secret the content of a file holds, with its line; None when there is none."""
    for kind, pattern in SECRETS.items():
        if found := re.search(pattern, content):
            line = content.count(b"\n", 0, found.start()) + 1
            return f"{kind} in line {line}"
    return None


def problem(path: Path) -> str | None:
    """Why `path` should not be committed, and what to do instead."""
    size_MB = path.stat().st_size / 1e6
    if size_MB > LARGEST_MB:
        return (
            f"{size_MB:.1f} MB; at most {LARGEST_MB:g} MB are committed. "
            "Data belongs in data/, results in runs/: git ignores both"
        )
    if found := secret(path.read_bytes()):
        return f"holds {found}. Take it out (settings of the environment belong in .env, which git ignores)"
    return None


def invisible_trials(source: Path) -> list[Path]:
    """Trials below `source`/trials that import-linter does not see, since they have no __init__.py."""
    folders = {path.parent for path in (source / "trials").rglob("*.py")}
    return sorted(folder for folder in folders if not (folder / "__init__.py").exists())


def main(names: list[str]) -> int:
    found = [f"{name}: {why}" for name in names if Path(name).is_file() and (why := problem(Path(name)))]
    found += [
        f"{trial}: import-linter cannot see this trial. Type: touch {trial}/__init__.py"
        for trial in invisible_trials(Path(__file__).resolve().parents[2])
    ]
    if found:
        print(*found, sep="\n")
        print("If it is meant, name the file in `exclude:` of this hook in .pre-commit-config.yaml.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
