# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The working tree as a real commit under refs/runs/, made beside the user's index, HEAD, branches and files.

    work tree ─ differs from a copy of the index? add, look again ─ tree ─ commit on HEAD ─ refs/runs/<commit12>

The same tree on the same HEAD gives the same commit, so a thousand runs of one code share one ref. What cannot be
read or taken in is an error: a snapshot never holds less than there is, except files that are listed in `skipped`.
"""

import argparse
import json
import os
import shutil
import stat
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import Refused
from ..machine.leaks import refuse, scan, secret_name, without_credentials
from ..project import Project
from .git import Git, GitFailed

ROUNDS = 3  # how often the tree is looked at again when it changes while it is read
TOTAL_FACTOR = 50  # all new files together may be this many times the cap of one
PRINTED = ("commit", "tree", "ref", "dirty", "skipped", "submodules")  # by --json
NAME = {"NAME": "lab", "EMAIL": "lab@localhost"}


class NoRepository(Refused):
    """There is no git repository with a work tree here."""


@dataclass(frozen=True)
class Repository:
    """`top`: the work tree; `git_dir`: its administration; `head` and its tree are None before the first commit."""

    top: Path
    git_dir: Path
    prefix: str
    head: str | None
    head_tree: str | None
    branch: str | None

    @classmethod
    def find(cls, directory: Path) -> "Repository":
        """The repository around `directory`.

        Raises:
            NoRepository: no git, no repository, or a bare one.
            Refused: git does not trust the owner of the repository.
        """
        places = ("--show-toplevel", "--absolute-git-dir", "--show-prefix")
        try:
            done = Git(directory).run("rev-parse", *places, "HEAD", "HEAD^{tree}", "--symbolic-full-name", "HEAD")
        except GitFailed as error:
            raise NoRepository(str(error)) from error
        if "dubious ownership" in done.stderr:
            advice = next((line.strip() for line in done.stderr.splitlines() if "--add safe.directory" in line), "")
            raise Refused(
                f"git does not trust {directory}, which belongs to another user. If you do, type:\n  {advice}"
            )
        lines = done.stdout.split("\n")
        if len(lines) < 4:
            reason = "a bare repository" if "work tree" in done.stderr else "not a git repository"
            raise NoRepository(f"{directory} is {reason}. To have code recorded: git init && git add . && git commit")
        top, git_dir, prefix = Path(lines[0]), Path(lines[1]), lines[2]
        if done.returncode:  # before the first commit
            branch = Git(directory).run("symbolic-ref", "--short", "-q", "HEAD").stdout.strip()
            return cls(top, git_dir, prefix, None, None, branch)
        head, tree, branch = lines[3:6]
        return cls(top, git_dir, prefix, head, tree, None if branch == "HEAD" else branch.removeprefix("refs/heads/"))


def snapshot(directory: Path, *, max_file_mb: float = 10, allow: bool = False) -> dict:
    """Freezes the work tree around `directory` and returns what a record needs to know of it.

    Args:
        max_file_mb: files that git does not track yet are skipped above this size (10**6 bytes).
        allow: record also what looks like a token.

    Returns:
        `commit, tree, ref, dirty, head, branch, remote, prefix, n_changed, n_untracked, skipped, submodules`;
        `skipped` is a list of `{path, reason}`, `submodules` one of `{path, commit, dirty, …}`.

    Raises:
        NoRepository: nothing to freeze here.
        Refused: git cannot write or read something, the tree keeps changing, or a token was found.
    """
    repository = Repository.find(directory)
    with tempfile.TemporaryDirectory(prefix="lab-snapshot-") as temporary:
        index = Path(temporary) / "index"
        if (repository.git_dir / "index").exists():
            shutil.copy2(repository.git_dir / "index", index)  # with its time stamp: git judges racy edits by it
        git = Git(repository.top, {"GIT_INDEX_FILE": str(index)})
        gitlinks = unhide(git, repository.top)
        submodules = freeze_submodules(git, repository.top, gitlinks, max_file_mb=max_file_mb, allow=allow)
        found = take_in(git, repository.top, max_file_mb * 1e6, allow)
        tree = git("write-tree")
        commit = repository.head if tree == repository.head_tree else commit_tree(git, tree, repository.head)
    ref = f"refs/runs/{commit[:12]}"
    pin(Git(repository.top), ref, commit)
    return {
        "commit": commit,
        "tree": tree,
        "ref": ref,
        "dirty": commit != repository.head,
        "head": repository.head,
        "branch": repository.branch,
        "remote": remote_url(Git(repository.top), repository.branch),
        "prefix": repository.prefix,
        **found,
        "submodules": submodules,
    }


def unhide(git: Git, top: Path) -> list[str]:
    """Clears assume-unchanged and skip-worktree in the copied index for files that exist; returns all submodules."""
    hidden, gitlinks = [], []
    for line in git.paths("ls-files", "-v", "-s", "-z"):
        entry, path = line.split("\t", 1)
        flag, mode = entry[0], entry[2:8]
        if mode == "160000":
            gitlinks.append(path)
        elif (flag.islower() or flag == "S") and os.path.lexists(top / path):
            hidden.append(path)
    if hidden:
        names = "\0".join(hidden) + "\0"
        for flag in ("--no-assume-unchanged", "--no-skip-worktree"):
            git("update-index", flag, "-z", "--stdin", stdin=names)
    return gitlinks


def take_in(git: Git, top: Path, max_bytes: float, allow: bool) -> dict:
    """Adds every change to the copied index until git sees no difference any more; counts and skipped files."""
    taken: dict[str, set[str]] = {"changed": set(), "untracked": set()}
    for _ in range(ROUNDS + 1):
        changed = git.paths("diff-files", "--name-only", "--ignore-submodules=all", "-z")
        untracked, skipped = choose(top, git.paths("ls-files", "-o", "--exclude-standard", "-z"), max_bytes)
        if not changed and not untracked:
            counts = {f"n_{kind}": len(paths) for kind, paths in taken.items()}
            return counts | {"skipped": skipped}
        if not allow:
            refuse_tokens(top, [*changed, *untracked])
        taken["changed"] |= set(changed) - taken["untracked"]
        taken["untracked"] |= set(untracked)
        names = "".join(f"{path}\0" for path in dict.fromkeys([*changed, *untracked]))
        git("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=names)
    files = ", ".join([*changed, *untracked][:3])
    raise Refused(
        f"these files keep changing while they are recorded: {files}. Stop what writes them, or have git ignore them."
    )


def choose(top: Path, untracked: list[str], max_bytes: float) -> tuple[list[str], list[dict]]:
    """Splits untracked paths into those to take and those to skip, with the reason."""
    take, skipped, total = [], [], 0
    for path in untracked:
        try:
            status = os.lstat(top / path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        if path.endswith("/"):
            skipped.append({"path": path, "reason": "nested-repository"})
        elif secret_name(path):
            skipped.append({"path": path, "reason": "secret-name"})
        elif stat.S_ISREG(status.st_mode) and status.st_size > max_bytes:
            skipped.append({"path": path, "reason": "size", "bytes": status.st_size})
        else:
            take.append(path)
            total += status.st_size
    if total > TOTAL_FACTOR * max_bytes:
        raise Refused(
            f"{len(take)} files ({total / 1e9:.1f} GB) are neither tracked nor ignored by git, "
            f"for example {take[0]}. Name the ones that are not code in .gitignore."
        )
    return take, skipped


def refuse_tokens(top: Path, paths: list[str]) -> None:
    found = []
    for path in paths:
        try:
            if stat.S_ISREG(os.lstat(top / path).st_mode):
                found += scan((top / path).read_bytes(), path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise Refused(f"cannot read {top / path} ({error.strerror}), so the code cannot be recorded") from error
    refuse(found)


def freeze_submodules(git: Git, top: Path, paths: list[str], **options: Any) -> list[dict]:
    """A snapshot inside each checked-out submodule, whose commit becomes the gitlink in the copied index."""
    submodules = []
    for path in dict.fromkeys(paths):
        if not (top / path / ".git").exists():
            submodules.append({"path": path, "commit": None, "dirty": False, "note": "not checked out"})
            continue
        inner = snapshot(top / path, **options)
        git("update-index", "--cacheinfo", f"160000,{inner['commit']},{path}")
        submodules.append({"path": path, **inner})
    return submodules


def commit_tree(git: Git, tree: str, head: str | None) -> str:
    """A commit that depends on nothing but the tree and HEAD: fixed identity, HEAD's date."""
    date = git("show", "-s", "--format=%ct +0000", head) if head else "0 +0000"
    who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in NAME.items()}
    dates = {f"GIT_{role}_DATE": f"@{date}" for role in ("AUTHOR", "COMMITTER")}
    parent = ["-p", head] if head else []
    fixed = Git(git.directory, git.variables | who | dates)
    return fixed("commit-tree", "--no-gpg-sign", *parent, "-m", "The working tree as it was run", tree)


