"""The files of frozen code: git's hash of each, and why a file is not among them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from .code_section import checked_out_submodules
from .git import Git
from .schema import Code

# Lies with the files of a run's code: what `git ls-tree` says of them, since a node may lack git.
FILE_LIST = ".lab-snapshot.files"

# Why a snapshot skips a file, in words.
REASONS = {
    "size": "larger than record.max_file_mb",
    "secret-name": "named like a secret",
    "nested-repository": "in a repository of its own",
}


def write_file_list(git: Git, commit: str, directory: Path) -> None:
    """Writes the list of the files of `commit` into `directory`, the unpacked copy of it."""
    text = git("ls-tree", "-r", "-z", "--full-tree", commit)
    (directory / FILE_LIST).write_text(text, encoding="utf-8", errors="surrogateescape")


def frozen_hashes(
    code: Code, directory: Path, names: list[str], unpacked: bool = False
) -> dict[str, str]:
    """Git's hash of those of `names` that are regular files of the frozen code.

    Args:
        directory: the work tree that the code was frozen from, or an unpacked copy.
        names: paths relative to `directory`, without links.
        unpacked: `directory` is an unpacked copy; git is not needed then.

    Raises:
        GitFailed: git does not have the commit.
    """
    hashes = {}
    for submodule in checked_out_submodules(code):
        prefix = f"{submodule['path']}/"
        inner_names = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
        if inner_names:
            inner = frozen_hashes(submodule, directory / submodule["path"], inner_names, unpacked)
            hashes |= {prefix + name: value for name, value in inner.items()}
    if unpacked:
        text = (directory / FILE_LIST).read_text(encoding="utf-8", errors="surrogateescape")
    else:
        text = list_files(Git(directory), code["commit"], names)
    of_commit = hashes_in_list(text)
    return hashes | {name: of_commit[name] for name in names if name in of_commit}


def list_files(git: Git, commit: str, names: list[str]) -> str:
    """What `git ls-tree` says of `names`; those that the commit lacks are missing."""
    return git("ls-tree", "-r", "-z", "--full-tree", commit, "--", *names) if names else ""


def hashes_in_list(text: str) -> dict[str, str]:
    """The hash of every regular file that `git ls-tree -r -z` has listed."""
    hashes = {}
    for line in text.split("\0"):
        about, separator, name = line.partition("\t")
        if separator and about.startswith("100"):  # neither a link nor a submodule
            hashes[name] = about.split()[2]
    return hashes


def git_hash(content: bytes, hash_like: str) -> str:
    """Git's hash of a file that holds `content`, by the algorithm that made `hash_like`."""
    algorithm = "sha1" if len(hash_like) == 40 else "sha256"
    head = b"blob %d\0" % len(content)
    return hashlib.new(algorithm, head + content, usedforsecurity=False).hexdigest()


def filtered_hashes(git: Git, names: list[str]) -> dict[str, str]:
    """The hashes by which git would store files: its filters may change line ends.

    Args:
        names: of existing files, absolute or relative to `git.directory`.
    """
    lines = "".join(f"{name}\n" for name in names)
    hashes = git("hash-object", "--stdin-paths", stdin=lines).splitlines() if names else []
    return dict(zip(names, hashes, strict=True))


def is_readme(path: str) -> bool:
    """Whether a file is a README, which is for people. Other texts, such as prompts, are read by code."""
    return path.rpartition("/")[2] == "README.md"


def left_out_reason(root: Path, code: Code, name: str) -> str | None:
    """Why a snapshot left out the file `name` of the project at `root`; None: no rule says so.

    Args:
        name: relative to `root`.
    """
    path = code["prefix"] + name
    for entry in code.get("skipped", []):
        if path == entry["path"] or (
            entry["path"].endswith("/") and path.startswith(entry["path"])
        ):
            return REASONS[entry["reason"]]
    answer = Git(root).run("check-ignore", "--verbose", "--no-index", name).stdout
    rule = answer.partition("\t")[0]
    if not rule:
        return None
    file, line, pattern = rule.split(":", 2)
    if pattern.startswith("!"):  # a rule that takes a file out of what others ignore
        return None
    return f"ignored by {pattern!r} in {file}:{line}"
