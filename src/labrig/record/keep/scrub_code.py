"""Takes a leaked value out of the frozen code of a run: as a new commit without history."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...project import this_project
from ..files.schema import Code
from ..freeze.bundle import STORE, BundleFile, link_or_copy, write_bundle
from ..freeze.frozen import repository_with, tree_hashes
from ..freeze.git import Git
from ..freeze.snapshot import commit_tree, create_ref

MASK = b"***"  # in place of the value
BATCH = 500  # objects that git prints at once
SPECIAL = "160000"  # the mode of a submodule, whose code is elsewhere


@dataclass(frozen=True)
class CodeFile:
    """A file in a commit."""

    mode: str
    blob: str
    path: str


def code_repository(
    code: Code, top: Path | None, bundles: Path, folder: Path, name: str = "code"
) -> Git:
    """git in a repository that has the code; it is made in `folder` where `top` has it no more."""
    recorded_bundles = [bundles / f"{name}.base.bundle", bundles / f"{name}.bundle"]
    git_dir = repository_with(code, top, recorded_bundles, folder / "git")
    return Git(git_dir, {"GIT_DIR": str(git_dir), "GIT_INDEX_FILE": str(folder / "index")})


def files_with(git: Git, commit: str, forms: list[bytes]) -> list[CodeFile]:
    """The files of a commit that hold the value in one of its forms."""
    files = list_files(git, commit)
    blobs = {file.blob for file in files}
    contents = read_blobs(git, sorted(blobs))
    leaking = {blob for blob, content in contents if holds(content, forms)}
    return [file for file in files if file.blob in leaking]


def holds(content: bytes, forms: list[bytes]) -> bool:
    return any(form in content for form in forms)


def is_in_history(git: Git, commit: str, forms: list[bytes]) -> bool:
    """Whether any object before a commit holds the value."""
    names = git(
        "rev-list", "--objects", "--no-object-names", "--end-of-options", commit
    ).splitlines()
    return any(holds(content, forms) for _, content in read_blobs(git, names))


def list_files(git: Git, commit: str) -> list[CodeFile]:
    files = []
    for entry in git.paths("ls-tree", "-r", "-z", "--end-of-options", commit):
        about, _, path = entry.partition("\t")
        mode, _, blob = about.split()
        if mode != SPECIAL:
            files.append(CodeFile(mode, blob, path))
    return files


def read_blobs(git: Git, names: list[str]) -> Iterator[tuple[str, bytes]]:
    """Each object with its content."""
    for begin in range(0, len(names), BATCH):
        batch = names[begin : begin + BATCH]
        printed = git.content("cat-file", "--batch", stdin="\n".join([*batch, ""]).encode())
        place = 0
        for name in batch:
            # "<name> <type> <bytes>\n<content>\n"
            end = printed.index(b"\n", place)
            n_bytes = int(printed[place:end].rpartition(b" ")[2])
            yield name, printed[end + 1 : end + 1 + n_bytes]
            place = end + 1 + n_bytes + 1


def scrub_commit(
    git: Git, code: Code, trial: str, files: list[CodeFile], forms: list[bytes]
) -> Code:
    """The `code` section of a new commit, with MASK in place of the value and no commit before it."""
    git("read-tree", "--end-of-options", code["commit"])
    lines = []
    for file in files:
        content = git.content("cat-file", "blob", file.blob)
        for form in forms:
            content = content.replace(form, MASK)
        blob = git.content("hash-object", "-w", "--stdin", stdin=content).decode().strip()
        lines.append(f"{file.mode} {blob}\t{file.path}\0")
    git("update-index", "-z", "--index-info", stdin="".join(lines))
    tree = git("write-tree")
    commit = commit_tree(git, tree, None)
    scrubbed: Any = code | {"commit": commit, "tree": tree, "ref": create_ref(git, commit)}
    scrubbed |= {"base": commit, "remote_base": None, "bundle": "full"}
    if code.get("package_tree"):
        package = f"{code['prefix']}src/{this_project().package}"
        trial_folder = f"{package}/trials/{trial.partition('/')[0]}"
        package_tree, trial_tree = tree_hashes(git, commit, [package, trial_folder])
        scrubbed |= {"package_tree": package_tree, "trial_tree": trial_tree}
    return scrubbed


def replace_bundles(git: Git, code: Code, runs: Path, folder: Path) -> None:
    """Puts the whole bundle of a scrubbed commit into the store and, in place of others, into `folder`."""
    store = runs / STORE
    store.mkdir(parents=True, exist_ok=True)
    stored = store / f"{code['commit']}.whole.bundle"
    write_bundle(git, stored, BundleFile(".bundle", stored.name, code["commit"]))
    temporary = folder / ".code.bundle"
    link_or_copy(stored, temporary)
    os.replace(temporary, folder / "code.bundle")
    (folder / "code.base.bundle").unlink(missing_ok=True)
