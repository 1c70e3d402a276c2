"""Which runs ran the same code: the files of their trial, and the package around the trials.

READMEs and pictures of a trial are results: they are no code.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from .git import Git, GitFailed
from .schema import Row

PICTURES = (".png", ".jpg", ".jpeg", ".svg", ".gif")
TRIALS = "trials/"  # in the package
COMMIT_CHARACTERS = 10


def is_result(path: str) -> bool:
    """Whether a file of a trial's directory, by its relative path, is a result."""
    return path == "README.md" or path.lower().endswith(PICTURES)


def codes_of_rows(root: Path, rows: list[Row]) -> dict[str, str]:
    """The code of each run whose trial ran with several, by run directory.

    It is named by a commit: that of the newest run with the same code.

    Args:
        root: of the project, whose repository has the code.
        rows: newest first.
    """
    trees: dict[str, set[str | None]] = defaultdict(set)
    for row in rows:
        trees[family_of(row)].add(row["trial_tree"])
    rows = [row for row in rows if len(trees[family_of(row)]) > 1]
    files = code_of_trees(root, {row["trial_tree"] for row in rows if row["trial_tree"]})
    names: dict[tuple[str, str | None], str] = {}
    for row in rows:
        names.setdefault((family_of(row), code_id(row, files)), short_commit(row))
    n_codes = Counter(family for family, _ in names)
    return {
        row["run_dir"]: names[family_of(row), code_id(row, files)]
        for row in rows
        if n_codes[family_of(row)] > 1
    }


def family_of(row: Row) -> str:
    """The trial of a run without its variant."""
    return row["trial"].partition("/")[0]


def short_commit(row: Row) -> str:
    """The commit of the code of a run, cut; in words that there is none."""
    commit = row["commit"]
    return commit[:COMMIT_CHARACTERS] if commit else "not recorded"


def code_id(row: Row, code: dict[str, str]) -> str | None:
    """What is equal for runs with the same code and settings files of their trial.

    Args:
        code: see `code_of_trees`; trees that are not in it count as different code.
    """
    tree = row["trial_tree"]
    return code.get(tree, tree) if tree else None


def code_of_trees(root: Path, trees: Iterable[str]) -> dict[str, str]:
    """The code and settings in recorded `trial_tree`s, as texts that are equal where these are.

    Trees that this repository does not have are left out.
    """
    return {
        tree: as_lines({path: blob for path, blob in files.items() if not is_result(path)})
        for tree, files in files_of_trees(root, trees).items()
    }


def differ_around_trials(root: Path, groups: list[list[Row]]) -> bool:
    """Whether runs of one group ran with other code of the package outside of its trials.

    A run of an older version has not recorded its package, and is passed over.
    """
    several = [{row["package_tree"] for row in group if row["package_tree"]} for group in groups]
    several = [trees for trees in several if len(trees) > 1]
    files = files_of_trees(root, {tree for trees in several for tree in trees})
    codes = {tree: around_trials(of_tree) for tree, of_tree in files.items()}
    return any(len({codes.get(tree, tree) for tree in trees}) > 1 for trees in several)


def around_trials(files: dict[str, str]) -> str:
    """The files of a package but those of its trials, as a text."""
    return as_lines({path: blob for path, blob in files.items() if not path.startswith(TRIALS)})


def as_lines(files: dict[str, str]) -> str:
    return "\n".join(f"{blob} {path}" for path, blob in files.items())


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
