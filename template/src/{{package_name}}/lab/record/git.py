# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Git as the record uses it: never asks, never changes what belongs to the user."""

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import Refused
from ..machine.secrets import without_credentials

KEPT = (
    "GIT_SSH",
    "GIT_CONFIG",
    "GIT_EXEC_PATH",
    "GIT_CEILING_DIRECTORIES",
    "GIT_ASKPASS",
    "GIT_PROXY",
)

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
# The last one: git asks for 256 kB anew for each object; kept instead of given back, packing takes half the time.
VARIABLES = {
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "MALLOC_TRIM_THRESHOLD_": "67108864",
}


class GitFailed(Refused):
    """git said no; the message holds its words."""


@dataclass(frozen=True)
class Git:
    """git in `directory`; `variables` are added to its environment. Paths that are not UTF-8 survive
    (surrogateescape)."""

    directory: Path
    variables: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        inherited = {
            k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k.startswith(KEPT)
        }
        settings = [word for setting in SETTINGS for word in ("-c", setting)]
        try:
            return subprocess.run(
                ["git", *settings, *arguments],
                cwd=self.directory,
                env=inherited | VARIABLES | self.variables,
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
            raise GitFailed(
                f"git {arguments[0]} in {self.directory}: {done.stderr.strip() or done.returncode}"
            )
        return done.stdout.removesuffix("\n")

    def paths(self, *arguments: str) -> list[str]:
        """The NUL-separated list that git prints."""
        return [path for path in self(*arguments).split("\0") if path]


class NoRepository(Refused):
    """There is no git repository with a work tree here."""


def locate(directory: Path) -> dict:
    """The repository around `directory`: `top` (the work tree), `git_dir`, `prefix` (of `directory` in it), `head` and
    `head_tree` (None before the first commit), `branch` (None when HEAD is detached).

    Raises:
        NoRepository: no git, no repository, or a bare one.
        Refused: git does not trust the owner of the repository.
    """
    git = Git(directory)
    places = ("--show-toplevel", "--absolute-git-dir", "--show-prefix")
    try:
        done = git.run("rev-parse", *places, "HEAD", "HEAD^{tree}", "--symbolic-full-name", "HEAD")
    except GitFailed as error:
        raise NoRepository(str(error)) from error
    if "dubious ownership" in done.stderr:
        advice = next(
            (line.strip() for line in done.stderr.splitlines() if "--add safe.directory" in line),
            "",
        )
        raise Refused(
            f"git does not trust {directory}, which belongs to another user. If you do, type:\n  {advice}"
        )
    lines = done.stdout.split("\n")
    if len(lines) < 4:
        reason = "a bare repository" if "work tree" in done.stderr else "not a git repository"
        raise NoRepository(
            f"{directory} is {reason}. To have code recorded: git init && git add . && git commit"
        )
    found = dict(
        zip(("top", "git_dir", "prefix", "head", "head_tree", "branch"), lines, strict=False)
    )
    if done.returncode:  # before the first commit
        found |= {
            "head": None,
            "head_tree": None,
            "branch": git.run("symbolic-ref", "-q", "HEAD").stdout.strip(),
        }
    branch = found["branch"].removeprefix("refs/heads/")
    return found | {"top": Path(found["top"]), "branch": None if branch == "HEAD" else branch}


def remote_url(git: Git, branch: str | None) -> str | None:
    """The URL of the branch's remote, else of origin, else of the first one; without credentials."""
    lines = git.run(
        "config", "--get-regexp", r"^(remote\..*\.url|branch\..*\.remote)$"
    ).stdout.splitlines()
    settings = dict(line.split(" ", 1) for line in lines if " " in line)
    urls = {key[7:-4]: url for key, url in settings.items() if key.startswith("remote.")}
    name = settings.get(f"branch.{branch}.remote", "origin")
    url = urls.get(name) or next(iter(urls.values()), None)
    return url and without_credentials(url)
