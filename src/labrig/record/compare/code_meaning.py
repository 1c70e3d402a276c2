"""What a file of code means: its syntax tree, without comments, white space and docstrings.

Git names each content of a file, a blob, by its hash. What a blob means is kept in a cache of this
machine, so each is parsed once.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path

from ..freeze.git import Git, GitFailed
from ..list.row_cache import cache_folder, load_marshalled, store_marshalled

# Python's versions have other syntax trees.
HEADER = f"meanings of code 1, Python {sys.version_info.major}.{sys.version_info.minor}\n".encode()
CACHE = "code.meanings"
HASH_BYTES = 16
BLOB = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def meaning_of_source(source: bytes) -> str | None:
    """A text that is equal for files with equal syntax trees; None where Python cannot read one."""
    try:
        with warnings.catch_warnings(action="ignore"):  # such as an invalid escape sequence
            tree = ast.parse(source)
            without_docstrings(tree)
            dump = ast.dump(tree, annotate_fields=False)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return hashlib.blake2b(dump.encode(errors="surrogatepass"), digest_size=HASH_BYTES).hexdigest()


def without_docstrings(tree: ast.Module) -> None:
    """Takes the docstrings out of a syntax tree; a body that holds nothing else becomes `pass`."""
    for node in ast.walk(tree):
        if not isinstance(node, WITH_DOCSTRING):
            continue
        first = node.body[0] if node.body else None
        value = first.value if isinstance(first, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            is_all = len(node.body) == 1 and not isinstance(node, ast.Module)
            node.body[:1] = [ast.Pass()] if is_all else []


def meanings_of_blobs(root: Path, blobs: Iterable[str]) -> dict[str, str]:
    """What each blob of code means; those that git does not have or Python cannot read are left out.

    Args:
        root: of the project, whose repository has the blobs.
    """
    wanted = set(blobs)
    if not wanted:
        return {}
    known: dict[str, str] = load_cached()
    missing = wanted - known.keys()
    if missing:
        found = {
            blob: meaning
            for blob, content in contents_of_blobs(root, missing).items()
            if (meaning := meaning_of_source(content))
        }
        known |= found
        if found:
            store_cached(known)
    return {blob: known[blob] for blob in wanted if blob in known}


def load_cached() -> dict[str, str]:
    """The meanings that the cache has; none where it cannot be read."""
    try:
        return load_marshalled(cache_folder() / CACHE, HEADER) or {}
    except OSError:
        return {}


def store_cached(meanings: dict[str, str]) -> None:
    """Writes the cache again; on a disk that takes no file, the next table parses again."""
    try:
        store_marshalled(cache_folder() / CACHE, HEADER, meanings)
    except OSError:
        return


def contents_of_blobs(root: Path, blobs: Iterable[str]) -> dict[str, bytes]:
    """The content of each blob that the repository has; nothing without git."""
    asked = "".join(f"{blob}\n" for blob in sorted(blobs) if BLOB.fullmatch(blob)).encode()
    try:
        answer = Git(root).content("cat-file", "--batch", stdin=asked)
    except GitFailed:
        return {}
    contents = {}
    place = 0
    while place < len(answer):
        end = answer.index(b"\n", place)
        about = answer[place:end].decode().split()
        place = end + 1
        if len(about) == 3 and about[2].isdigit():  # hash, type, bytes; else it is missing
            size = int(about[2])
            contents[about[0]] = answer[place : place + size]
            place += size + 1
    return contents
