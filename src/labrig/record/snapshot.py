"""Freezes a work tree as a git commit, without changing anything of the user's; `lab snapshot`."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

from ..errors import Refused
from ..machine.known_secrets import known_secrets
from ..machine.secrets import find_tokens, has_secret_name, hide_tokens, refuse_tokens
from ..machine.terminal import printable
from ..project import Project
from .git import Git, GitFailed, Repository, locate, remote_of
from .schema import Code, SkippedFile

ROUNDS = 3  # how often the tree is read again when it changes while it is read
TOTAL_FACTOR = 50  # all new files together may be this many times the limit of one
PRINTED = ("commit", "tree", "ref", "dirty", "skipped", "submodules")  # by --json


def snapshot_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="lab snapshot", description="Freezes the working tree as a commit."
    )
    parser.add_argument(
        "--repo", type=Path, default=project.root, help="another repository than the project's"
    )
    parser.add_argument("--allow", action="store_true", help="record also what looks like a token")
    parser.add_argument("--json", action="store_true", help="for scripts: " + ", ".join(PRINTED))
    options = parser.parse_args(args)
    code = snapshot(options.repo, allow=options.allow)
    if options.json:
        print(json.dumps({key: code[key] for key in PRINTED}))
    else:
        print(f"{code['commit']} {code['ref']}\n{format_code(code)}")


def snapshot(directory: Path, *, max_file_mb: float = 10, allow: bool = False) -> Code:
    """Freezes the work tree around `directory`.

    Args:
        max_file_mb: files that git does not track yet are skipped above this size (10**6 bytes).
        allow: record also what looks like a token.

    Returns:
        The code without what `freeze_code` adds: its bundles and the hashes of package and trial.

    Raises:
        NoRepository: nothing to freeze here.
        Refused: git cannot write or read something, the tree keeps changing, or a token was found.
    """
    repository = locate(directory)
    with tempfile.TemporaryDirectory(prefix="lab-snapshot-") as temporary:
        index = copy_index(repository, Path(temporary))
        git = Git(repository.top, {"GIT_INDEX_FILE": str(index)})
        gitlinks = unhide_files(git)
        submodules = freeze_submodules(git, gitlinks, max_file_mb, allow)
        skipped = add_changes(git, max_file_mb * 1e6, allow)
        tree = git("write-tree")
        commit = repository.head
        if commit is None or tree != repository.head_tree:
            commit = commit_tree(git, tree, repository.head)
    git = Git(repository.top)
    remote = remote_of(git, repository.branch)
    n_changed, n_new = count_changes(git, repository.head_tree, tree)
    return {
        "commit": commit,
        "tree": tree,
        "ref": create_ref(git, commit),
        "dirty": commit != repository.head,
        "head": repository.head,
        "branch": hide_tokens(repository.branch) if repository.branch else None,
        "prefix": repository.prefix,
        "remote": remote.url if remote else None,
        "remote_name": remote.name if remote else None,
        "n_changed": n_changed,
        "n_untracked": n_new,
        "skipped": skipped,
        "submodules": submodules,
    }


def copy_index(repository: Repository, folder: Path) -> Path:
    """A copy of git's index to work on. It keeps the time stamp, by which git judges racy edits."""
    original = repository.git_dir / "index"
    index = folder / "index"
    if original.exists():
        shutil.copy2(original, index)
    return index


def unhide_files(git: Git) -> list[str]:
    """Clears assume-unchanged and skip-worktree in the copied index for files that exist.

    Returns:
        The paths of all submodules.
    """
    hidden = []
    gitlinks = []
    for line in git.paths("ls-files", "-v", "-s", "-z"):
        entry, path = line.split("\t", 1)
        flag = entry[0]
        mode = entry[2:8]
        if mode == "160000":
            gitlinks.append(path)
        elif (flag.islower() or flag == "S") and os.path.lexists(git.directory / path):
            hidden.append(path)
    if hidden:
        names = "".join(f"{path}\0" for path in hidden)
        for flag in ("--no-assume-unchanged", "--no-skip-worktree"):
            git("update-index", flag, "-z", "--stdin", stdin=names)
    return gitlinks


def freeze_submodules(git: Git, paths: list[str], max_file_mb: float, allow: bool) -> list[Code]:
    """Makes a snapshot inside each checked-out submodule.

    Its commit becomes the gitlink in the copied index.
    """
    submodules: list[Code] = []
    for path in dict.fromkeys(paths):
        if not (git.directory / path / ".git").exists():
            submodules.append(
                {"path": path, "commit": None, "dirty": False, "note": "not checked out"}
            )
            continue
        inner = snapshot(git.directory / path, max_file_mb=max_file_mb, allow=allow)
        git("update-index", "--cacheinfo", f"160000,{inner['commit']},{path}")
        submodules.append({"path": path, **inner})
    return submodules


