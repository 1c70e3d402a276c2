# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""One call of git: no hooks, no prompts, no locks, and of the caller's GIT_* only where settings are found."""

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import Refused

KEPT = ("GIT_SSH", "GIT_CONFIG", "GIT_EXEC_PATH", "GIT_CEILING_DIRECTORIES", "GIT_ASKPASS", "GIT_PROXY")
SETTINGS = (
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.safecrlf=false",
    "core.hooksPath=/dev/null",
    "core.logAllRefUpdates=false",
    "core.quotePath=false",
    "i18n.commitEncoding=UTF-8",
)


class GitFailed(Refused):
    """git said no; the message holds its words."""


@dataclass(frozen=True)
class Git:
    """git in `directory`; `variables` are added to its environment. Paths that are not UTF-8 survive
    (surrogateescape)."""

    directory: Path
    variables: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k.startswith(KEPT)}
        own = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_REPLACE_OBJECTS": "1"}
        settings = [word for setting in SETTINGS for word in ("-c", setting)]
        try:
            return subprocess.run(
                ["git", *settings, *arguments],
                cwd=self.directory,
                env=inherited | own | self.variables,
                input=stdin,
                capture_output=True,
                encoding="utf-8",
                errors="surrogateescape",
            )
        except FileNotFoundError as error:
            raise GitFailed("git is not installed here, so the code cannot be recorded") from error

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """What git prints, without the last newline.

        Raises:
            GitFailed: git failed, or warned that it could not read something.
        """
        done = self.run(*arguments, stdin=stdin)
        if done.returncode or "could not open directory" in done.stderr:
            raise GitFailed(f"git {arguments[0]} in {self.directory}: {done.stderr.strip() or done.returncode}")
        return done.stdout.removesuffix("\n")

    def paths(self, *arguments: str) -> list[str]:
        """The NUL-separated list that git prints."""
        return [path for path in self(*arguments).split("\0") if path]
