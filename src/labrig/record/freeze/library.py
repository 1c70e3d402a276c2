"""The library that runs, frozen with the code of a run: its own content, whatever is installed.

In a record it stands among the submodules of the code, at the path FROZEN_LIBRARY. Its commit has no
parent and no date, so its id is a hash of the content: the same on each machine and for each kind
of installation. One bundle is made for each content. Next to the package lie METADATA and
entry_points.txt of its installation: with them the files are all that a wheel needs.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ...env import FROZEN_LIBRARY
from ...project import LIBRARY
from ...version import __version__
from ..files.code_section import library_of
from ..files.schema import Code, Submodule
from .bundle import COMPRESSED, BundleFile, compress_bundle, is_complete, write_bundle
from .git import Git

FILE_MODE = "100644"
# What is no part of it: caches, and the pages of `lab docs` with their pictures.
LEFT_OUT_ENDINGS = (".pyc", ".md", ".png", ".svg")
# The headers of METADATA that an installer needs.
NEEDS = ("Name:", "Version:", "Requires-Python:", "Requires-Dist:", "Provides-Extra:")


@dataclass(frozen=True)
class FrozenLibrary:
    """The content of the library.

    Attributes:
        blobs: git's hash of each file, by its path.
        tree: git's hash of the whole.
        commit: of that tree.
    """

    blobs: dict[str, str]
    tree: str
    commit: str


def freeze_library(store: Path) -> Submodule:
    """The `code` section of the library as it is now, with its bundle below `store`."""
    now = read_library()
    path = store / FROZEN_LIBRARY / f"{now.commit}.whole{COMPRESSED}"
    if not is_complete(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_library_bundle(now, path)
    return {
        "path": FROZEN_LIBRARY,
        "version": __version__,
        "commit": now.commit,
        "tree": now.tree,
        "ref": f"refs/runs/{now.commit[:12]}",
        "dirty": False,
        "head": None,
        "branch": None,
        "prefix": "",
        "remote": None,
        "remote_name": None,
        "n_changed": 0,
        "n_untracked": 0,
        "skipped": [],
        "submodules": [],
        "remote_base": None,
        "base": now.commit,
        "bundle": "full",
    }


def name_of_this_library() -> str:
    """`labrig 0.4.1 (1a2b3c4d5e6f)` of the library that runs."""
    return f"labrig {__version__} ({read_library().commit[:12]})"


def is_this_library(code: Code) -> bool:
    """Whether the library that runs is that of a `code` section; also where none was recorded."""
    library = library_of(code)
    return library is None or library["commit"] == read_library().commit


def read_library() -> FrozenLibrary:
    """Hashes the files of the library; those that did not change since the last call only once."""
    blobs = {name: blob_of(*version) for name, version in file_versions().items()}
    blobs |= {name: hash_object("blob", text.encode()) for name, text in installation_facts()}
    tree = hash_tree(blobs)
    return FrozenLibrary(blobs, tree, hash_object("commit", commit_text(tree).encode()))


def commit_text(tree: str) -> str:
    """The commit of a tree, which depends on nothing else."""
    people = "author lab <lab@localhost> 0 +0000\ncommitter lab <lab@localhost> 0 +0000\n"
    return f"tree {tree}\n{people}\nlabrig {__version__}\n"


def file_versions() -> dict[str, tuple[str, int, int, int]]:
    """The files of the library by their path in its tree; with each what changes when it is written."""
    versions = {}
    folders = [(str(LIBRARY), LIBRARY.name)]
    while folders:
        directory, name = folders.pop()
        with os.scandir(directory) as entries:
            for entry in entries:
                inner = f"{name}/{entry.name}"
                if entry.is_dir():
                    if entry.name != "__pycache__":
                        folders.append((entry.path, inner))
                elif not entry.name.endswith(LEFT_OUT_ENDINGS):
                    status = entry.stat()
                    version = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                    versions[inner] = (entry.path, *version)
    return versions


@cache
def blob_of(path: str, size_bytes: int, mtime_ns: int, ctime_ns: int) -> str:
    """Git's hash of a file; the numbers say which version of it."""
    with open(path, "rb") as file:
        return hash_object("blob", file.read())


@cache
def installation_facts() -> list[tuple[str, str]]:
    """The texts that say what the library needs and which commands it has, with their places.

    They are the same for each tool that built it. Empty where it is not installed, as when its
    source lies in a directory of PYTHONPATH.
    """
    from importlib.metadata import PackageNotFoundError, PathDistribution, distribution  # 30 ms

    folder = next(LIBRARY.parent.glob(f"{LIBRARY.name}-*.dist-info"), None)
    try:
        installed = PathDistribution(folder) if folder else distribution(LIBRARY.name)
    except PackageNotFoundError:
        return []
    headers = (installed.read_text("METADATA") or "").partition("\n\n")[0].splitlines()
    kept = [line for line in headers if line.startswith(NEEDS)]
    metadata = "\n".join(["Metadata-Version: 2.1", *kept, ""])
    place = f"{LIBRARY.name}-{__version__}.dist-info"
    texts = {"METADATA": metadata, "entry_points.txt": installed.read_text("entry_points.txt")}
    return [(f"{place}/{name}", text) for name, text in texts.items() if text]


def hash_tree(blobs: dict[str, str]) -> str:
    """Git's hash of a directory with these files, whose paths are relative to it."""
    inner: dict[str, dict[str, str]] = {}
    entries = []
    for path, blob in blobs.items():
        name, slash, rest = path.partition("/")
        if slash:
            inner.setdefault(name, {})[rest] = blob
        else:
            entries.append((name, FILE_MODE, name, blob))
    # git sorts a directory as if its name ended with a slash
    entries += [(f"{name}/", "40000", name, hash_tree(files)) for name, files in inner.items()]
    lines = [
        f"{mode} {name}\0".encode() + bytes.fromhex(value)
        for _, mode, name, value in sorted(entries)
    ]
    return hash_object("tree", b"".join(lines))


def hash_object(kind: str, content: bytes) -> str:
    """Git's hash of an object."""
    head = f"{kind} {len(content)}\0".encode()
    return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()


NOT_COMPRESSED = ("-c", "pack.window=0", "-c", "pack.compression=0")


def write_library_bundle(now: FrozenLibrary, path: Path) -> None:
    """Stores the files in a repository of their own, and bundles it."""
    versions = file_versions()
    with tempfile.TemporaryDirectory(prefix="lab-library-") as temporary:
        git = Git(Path(temporary), {"GIT_DIR": temporary})
        git("init", "-q", "--bare", "--template=", "--object-format=sha1")
        names = "".join(f"{place}\n" for place, *_ in versions.values())
        git("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=names)
        for _, text in installation_facts():
            git("hash-object", "-w", "--no-filters", "--stdin", stdin=text)
        lines = "".join(f"{FILE_MODE} {blob}\t{name}\0" for name, blob in now.blobs.items())
        git("update-index", "-z", "--index-info", stdin=lines)
        git("write-tree")
        git("hash-object", "-t", "commit", "-w", "--stdin", stdin=commit_text(now.tree))
        plain = Path(temporary, "plain.bundle")
        write_bundle(git, plain, BundleFile(".bundle", plain.name, now.commit), NOT_COMPRESSED)
        compress_bundle(plain, path)
