"""The library: its version is that of the tag, and every file of it can be read by its tool."""

from __future__ import annotations

import re

from .rendered import unreadable
from .repository import Repository

SOURCE = "src/labrig"
VERSION_FILE = f"{SOURCE}/version.py"
VERSION = re.compile(r'^__version__ = "([^"]*)"$', re.MULTILINE)


def check_version_file(repository: Repository, version: str) -> list[str]:
    """One tag versions the template and the library, and the index gets the library by its own word."""
    match = VERSION.search(repository.text("HEAD", VERSION_FILE) or "")
    if match and match[1] == version:
        return []
    said = f"says {match[1]}" if match else "names no version"
    return [f'{VERSION_FILE} {said}; write __version__ = "{version}"']


def check_files(repository: Repository) -> list[str]:
    """Python, YAML and scripts of the library can be read."""
    files = repository.files("HEAD", SOURCE).items()
    reasons = {path: unreadable(path, content) for path, content in files}
    return [f"{path}: {reason}" for path, reason in reasons.items() if reason]
