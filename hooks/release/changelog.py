"""The changelog: an entry for the release, and in it what an owner of a project must hear of."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.version import Version

from .repository import Repository

FILE = "CHANGELOG.md"
REQUIRED_PYTHON = re.compile(r"""requires-python\s*=\s*["']([^"']*)["']""")
REQUIRED_COPIER = re.compile(r"""^_min_copier_version:\s*["']?([\w.]+)""", re.MULTILINE)


def entry_of(repository: Repository, version: str) -> str:
    """The text below the heading of `version` in the committed changelog."""
    text = repository.text("HEAD", FILE) or ""
    heading = rf"^## {re.escape(version)}(?=\s)[^\n]*\n(.*?)(?=^## |\Z)"
    match = re.search(heading, text, re.MULTILINE | re.DOTALL)
    return match[1] if match else ""


def entries_after(repository: Repository, tag: str, version: str) -> str:
    """The entries of `version` and of all tags after `tag`, as one text."""
    later = [name for name in repository.tags if Version(name) > Version(tag)]
    return "\n".join(entry_of(repository, name) for name in [*later, version])


def names_path(entry: str, path: str) -> bool:
    """Whether an entry names a path in backticks: in full, or by a directory of it."""
    names = [name.lstrip("/") for name in re.findall(r"`([^`]+)`", entry)]
    return any(path == name or (name.endswith("/") and path.startswith(name)) for name in names)


def check_entry(repository: Repository, version: str) -> list[str]:
    """Whether there is an entry, and it names a higher Python or copier."""
    entry = entry_of(repository, version)
    if not entry.strip():
        return [
            f"{FILE} has no entry; write what an owner of a project sees,\n"
            f"  below a line `## {version}`"
        ]
    tag = repository.newest_tag
    if tag is None:
        return []
    problems = []
    for what, file, pattern in (
        ("Python", "template/pyproject.toml.jinja", REQUIRED_PYTHON),
        ("Python", "pyproject.toml", REQUIRED_PYTHON),
        ("copier", "copier.yml", REQUIRED_COPIER),
    ):
        old, new = (_first(pattern, repository.text(ref, file)) for ref in (tag, "HEAD"))
        numbers = re.findall(r"[\d.]+\d", new or "")
        if old != new and not _has_all(entry, [what, *numbers]):
            problems.append(
                f"{file} asks for {what} {new} (before: {old}), and the entry in {FILE}\n"
                f"  does not say so; write a line with {what} {' '.join(numbers)}"
            )
    return problems


def _first(pattern: re.Pattern[str], text: str | None) -> str | None:
    match = pattern.search(text or "")
    return match[1] if match else None


def _has_all(entry: str, words: Iterable[str]) -> bool:
    return all(word.lower() in entry.lower() for word in words)
