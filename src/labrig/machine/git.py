"""The one way in which git is run: it never asks, and never changes what belongs to the user."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any

from ..errors import Refused

# Of the user's GIT_* variables, only those that begin so reach git.
INHERITED = (
    "GIT_SSH",
    "GIT_CONFIG",
    "GIT_EXEC_PATH",
    "GIT_CEILING_DIRECTORIES",
    "GIT_ASKPASS",
    "GIT_PROXY",
)
# They win over the user's: no program of a configuration runs, and no edit stays unseen.
SETTINGS = (
    "core.trustCtime=true",
    "core.checkStat=default",
    "core.ignoreStat=false",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.safecrlf=false",
    "core.hooksPath=/dev/null",
    "core.logAllRefUpdates=false",
    "core.quotePath=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "i18n.commitEncoding=UTF-8",
)
VARIABLES = {
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    # Never ext:, which runs a command, whatever a repository allows.
    "GIT_ALLOW_PROTOCOL": "https:http:ssh:git:file",
    # git frees 256 kB after each object and asks for them again. Keeping them halves the time
    # of packing.
    "MALLOC_TRIM_THRESHOLD_": "67108864",
}


class GitFailed(Refused):
    """git failed; the message holds what it printed."""


@dataclass(frozen=True)
class Git:
    """git in `directory`; `variables` are added to its environment.

    Paths that are not UTF-8 survive (surrogateescape).
    """

    directory: Path
    variables: dict[str, str] = field(default_factory=dict)

    def run(
        self, *arguments: str, stdin: str = "", file: FileIO | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs git; the caller looks at `returncode`.

        Args:
            file: what git reads in place of `stdin`, from where it stands.

        Raises:
            GitFailed: git is not installed.
        """
        source: dict[str, Any] = {"stdin": file} if file else {"input": stdin}
        return self._start(arguments, encoding="utf-8", errors="surrogateescape", **source)

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """What git prints, without the last newline."""
        done = self.run(*arguments, stdin=stdin)
        if done.returncode or "could not open directory" in done.stderr:
            raise self._failure(arguments, done.stderr, done.returncode)
        return done.stdout.removesuffix("\n")

    def content(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """What git prints, byte for byte.

        Raises:
            GitFailed: git failed, or is not installed.
        """
        done = self._start(arguments, input=stdin)
        if done.returncode:
            raise self._failure(arguments, done.stderr.decode(errors="replace"), done.returncode)
        return done.stdout

    def paths(self, *arguments: str) -> list[str]:
        """The NUL-separated list that git prints."""
        return [path for path in self(*arguments).split("\0") if path]

    def _start(self, arguments: tuple[str, ...], **options: Any) -> subprocess.CompletedProcess:
        settings = [word for setting in SETTINGS for word in ("-c", setting)]
        try:
            return subprocess.run(
                ["git", *settings, *arguments],
                cwd=self.directory,
                env=inherited_environment() | VARIABLES | self.variables,
                capture_output=True,
                **options,
            )
        except FileNotFoundError as error:
            raise GitFailed(
                "git is not installed here, so the code cannot be recorded. Install it, or: module load git"
            ) from error

    def _failure(self, arguments: tuple[str, ...], stderr: str, code: int) -> GitFailed:
        reason = stderr.strip() or f"exit code {code}"
        return GitFailed(
            f"git {arguments[0]} failed in {self.directory}: {reason}. To look: git status"
        )


# What a remote of a record may look like: https://host/path, user@host:path, /path or ../path. A host
# never begins with "-", which ssh would take for an option, and "::" calls a program.
REMOTE = re.compile(
    r"""(?: (?:https?|ssh|git|git\+ssh)://(?:(?!-)[^/@\s]+@)?[\w[][^\s]*
      | file:///[^\0\n]*
      | (?:[\w.-]+@)?\w[\w.-]*:(?!:|//)[^\0\n]*
      | \.{0,2}/[^\0\n]*
    )""",
    re.VERBOSE,
)


def is_remote(url: str) -> bool:
    """Whether git may fetch from this URL or path, which a stranger's record may have named."""
    return not url.startswith("-") and bool(REMOTE.fullmatch(url))


def inherited_environment() -> dict[str, str]:
    """This process's environment, without variables that lead git to another repository."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith(INHERITED)
    }
