"""The files of frozen code: git's hash of each, and why a file is not among them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ...env import FROZEN_LIBRARY
from ..files.atomic import write_file
from ..files.code_section import checked_out_submodules
from ..files.schema import Code
from .git import Git

# Lies with the files of a run's code: what `git ls-tree` says of them, since a node may lack git.
FILE_LIST = ".lab-snapshot.files"

# Why a snapshot skips a file, in words.
REASONS = {
    "size": "larger than record.max_file_mb",
    "secret-name": "named like a secret",
    "nested-repository": "in a repository of its own",
}
# What has it recorded; of other files that git does not know it is `git add -f`.
WAYS = {
    REASONS["size"]: "raise record.max_file_mb",
    REASONS["secret-name"]: "give it another name, or commit it",
    REASONS["nested-repository"]: "make that a submodule, with git submodule add",
}


def write_file_list(git: Git, tree: str, directory: Path) -> None:
    """Writes the list of the files of `tree` into `directory`, the unpacked copy of it."""
    text = git("ls-tree", "-r", "-z", "--full-tree", "--end-of-options", tree)
    # Not through a link of this name in the code.
    write_file(directory / FILE_LIST, text)


def frozen_hashes(code: Code, directory: Path, unpacked: bool = False) -> dict[str, str]:
    """Git's hash of every regular file of the frozen code, by its path relative to `directory`.

    Args:
        directory: the work tree that the code was frozen from, or an unpacked copy.
        unpacked: `directory` is an unpacked copy; git is not needed then.
    """
    if unpacked:
        text = (directory / FILE_LIST).read_text(encoding="utf-8", errors="surrogateescape")
    else:
        text = Git(directory)(
            "ls-tree", "-r", "-z", "--full-tree", "--end-of-options", code["commit"]
        )
    hashes = hashes_in_list(text)
    for submodule in checked_out_submodules(code):
        path = submodule["path"]
        if unpacked or path != FROZEN_LIBRARY:  # the library is no part of the work tree
            inner = frozen_hashes(submodule, directory / path, unpacked)
            hashes |= {f"{path}/{name}": value for name, value in inner.items()}
    return hashes


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


def skip_reason(code: Code, path: str) -> str | None:
    """Why a snapshot skipped a file that it could have recorded; None: it did not.

    Args:
        path: relative to the work tree.
    """
    for entry in code.get("skipped", []):
        is_inside = entry["path"].endswith("/") and path.startswith(entry["path"])
        if path == entry["path"] or is_inside:
            return REASONS[entry["reason"]]
    return None


def way_to_record(path: str, reason: str) -> str:
    """What to do so that the next snapshot has a file that one left out for `reason`."""
    ways = [way for end, way in WAYS.items() if reason.endswith(end)]
    return ways[0] if ways else f"git add -f {path}"


def left_out_reason(root: Path, code: Code, name: str) -> str | None:
    """Why a snapshot left out the file `name` of the project at `root`; None: no rule says so.

    Args:
        name: relative to `root`.
    """
    skipped = skip_reason(code, code["prefix"] + name)
    if skipped:
        return skipped
    answer = Git(root).run("check-ignore", "--verbose", "--no-index", name).stdout
    rule = answer.partition("\t")[0]
    if not rule:
        return None
    file, line, pattern = rule.split(":", 2)
    if pattern.startswith("!"):  # a rule that takes a file out of what others ignore
        return None
    return f"ignored by {pattern!r} in {file}:{line}"
