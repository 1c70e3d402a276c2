"""The code that made the numbers of runs: the files that each imported, compared by what they mean.

A run of an older lab did not note its files: it counts all code of its trial and of the package
around the trials. READMEs and pictures of a trial are results: they are no code.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...env import FROZEN_LIBRARY
from ...project import this_project
from ..files.schema import Row
from ..freeze.git import Git, GitFailed
from .code_meaning import meanings_of_blobs

PICTURES = (".png", ".jpg", ".jpeg", ".svg", ".gif")
SETTINGS = (".yaml", ".yml")  # of a trial; the composed settings are compared in their place
TRIALS = "trials/"  # in the package
OWN_TRIAL = re.compile(r"^trials/[^/]+/")  # may have been renamed between two runs
TREES = ("package_tree", "trial_tree")  # what an older lab recorded
COMMIT_CHARACTERS = 10
NOT_RECORDED = "not recorded"

Files = dict[str, str]  # hashes of contents, several with spaces between them, by path


def is_result(path: str) -> bool:
    """Whether a file of a trial's directory, by its relative path, is a result."""
    return path == "README.md" or path.lower().endswith(PICTURES)


def family_of(row: Row) -> str:
    """The trial of a run without its variant."""
    return row["trial"].partition("/")[0]


def short_commit(row: Row) -> str:
    """The commit of the code that a run used, cut; in words that there is none."""
    commit = row["code_commit"] or row["commit"]
    return commit[:COMMIT_CHARACTERS] if commit else NOT_RECORDED


def code_of_rows(root: Path, rows: list[Row]) -> dict[str, tuple]:
    """What the code of each run means, by run directory: equal where the code of one trial is.

    Runs whose code was not recorded are equal to each other. Contents that this repository does not
    have are compared by their hash.

    Args:
        root: of the project.
    """
    files = files_of_rows(root, rows)
    families: dict[str, list[Files]] = defaultdict(list)
    for row in rows:
        families[family_of(row)].append(files[row["run_dir"]])
    differing = {blob for family in families.values() for blob in differing_code(family)}
    meanings = meanings_of_blobs(root, differing)
    texts: dict[int, tuple] = {}  # by identity of the files, which many runs share
    for of_run in files.values():
        if id(of_run) not in texts:
            texts[id(of_run)] = meaning_of_files(of_run, meanings)
    return {run_dir: texts[id(of_run)] for run_dir, of_run in files.items()}


def files_of_rows(root: Path, rows: list[Row]) -> dict[str, Files]:
    """The files of code of each run, by run directory; none where the code was not recorded.

    Their paths are relative to the package, without the name of the trial; those of files outside
    of the package relative to the repository.

    Args:
        root: of the project.
    """
    families: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        families[family_of(row)].append(row)
    trees = {row[key] for row in rows if row["code_files"] is None for key in TREES if row[key]}
    content = files_of_trees(root, trees)
    files: dict[str, Files] = {}
    for family in families.values():
        files |= files_of_family(family, content)
    return files


def files_of_family(rows: list[Row], content: dict[str, Files]) -> dict[str, Files]:
    """The files of code of each run of one trial, by run directory.

    Runs without a list of their own count the files that those with one list, if there are any.

    Args:
        content: the files of the recorded trees.
    """
    shared: dict[int, Files] = {}
    files = {}
    for row in rows:
        listed = row["code_files"]
        if listed is not None:
            if id(listed) not in shared:
                shared[id(listed)] = {
                    path_in_package(path): listed[path] for path in listed if not is_library(path)
                }
            files[row["run_dir"]] = shared[id(listed)]
    names = {path for of_run in shared.values() for path in of_run}
    of_trees: dict[tuple, Files] = {}
    for row in rows:
        if row["code_files"] is None:
            trees: Any = tuple(row[key] for key in TREES)
            if trees not in of_trees:
                package_tree, trial_tree = trees
                of_trees[trees] = files_in_trees(package_tree, trial_tree, content, names)
            files[row["run_dir"]] = of_trees[trees]
    return files


def is_library(path: str) -> bool:
    """Whether a file is of the frozen library, which only a run of frozen code imports from there."""
    return path.startswith(f"{FROZEN_LIBRARY}/")


def path_in_package(path: str) -> str:
    """The path of a file without the name of its trial; outside of the package it stays."""
    inside = path.rpartition(f"src/{this_project().package}/")[2]
    return OWN_TRIAL.sub(TRIALS, inside)


def files_in_trees(
    package_tree: str | None, trial_tree: str | None, content: dict[str, Files], names: set[str]
) -> Files:
    """The code in recorded trees; a tree that the repository lacks counts as one file.

    Args:
        names: the files that count; empty: all.
    """
    files = {}
    if package_tree in content:
        around = content[package_tree]
        files |= {path: around[path] for path in around if not path.startswith(TRIALS)}
    if trial_tree in content:
        of_trial = content[trial_tree]
        files |= {f"{TRIALS}{path}": of_trial[path] for path in of_trial if not is_result(path)}
    files = {path: blob for path, blob in files.items() if counts_as_code(path)}
    if names:
        files = {path: blob for path, blob in files.items() if path in names}
    lost = {"package": package_tree, "trial": trial_tree}
    return files | {
        f"tree of the {name}": tree for name, tree in lost.items() if tree and tree not in content
    }


def counts_as_code(path: str) -> bool:
    """Whether a file of a tree may be code: Python, or a file of a trial that is no settings file."""
    return path.endswith(".py") or (path.startswith(TRIALS) and not path.endswith(SETTINGS))


def differing_code(several: list[Files]) -> set[str]:
    """The hashes of Python files whose content is not the same in all of `several`."""
    distinct = list({id(files): files for files in several}.values())
    contents: dict[str, set[str]] = defaultdict(set)
    for files in distinct:
        for path, hashes in files.items():
            contents[path].add(hashes)
    return {
        blob
        for path, several_hashes in contents.items()
        if len(several_hashes) > 1 and path.endswith(".py")
        for hashes in several_hashes
        for blob in hashes.split()
    }


def meaning_of_files(files: Files, meanings: dict[str, str]) -> tuple:
    """The files with what each content means, or with its hash where that is not known."""
    return tuple(
        (path, tuple(dict.fromkeys(meanings.get(blob, blob) for blob in files[path].split())))
        for path in sorted(files)
    )


def files_of_trees(root: Path, trees: Iterable[str]) -> dict[str, dict[str, str]]:
    """Git's hash of each file in recorded trees, by tree and path.

    Trees that this repository does not have are left out; so are all without git.
    """
    lines = "".join(f"{tree}\n" for tree in sorted(set(trees)))
    if not lines:
        return {}
    git = Git(root)
    try:
        answers = git.run("cat-file", "--batch-check", stdin=lines).stdout.splitlines()
    except GitFailed:
        return {}
    present = [line.split()[0] for line in answers if line.split()[1:2] == ["tree"]]
    if not present:
        return {}
    empty = git("hash-object", "-t", "tree", "--stdin")
    pairs = "".join(f"{empty} {tree}\n" for tree in present)
    files: dict[str, dict[str, str]] = {tree: {} for tree in present}
    tree = ""
    for line in git("diff-tree", "--stdin", "-r", stdin=pairs).splitlines():
        if not line.startswith(":"):
            tree = line.split()[1]
            continue
        facts, path = line.split("\t", 1)
        files[tree][path] = facts.split()[3]
    return files
