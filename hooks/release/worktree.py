"""The work tree: what lies here is what is tagged."""

from __future__ import annotations

import re

from .repository import Repository

CACHE = re.compile(r"(^|/)(__pycache__|\.[a-z_]+_cache)/|\.pyc$")


def check_worktree(repository: Repository) -> list[str]:
    """Uncommitted edits, and files of both that git ignores: tests see them, a release does not."""
    problems = []
    if changed := repository.git("status", "--porcelain"):
        problems.append(f"the work tree differs from HEAD; commit or remove:\n{changed}")
    ignored = repository.git(
        "ls-files", "--others", "--ignored", "--exclude-standard", "--", "template", "src", "docs"
    ).splitlines()
    problems += [
        f"git ignores {path}, so the release would lack it; type: git add -f {path}"
        for path in ignored
        if not CACHE.search(path)
    ]
    return problems
