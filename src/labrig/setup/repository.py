"""The git repository of the project: a first commit, and the hooks."""

from __future__ import annotations

import shutil
from pathlib import Path

from ..project import Project, text_of
from .process import output_of, run, say, stop, succeeds


def require_no_conflicts(project: Project) -> None:
    """Stops while files hold both sides of an update, since no tool can read them."""
    if not shutil.which("git"):
        return
    names = output_of("git", "diff", "--name-only", "--diff-filter=U").split("\n")[:-1]
    if names:
        files = "\n  ".join(names)
        stop(
            f"these files hold two versions of some lines:\n  {files}\n"
            "Open each file. Choose between the lines after <<<<<<< and those before >>>>>>>,\n"
            "delete the three lines of marks, then: git add FILE. Then again: make setup"
        )


def make_repository(project: Project, environment: Path) -> None:
    """`git init`, a first commit, the hooks; nothing of it inside a larger repository."""
    if not shutil.which("git"):
        stop("git is not installed, and every record needs it. Install it, then again: make setup")
    if not (project.root / ".git").exists():
        if succeeds("git", "ls-files", "--error-unmatch", "pyproject.toml"):
            say("the project is part of a larger git repository; its hooks stay as they are")
            return
        run("git", "init", "--quiet")
        run("git", "symbolic-ref", "HEAD", "refs/heads/main")
    if not succeeds("git", "rev-parse", "--quiet", "--verify", "HEAD"):
        make_first_commit()
    if "/worktrees/" in text_of(project.root / ".git"):
        say(
            "a linked worktree has the hooks of its main checkout. runs/ and data/ lie here, "
            "and go when the worktree is removed; paths.runs leads elsewhere"
        )
        return
    if not run(environment / "bin" / "pre-commit", "install", fatal=False):
        say("the hooks are not installed, see above. Before each commit type: make check")


def make_first_commit() -> None:
    author = succeeds("git", "var", "GIT_AUTHOR_IDENT")
    committer = succeeds("git", "var", "GIT_COMMITTER_IDENT")
    identity = []
    if not (author and committer):
        identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]
        say(
            "git does not know who you are, so the first commit is by `nobody`. For yours:\n"
            '  git config --global user.name "Your Name"\n'
            "  git config --global user.email you@example.org"
        )
    run("git", "add", "--all")
    run("git", *identity, "commit", "--quiet", "--message", "Start from the template")
