"""Git as the record uses it: never asks, never changes what belongs to the user."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any

from ..errors import Refused
from ..machine.secrets import without_credentials

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
    # git frees 256 kB after each object and asks for them again. Keeping them halves the time
    # of packing.
    "MALLOC_TRIM_THRESHOLD_": "67108864",
}
PLACES = ("--show-toplevel", "--absolute-git-dir", "--show-prefix")  # what `locate` asks for


class GitFailed(Refused):
    """git failed; the message holds what it printed."""


class NoRepository(Refused):
    """There is no git repository with a work tree here."""


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
        settings = [word for setting in SETTINGS for word in ("-c", setting)]
        source: dict[str, Any] = {"stdin": file} if file else {"input": stdin}
        try:
            return subprocess.run(
                ["git", *settings, *arguments],
                cwd=self.directory,
                env=inherited_environment() | VARIABLES | self.variables,
                capture_output=True,
                encoding="utf-8",
                errors="surrogateescape",
                **source,
            )
        except FileNotFoundError as error:
            raise GitFailed(
                "git is not installed here, so the code cannot be recorded. Install it, or: module load git"
            ) from error

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """What git prints, without the last newline.

        Raises:
            GitFailed: git failed, or warned that it could not read something.
        """
        done = self.run(*arguments, stdin=stdin)
        if done.returncode or "could not open directory" in done.stderr:
            reason = done.stderr.strip() or f"exit code {done.returncode}"
            raise GitFailed(
                f"git {arguments[0]} failed in {self.directory}: {reason}. To look: git status"
            )
        return done.stdout.removesuffix("\n")

    def content(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """What git prints, byte for byte.

        Raises:
            GitFailed: git failed.
        """
        settings = [word for setting in SETTINGS for word in ("-c", setting)]
        done = subprocess.run(
            ["git", *settings, *arguments],
            cwd=self.directory,
            env=inherited_environment() | VARIABLES | self.variables,
            input=stdin,
            capture_output=True,
        )
        if done.returncode:
            reason = done.stderr.decode(errors="replace").strip()
            raise GitFailed(
                f"git {arguments[0]} failed in {self.directory}: {reason}. To look: git status"
            )
        return done.stdout

    def paths(self, *arguments: str) -> list[str]:
        """The NUL-separated list that git prints."""
        return [path for path in self(*arguments).split("\0") if path]


def inherited_environment() -> dict[str, str]:
    """This process's environment, without variables that lead git to another repository."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith(INHERITED)
    }


@dataclass(frozen=True)
class Repository:
    """The repository around a directory."""

    top: Path  # the work tree
    git_dir: Path
    prefix: str  # of the directory in the work tree: "" or with a slash at the end
    head: str | None  # None before the first commit
    head_tree: str | None
    branch: str | None  # None when HEAD is detached


def locate(directory: Path) -> Repository:
    """The repository around `directory`.

    Raises:
        NoRepository: no git, no repository, or a bare one.
        Refused: git does not trust the owner of the repository.
    """
    git = Git(directory)
    try:
        done = git.run("rev-parse", *PLACES, "HEAD", "HEAD^{tree}", "--symbolic-full-name", "HEAD")
    except GitFailed as error:
        raise NoRepository(str(error)) from error
    if "dubious ownership" in done.stderr:
        raise Refused(ownership_message(directory, done.stderr))
    lines = done.stdout.split("\n")
    if len(lines) < 4:
        reason = "a bare repository" if "work tree" in done.stderr else "not a git repository"
        raise NoRepository(
            f"{directory} is {reason}. To have code recorded: git init && git add . && git commit"
        )
    top, git_dir, prefix = lines[:3]
    head = None
    head_tree = None
    if done.returncode == 0:
        head, head_tree, full_branch = lines[3:6]
    else:  # before the first commit
        full_branch = git.run("symbolic-ref", "-q", "HEAD").stdout.strip()
    branch = None if full_branch == "HEAD" else full_branch.removeprefix("refs/heads/")
    return Repository(Path(top), Path(git_dir), prefix, head, head_tree, branch)


def ownership_message(directory: Path, stderr: str) -> str:
    """What to type when git does not trust the owner; git prints the command itself."""
    commands = [line.strip() for line in stderr.splitlines() if "--add safe.directory" in line]
    advice = commands[0] if commands else ""
    return (
        f"git does not trust {directory}, because it belongs to another user. "
        f"If you trust it, type:\n  {advice}"
    )


@dataclass(frozen=True)
class Remote:
    """A remote of a repository; its URL has no credentials."""

    name: str
    url: str


def remote_of(git: Git, branch: str | None) -> Remote | None:
    """The remote of a branch, else origin, else the first; None when there is none."""
    pattern = r"^(remote\..*\.url|branch\..*\.remote)$"
    lines = git.run("config", "--get-regexp", pattern).stdout.splitlines()
    urls: dict[str, str] = {}
    remotes_of_branches = {}
    for line in lines:
        key, _, value = line.partition(" ")
        kind, _, rest = key.partition(".")
        name = rest.rpartition(".")[0]
        if kind == "branch":
            remotes_of_branches[name] = value
        else:
            urls.setdefault(name, value)  # git fetches from the first of several
    for name in (remotes_of_branches.get(branch), "origin", *urls):
        if name in urls:
            return Remote(name, without_credentials(urls[name]))
    return None
