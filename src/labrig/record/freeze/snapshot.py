"""Freezes a work tree as a git commit, without changing anything of the user's; `lab snapshot`."""

from __future__ import annotations

import json
import os
import stat
import tempfile
import time
from pathlib import Path

from ...command_parser import CommandParser
from ...errors import Refused
from ...machine.secrets import (
    find_tokens,
    find_tokens_in_file,
    has_secret_name,
    hide_tokens,
    known_secrets,
    refuse_tokens,
)
from ...machine.text_formats import and_more, printable
from ...project import Project
from ..files.schema import Code, SkippedFile, Submodule
from .git import (
    Git,
    GitFailed,
    IndexEntry,
    Staged,
    copy_index,
    forget,
    forget_replaced,
    list_entries,
    list_staged,
    locate,
    remote_of,
    touched_files,
    unhide_files,
)

ROUNDS = 3  # how often the tree is read again when it changes while it is read
TOTAL_FACTOR = 50  # all new files together may be this many times the limit of one
PRINTED = ("commit", "tree", "ref", "dirty", "skipped", "submodules")  # by --json


def snapshot_command(project: Project, args: list[str]) -> None:
    parser = CommandParser(prog="lab snapshot", description="Freezes the working tree as a commit.")
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
    """
    repository = locate(directory)
    with tempfile.TemporaryDirectory(prefix="lab-snapshot-") as temporary:
        index = copy_index(repository, Path(temporary))
        git = Git(repository.top, {"GIT_INDEX_FILE": str(index)})
        entries = forget_replaced(git, list_entries(git))
        unhide_files(git, entries)
        gitlinks = [entry.path for entry in entries if entry.is_submodule]
        submodules = freeze_submodules(git, gitlinks, max_file_mb, allow)
        staged = list_staged(git, repository.head_tree)
        if not allow:
            refuse_staged_tokens(git, staged, entries)
        touched = touched_files(git, entries)
        _, left_out = select_new(git.directory, staged.new, max_file_mb * 1e6)
        forget(git, [file["path"] for file in left_out] + touched)
        unseen = set(touched) - {file["path"] for file in left_out}
        n_added, skipped = add_changes(git, sorted(unseen), max_file_mb * 1e6, allow)
        skipped = list({file["path"]: file for file in [*left_out, *skipped]}.values())
        tree = repository.head_tree
        if tree is None or staged or submodules or n_added:
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


def freeze_submodules(
    git: Git, paths: list[str], max_file_mb: float, allow: bool
) -> list[Submodule]:
    """Makes a snapshot inside each checked-out submodule.

    Its commit becomes the gitlink in the copied index.
    """
    submodules: list[Submodule] = []
    for path in dict.fromkeys(paths):
        if not (git.directory / path / ".git").exists():
            submodules.append({"path": path, "dirty": False, "note": "not checked out"})
            continue
        inner = snapshot(git.directory / path, max_file_mb=max_file_mb, allow=allow)
        git("update-index", "--cacheinfo", f"160000,{inner['commit']},{path}")
        submodules.append({"path": path, **inner})
    return submodules


def add_changes(
    git: Git, unseen: list[str], max_bytes: float, allow: bool
) -> tuple[int, list[SkippedFile]]:
    """Adds every change to the copied index, until git sees no difference any more.

    Args:
        unseen: files to add that git may ignore or take for unchanged.

    Returns:
        How many files were added or removed, and the new files that were left out.
    """
    n_added = 0
    for _ in range(ROUNDS + 1):
        changed = git.paths("diff-files", "--name-only", "--ignore-submodules=all", "-z")
        listed = git.paths("ls-files", "-o", "--exclude-standard", "-z")
        tracked = set(unseen)
        untracked, skipped = select_new(
            git.directory, [path for path in listed if path not in tracked], max_bytes
        )
        paths = list(dict.fromkeys([*unseen, *changed, *untracked]))
        if not paths:
            return n_added, skipped
        if not allow:
            refuse_tokens_in_files(git.directory, paths)
        names = "".join(f"{path}\0" for path in paths)
        git("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=names)
        n_added += len(paths)
        unseen = []
    names = and_more(map(printable, paths), 3)
    raise Refused(
        f"these files keep changing while they are recorded: {names}. "
        "Stop what writes them, or have git ignore them."
    )


def select_new(
    top: Path, paths: list[str], max_bytes: float
) -> tuple[list[str], list[SkippedFile]]:
    """Splits the paths of new files into those to record and those to leave out, with the reason."""
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
            f"{len(selected)} files ({total_bytes / 1e9:.1f} GB) are neither committed nor ignored "
            f"by git, for example {printable(selected[0])}. Name those that are not code in .gitignore."
        )
    return selected, skipped


def refuse_staged_tokens(git: Git, staged: Staged, entries: list[IndexEntry]) -> None:
    """Looks for tokens in what is staged, as it will be recorded: from the work tree.

    A file with a flag that is not in the work tree is recorded as it is staged.
    """
    paths = [*staged.new, *staged.changed]
    refuse_tokens_in_files(git.directory, paths)
    hidden = {entry.path for entry in entries if entry.is_hidden}
    secrets = known_secrets()
    tokens = []
    for path in hidden.intersection(paths):
        if not os.path.lexists(git.directory / path):
            content = git.content("cat-file", "blob", f":{path}")
            tokens += find_tokens(content, printable(path), secrets)
    refuse_tokens(tokens)


def refuse_tokens_in_files(top: Path, paths: list[str]) -> None:
    """Looks for tokens in files."""
    secrets = known_secrets()
    tokens = []
    for path in paths:
        try:
            if stat.S_ISREG(os.lstat(top / path).st_mode):
                tokens += find_tokens_in_file(top / path, printable(path), secrets)
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
    """Creates the ref of a commit, unless it exists already or another process creates it."""
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