def add_changes(git: Git, max_bytes: float, allow: bool) -> list[SkippedFile]:
    """Adds every change to the copied index, until git sees no difference any more.

    Returns:
        The new files that were left out.

    Raises:
        Refused: the tree keeps changing, or a token was found.
    """
    for _ in range(ROUNDS + 1):
        changed = git.paths("diff-files", "--name-only", "--ignore-submodules=all", "-z")
        listed = git.paths("ls-files", "-o", "--exclude-standard", "-z")
        untracked, skipped = select_untracked(git.directory, listed, max_bytes)
        if not changed and not untracked:
            return skipped
        paths = list(dict.fromkeys([*changed, *untracked]))
        if not allow:
            refuse_tokens_in_files(git.directory, paths)
        names = "".join(f"{path}\0" for path in paths)
        git("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=names)
    names = ", ".join(map(printable, paths[:3]))
    raise Refused(
        f"these files keep changing while they are recorded: {names}. "
        "Stop what writes them, or have git ignore them."
    )


def select_untracked(
    top: Path, paths: list[str], max_bytes: float
) -> tuple[list[str], list[SkippedFile]]:
    """Splits untracked paths into those to add and those to skip, with the reason.

    Raises:
        Refused: the files to add are too large together.
    """
    selected = []
    skipped: list[SkippedFile] = []
    total_bytes = 0
    for path in paths:
        try:
            status = os.lstat(top / path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        if path.endswith("/"):
            skipped.append({"path": path, "reason": "nested-repository"})
        elif has_secret_name(path):
            skipped.append({"path": path, "reason": "secret-name"})
        elif stat.S_ISREG(status.st_mode) and status.st_size > max_bytes:
            skipped.append({"path": path, "reason": "size", "bytes": status.st_size})
        else:
            selected.append(path)
            total_bytes += status.st_size
    if total_bytes > TOTAL_FACTOR * max_bytes:
        raise Refused(
            f"{len(selected)} files ({total_bytes / 1e9:.1f} GB) are neither tracked nor ignored "
            f"by git, for example {printable(selected[0])}. Name those that are not code in .gitignore."
        )
    return selected, skipped


def refuse_tokens_in_files(top: Path, paths: list[str]) -> None:
    """Looks for tokens in files.

    Raises:
        Refused: a token was found, or a file cannot be read.
    """
    secrets = known_secrets()
    tokens = []
    for path in paths:
        try:
            if stat.S_ISREG(os.lstat(top / path).st_mode):
                tokens += find_tokens((top / path).read_bytes(), printable(path), secrets)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise Refused(
                f"cannot read {printable(top / path)} ({error.strerror}), "
                "so the code cannot be recorded. Make it readable, or have git ignore it"
            ) from error
    refuse_tokens(tokens)


def commit_tree(git: Git, tree: str, head: str | None) -> str:
    """A commit that depends on nothing but the tree and HEAD: fixed identity, HEAD's date."""
    date = "0 +0000"
    parents = []
    if head:
        # Not `git show`, which would run programs that the user's configuration names.
        date = git("rev-list", "--no-walk", "--timestamp", head).split()[0] + " +0000"
        parents = ["-p", head]
    identity = {}
    for role in ("AUTHOR", "COMMITTER"):
        identity[f"GIT_{role}_NAME"] = "lab"
        identity[f"GIT_{role}_EMAIL"] = "lab@localhost"
        identity[f"GIT_{role}_DATE"] = f"@{date}"
    message = "The working tree as it was run"
    as_lab = Git(git.directory, git.variables | identity)
    return as_lab("commit-tree", "--no-gpg-sign", *parents, "-m", message, tree)


def count_changes(git: Git, before: str | None, after: str) -> tuple[int, int]:
    """How many files of a tree are changed or deleted in another one, and how many are new there.

    Args:
        before: None stands for a tree without files.
    """
    if before == after:
        return 0, 0
    if before is None:
        return 0, len(git.paths("ls-tree", "-r", "-z", "--name-only", after))
    states = git.paths("diff-tree", "-r", "-z", "--no-renames", "--name-status", before, after)[::2]
    n_new = states.count("A")
    return len(states) - n_new, n_new


def create_ref(git: Git, commit: str) -> str:
    """Creates the ref of a commit, unless it exists already or another process creates it.

    Raises:
        Refused: the ref names another commit.
        GitFailed: git cannot write it.
    """
    ref = f"refs/runs/{commit[:12]}"
    for pause_s in (0, 0.02, 0.1, 0.5):
        time.sleep(pause_s)
        done = git.run("update-ref", "--stdin", stdin=f"create {ref} {commit}\n")
        if done.returncode == 0:
            return ref
        existing = git.run("rev-parse", "--verify", "-q", ref).stdout.strip()
        if existing == commit:
            return ref
        if existing:
            raise Refused(
                f"{ref} is {existing}, not the snapshot {commit}. "
                f"Delete it with: git update-ref -d {ref}"
            )
    raise GitFailed(f"git cannot write {ref}: {done.stderr.strip()}")


def format_code(code: Code) -> str:
    """A snapshot in one line.

    For example: `1a2b3c4d5e6f = main 0123456789ab + 2 changed and 1 new files; left out: .env
    (secret-name)`.
    """
    if not code.get("commit"):
        return f"not recorded: {code.get('reason', 'unknown')}"
    branch = printable(code.get("branch") or "no branch")
    head = code.get("head") or ""
    text = f"{code['commit'][:12]} = {branch} {head[:12]}"
    if code.get("dirty"):
        text += f" + {code['n_changed']} changed and {code['n_untracked']} new files"
    skipped = [f"{file['path']} ({file['reason']})" for file in code.get("skipped", [])]
    if skipped:
        text += f"; left out: {', '.join(skipped)}"
    return printable(text)
