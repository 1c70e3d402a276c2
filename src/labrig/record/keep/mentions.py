"""Where the texts of a project name a run: its pages, paper, notebooks, settings and code.

All its files of these kinds are read, also those that git does not know, and the committed ones of the
other branches. Runs, data, environments and hidden directories are left out, and links not followed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from ...project import Project
from ..freeze.git import Git
from ..list.find import VERSIONS
from ..list.rows import RUN_ID

KINDS = (
    "", ".bib", ".csv", ".html", ".ipynb", ".md", ".org", ".py", ".qmd", ".rmd", ".rst", ".sh",
    ".tex", ".toml", ".tsv", ".txt", ".typ", ".yaml", ".yml",
)  # fmt: skip
LARGEST_BYTES = 20_000_000
# An id, or its beginning up to the minute at least, which commands take too
ID = r"[0-9]{8}-[0-9]{4,6}(-[0-9a-f]{1,6})?"
IDS = re.compile(ID.encode())
SHORTEST = len("20260131-1200")


def find_mentions(project: Project, names: set[str], roots: list[Path]) -> dict[str, str]:
    """The first text that names each of these runs, by the run; nothing for one that none names.

    Args:
        names: ids of runs, or what their directories were renamed to.
        roots: the directories of runs, whose own texts do not count.
    """
    places: dict[str, str] = {}
    if not names:
        return places
    for path in texts_of(project, roots):
        place = str(path.relative_to(project.root))
        content = path.read_bytes()
        if path.parent == project.root / VERSIONS:  # where a tag was before keeps no run
            content = content.rstrip().rpartition(b"\n")[2]
        for name in names_in(content, names):
            places.setdefault(name, place)
    for name, place in mentions_in_branches(project, names - places.keys()).items():
        places.setdefault(name, place)
    return places


def texts_of(project: Project, roots: list[Path]) -> Iterator[Path]:
    """The texts of the project, in the order of their names."""
    left_out = {root.resolve() for root in (*roots, project.root / "runs")}
    left_out |= {data.resolve() for data in (*project.paths.data, project.root / "data")}
    for folder, folders, files in os.walk(project.root):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and Path(folder, name).resolve() not in left_out
            and not Path(folder, name, "pyvenv.cfg").exists()
        )
        for name in sorted(files):
            path = Path(folder, name)
            if is_text(path):
                yield path


def is_text(path: Path) -> bool:
    """Whether a file is of a kind that people write, and can be read."""
    is_kind = path.suffix.lower() in KINDS and not path.is_symlink()
    return is_kind and os.access(path, os.R_OK) and path.stat().st_size < LARGEST_BYTES


def names_in(content: bytes, names: set[str]) -> set[str]:
    """The runs that a text names, by their id or its beginning, or as their directory was renamed."""
    words = {match[0].decode() for match in IDS.finditer(content)}
    return {
        name
        for name in names
        if any(name[:n] in words for n in range(SHORTEST, len(name) + 1))
        or (not RUN_ID.fullmatch(name) and name.encode() in content)
    }


def mentions_in_branches(project: Project, names: set[str]) -> dict[str, str]:
    """Where the last commit of a local branch names a run."""
    git = Git(project.root)
    listed = git.run("for-each-ref", "--format=%(refname)", "refs/heads")
    branches = listed.stdout.split()
    if listed.returncode or not branches or not names:
        return {}
    renamed = [re.escape(name) for name in sorted(names) if not RUN_ID.fullmatch(name)]
    words = [word for pattern in (ID, *renamed) for word in ("-e", pattern)]
    # Each answer is "<branch>:<path>\0<what was found>".
    words += [*branches, "--", f":(exclude){VERSIONS}"]
    found = git.run("grep", "-I", "-o", "-E", "-z", *words)
    places: dict[str, str] = {}
    for line in set(found.stdout.splitlines()):
        place, _, text = line.rpartition("\0")
        branch, _, path = place.partition(":")
        for name in names_in(text.encode(errors="surrogateescape"), names):
            places.setdefault(name, f"{path} of branch {branch.removeprefix('refs/heads/')}")
    return places
