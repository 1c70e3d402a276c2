"""The template's git repository: its tags that are versions, and its files at each of them."""

from __future__ import annotations

import io
import subprocess
import tarfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from packaging.version import InvalidVersion, Version


class ReleaseError(Exception):
    """What keeps a rule from being tried: a sentence for the person who releases."""


@dataclass(frozen=True)
class Repository:
    """The template's repository, of which HEAD is to become a release."""

    path: Path

    def git(self, *words: str) -> str:
        """What git prints.

        Raises:
            ReleaseError: git refuses.
        """
        done = run_git(self.path, *words)
        if done.returncode:
            reason = done.stderr.strip().splitlines() or ["no reason"]
            raise ReleaseError(f"git {' '.join(words)} fails: {reason[-1]}")
        return done.stdout.strip()

    def text(self, ref: str, path: str) -> str | None:
        """A committed file; None where there is none."""
        done = run_git(self.path, "show", f"{ref}:{path}")
        return None if done.returncode else done.stdout

    def files(self, ref: str, folder: str) -> dict[str, bytes]:
        """Path -> content of the committed files below a folder; empty where there is none."""
        words = ["git", "archive", "--format=tar", ref, "--", folder]
        done = subprocess.run(words, cwd=self.path, capture_output=True)
        if done.returncode:
            return {}
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            members = [member for member in archive if member.isfile()]
            contents = {member.name: archive.extractfile(member) for member in members}
            return {name: content.read() for name, content in contents.items() if content}

    def is_ancestor(self, older: str, newer: str) -> bool:
        return run_git(self.path, "merge-base", "--is-ancestor", older, newer).returncode == 0

    @cached_property
    def tags(self) -> list[str]:
        """The tags that copier takes for versions, oldest first."""
        return sort_versions(self.git("tag").split())

    @property
    def newest_tag(self) -> str | None:
        return self.tags[-1] if self.tags else None


def sort_versions(names: list[str]) -> list[str]:
    """The names that are versions as PEP 440 defines them, oldest first."""
    versions = {}
    for name in names:
        try:
            versions[name] = Version(name)
        except InvalidVersion:
            continue
    return sorted(versions, key=lambda name: versions[name])


def run_git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *words], cwd=folder, capture_output=True, text=True, errors="replace"
    )