def pin(git: Git, ref: str, commit: str) -> None:
    """Creates `ref` once; an existing one, or one that another process makes meanwhile, must name the same commit."""
    for pause_s in (0, 0.02, 0.1, 0.5):
        time.sleep(pause_s)
        done = git.run("update-ref", "--stdin", stdin=f"create {ref} {commit}\n")
        if done.returncode == 0:
            return
        existing = git.run("rev-parse", "--verify", "-q", ref).stdout.strip()
        if existing == commit:
            return
        if existing:
            raise Refused(f"{ref} is {existing}, not the snapshot {commit}. Delete it with: git update-ref -d {ref}")
    raise GitFailed(f"git cannot write {ref}: {done.stderr.strip()}")


def remote_url(git: Git, branch: str | None) -> str | None:
    """The URL of the branch's remote, else of origin, else of the first one; without credentials."""
    lines = git.run("config", "--get-regexp", r"^(remote\..*\.url|branch\..*\.remote)$").stdout.splitlines()
    settings = dict(line.split(" ", 1) for line in lines if " " in line)
    urls = {key[7:-4]: url for key, url in settings.items() if key.startswith("remote.")}
    name = settings.get(f"branch.{branch}.remote", "origin")
    url = urls.get(name) or next(iter(urls.values()), None)
    return url and without_credentials(url)


def snapshot_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="lab snapshot", description="Freezes the working tree as a commit.")
    parser.add_argument("--repo", type=Path, default=project.root, help="another repository than the project's")
    parser.add_argument("--max-file-mb", type=float, default=10, help="skip larger files that git does not track (10)")
    parser.add_argument("--allow", action="store_true", help="record also what looks like a token")
    parser.add_argument("--json", action="store_true", help="for scripts: " + ", ".join(PRINTED))
    options = parser.parse_args(args)
    found = snapshot(options.repo, max_file_mb=options.max_file_mb, allow=options.allow)
    if options.json:
        print(json.dumps({key: found[key] for key in PRINTED}))
        return
    print(f"{found['commit']} {found['ref']}{' (with uncommitted changes)' if found['dirty'] else ''}")
    for entry in found["skipped"]:
        print(f"skipped {entry['path']}: {entry['reason']}")
