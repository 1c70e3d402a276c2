# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`snapshot` freezes the working tree as a commit, without touching the index, the branch or a file of the user."""

import argparse
import json
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path
from typing import Any

from ..errors import Refused
from ..machine.secrets import find_tokens, has_secret_name, refuse_tokens
from ..project import Project
from .git import Git, GitFailed, locate, remote_url

ROUNDS = 3  # how often the tree is looked at again when it changes while it is read
TOTAL_FACTOR = 50  # all new files together may be this many times the cap of one
PRINTED = ("commit", "tree", "ref", "dirty", "skipped", "submodules")  # by --json


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
    found = locate(directory)
    top, head = found["top"], found["head"]
    with tempfile.TemporaryDirectory(prefix="lab-snapshot-") as temporary:
        original, index = Path(found["git_dir"]) / "index", Path(temporary) / "index"
        if original.exists():
            shutil.copy2(original, index)  # with its time stamp: git judges racy edits by it
        git = Git(top, {"GIT_INDEX_FILE": str(index)})
        submodules = freeze_submodules(git, unhide(git), max_file_mb=max_file_mb, allow=allow)
        taken = add_changes(git, max_file_mb * 1e6, allow)
        tree = git("write-tree")
        commit = head if tree == found["head_tree"] else commit_tree(git, tree, head)
    ref = create_ref(Git(top), commit)
    about = {key: found[key] for key in ("head", "branch", "prefix")}
    about["remote"] = remote_url(Git(top), found["branch"])
    kept = {"commit": commit, "tree": tree, "ref": ref, "dirty": commit != head}
    return kept | about | taken | {"submodules": submodules}


def unhide(git: Git) -> list[str]:
    """Clears assume-unchanged and skip-worktree in the copied index for files that exist; returns all submodules."""
    hidden, gitlinks = [], []
    for line in git.paths("ls-files", "-v", "-s", "-z"):
        entry, path = line.split("\t", 1)
        flag, mode = entry[0], entry[2:8]
        if mode == "160000":
            gitlinks.append(path)
        elif (flag.islower() or flag == "S") and os.path.lexists(git.directory / path):
            hidden.append(path)
    if hidden:
        names = "\0".join(hidden) + "\0"
        for flag in ("--no-assume-unchanged", "--no-skip-worktree"):
            git("update-index", flag, "-z", "--stdin", stdin=names)
    return gitlinks


def add_changes(git: Git, max_bytes: float, allow: bool) -> dict:
    """Adds every change to the copied index until git sees no difference any more; counts and skipped files."""
    taken: dict[str, set[str]] = {"changed": set(), "untracked": set()}
    for _ in range(ROUNDS + 1):
        changed = git.paths("diff-files", "--name-only", "--ignore-submodules=all", "-z")
        untracked, skipped = select_untracked(
            git.directory, git.paths("ls-files", "-o", "--exclude-standard", "-z"), max_bytes
        )
        if not changed and not untracked:
            counts = {f"n_{kind}": len(paths) for kind, paths in taken.items()}
            return counts | {"skipped": skipped}
        if not allow:
            refuse_tokens_in(git.directory, [*changed, *untracked])
        taken["changed"] |= set(changed) - taken["untracked"]
        taken["untracked"] |= set(untracked)
        names = "".join(f"{path}\0" for path in dict.fromkeys([*changed, *untracked]))
        git("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=names)
    files = ", ".join([*changed, *untracked][:3])
    raise Refused(
        f"these files keep changing while they are recorded: {files}. Stop what writes them, or have git ignore them."
    )


def select_untracked(
    top: Path, untracked: list[str], max_bytes: float
) -> tuple[list[str], list[dict]]:
    """Splits untracked paths into those to take and those to skip, with the reason."""
    take, skipped, total = [], [], 0
    for path in untracked:
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
            take.append(path)
            total += status.st_size
    if total > TOTAL_FACTOR * max_bytes:
        raise Refused(
            f"{len(take)} files ({total / 1e9:.1f} GB) are neither tracked nor ignored by git, "
            f"for example {take[0]}. Name the ones that are not code in .gitignore."
        )
    return take, skipped


def refuse_tokens_in(top: Path, paths: list[str]) -> None:
    found = []
    for path in paths:
        try:
            if stat.S_ISREG(os.lstat(top / path).st_mode):
                found += find_tokens((top / path).read_bytes(), path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise Refused(
                f"cannot read {top / path} ({error.strerror}), so the code cannot be recorded"
            ) from error
    refuse_tokens(found)


def freeze_submodules(git: Git, paths: list[str], **options: Any) -> list[dict]:
    """A snapshot inside each checked-out submodule, whose commit becomes the gitlink in the copied index."""
    submodules = []
    for path in dict.fromkeys(paths):
        if not (git.directory / path / ".git").exists():
            submodules.append(
                {"path": path, "commit": None, "dirty": False, "note": "not checked out"}
            )
            continue
        inner = snapshot(git.directory / path, **options)
        git("update-index", "--cacheinfo", f"160000,{inner['commit']},{path}")
        submodules.append({"path": path, **inner})
    return submodules


def commit_tree(git: Git, tree: str, head: str | None) -> str:
    """A commit that depends on nothing but the tree and HEAD: fixed identity, HEAD's date."""
    date = git("show", "-s", "--format=%ct +0000", head) if head else "0 +0000"
    about = {"NAME": "lab", "EMAIL": "lab@localhost", "DATE": f"@{date}"}
    who = {
        f"GIT_{role}_{key}": value
        for role in ("AUTHOR", "COMMITTER")
        for key, value in about.items()
    }
    parent = ["-p", head] if head else []
    fixed = Git(git.directory, git.variables | who)
    return fixed(
        "commit-tree", "--no-gpg-sign", *parent, "-m", "The working tree as it was run", tree
    )


def create_ref(git: Git, commit: str) -> str:
    """The ref of `commit`, created once; an existing one, or one that another process makes meanwhile, must name it."""
    ref = f"refs/runs/{commit[:12]}"
    for pause_s in (0, 0.02, 0.1, 0.5):
        time.sleep(pause_s)
        done = git.run("update-ref", "--stdin", stdin=f"create {ref} {commit}\n")
        existing = (
            commit
            if done.returncode == 0
            else git.run("rev-parse", "--verify", "-q", ref).stdout.strip()
        )
        if existing == commit:
            return ref
        if existing:
            raise Refused(
                f"{ref} is {existing}, not the snapshot {commit}. Delete it with: git update-ref -d {ref}"
            )
    raise GitFailed(f"git cannot write {ref}: {done.stderr.strip()}")


def code_line(code: dict) -> str:
    """A snapshot in one line: `1a2b3c4d5e6f = main 0123456789ab + 2 changed and 1 new files; left out: .env (secret-name)`."""
    if not code.get("commit"):
        return f"not recorded: {code.get('reason', 'unknown')}"
    changes = (
        f" + {code['n_changed']} changed and {code['n_untracked']} new files"
        if code.get("dirty")
        else ""
    )
    skipped = ", ".join(f"{entry['path']} ({entry['reason']})" for entry in code.get("skipped", []))
    head = f"{code['commit'][:12]} = {code.get('branch') or 'no branch'} {(code.get('head') or '')[:12]}"
    return head + changes + (f"; left out: {skipped}" if skipped else "")


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
    found = snapshot(options.repo, allow=options.allow)
    printed = json.dumps({key: found[key] for key in PRINTED})
    print(printed if options.json else f"{found['commit']} {found['ref']}\n{code_line(found)}")
