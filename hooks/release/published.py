"""What an index and a forge show of a release: addresses, authors, a readme, the files that people look for."""

from __future__ import annotations

import re
import tomllib

from .repository import Repository, run_git

URLS = ("Homepage", "Documentation", "Changelog", "Issues")
FILES = (
    "LICENSE",
    "CITATION.cff",
    "SECURITY.md",
    "CODE_OF_CONDUCT.md",
    ".github/ISSUE_TEMPLATE/wrong.yml",
    ".github/pull_request_template.md",
    ".github/workflows/check.yml",
    ".github/workflows/publish.yml",
    ".github/workflows/pages.yml",
)
PLACEHOLDER = "ORG/REPO"
RELATIVE_LINK = re.compile(r"\]\((?!https://)([^)\s]+)\)")


def check_published(repository: Repository) -> list[str]:
    """What is missing for those who meet the release on an index or on its forge."""
    metadata = tomllib.loads(repository.text("HEAD", "pyproject.toml") or "").get("project", {})
    problems = [
        f"{name} is not there; write it before the first release"
        for name in FILES
        if repository.text("HEAD", name) is None
    ]
    problems += [
        f"pyproject.toml: [project.urls] has no {name}; write its address"
        for name in URLS
        if name not in metadata.get("urls", {})
    ]
    if not metadata.get("authors"):
        problems.append('pyproject.toml names no author; write authors = [{ name = "..." }]')
    return problems + _readme(repository, str(metadata.get("readme"))) + _addresses(repository)


def _readme(repository: Repository, name: str) -> list[str]:
    """An index shows the readme alone: a link to a file of the repository leads nowhere there."""
    links = RELATIVE_LINK.findall(repository.text("HEAD", name) or "")
    return [f"{name}: an index cannot follow {link}; write the whole address" for link in links]


def _addresses(repository: Repository) -> list[str]:
    words = ("grep", "--files-with-matches", "--fixed-strings", PLACEHOLDER, "HEAD")
    named = run_git(repository.path, *words).stdout  # exit code 1: in no file
    files = [line.partition(":")[2] for line in named.splitlines()]
    shown = [name for name in files if not name.startswith(("hooks/", "tests/"))]
    return [f"{name} has {PLACEHOLDER}; write the repository's own address" for name in shown]
