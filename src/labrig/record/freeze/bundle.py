"""Git bundles next to a run: they keep its code even when the repository is gone.

If the default branch of the remote has an ancestor of the code, we store only the difference to it
(a thin bundle): such branches last. Any other branch may be deleted once it is merged. Without such
an ancestor we store one whole bundle, and later runs store the difference to that one until HEAD is
100 commits ahead.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from ...env import FROZEN_LIBRARY
from ..files.atomic import open_file, read_bytes
from ..files.code_section import checked_out_submodules, folder_name
from ..files.schema import Code, Submodule
from .git import Git, GitFailed
from .snapshot import create_ref

# The file of a git bundle: a header that ends with an empty line, then a pack with its hash.

HEADER_BYTES = 1 << 20  # more than any header
READ_BYTES = 1 << 20


def is_complete(path: Path) -> bool:
    """Whether a bundle is there and its pack, or its gzip file, has the hash that stands at its end."""
    try:
        if path.name.endswith(COMPRESSED):
            content = read_bytes(path, MAX_LIBRARY_BYTES)
            return content[-SEAL_BYTES:] == seal_of(content[:-SEAL_BYTES])
        with io.BufferedReader(open_file(path)) as file:
            start = pack_start(file)
            file.seek(0)
            pack_hash = hash_of_pack(file.read(start))
            left_bytes = os.path.getsize(path) - start - pack_hash.digest_size
            while left_bytes > 0:
                chunk = file.read(min(left_bytes, READ_BYTES))
                pack_hash.update(chunk)
                left_bytes -= len(chunk) or left_bytes
            return file.read() == pack_hash.digest()
    except (OSError, ValueError):
        return False


def pack_start(file: BinaryIO) -> int:
    """Where the pack of a bundle begins, in bytes.

    Raises:
        ValueError: the file does not begin as a bundle does.
    """
    beginning = file.read(HEADER_BYTES)
    end_of_header = beginning.find(b"\n\n")
    if not beginning.startswith(b"# v") or end_of_header < 0:
        raise ValueError("no bundle")
    return end_of_header + 2


def hash_of_pack(header: bytes) -> hashlib._Hash:
    """The hash that the repository of a bundle uses."""
    return hashlib.sha256() if b"\n@object-format=sha256\n" in header else hashlib.sha1()


def unpack_bundle(git: Git, path: Path) -> None:
    """Adds the objects of a bundle to a repository; nothing when the bundle is missing or cut.

    `git fetch` would want the whole history before them, which a shallow clone never had.
    """
    if not is_complete(path):
        return
    with open_bundle(path) as file:
        try:
            file.seek(pack_start(file))
        except ValueError:
            return
        git.run("index-pack", "--stdin", "--fix-thin", file=file)


# The library's bundle is a gzip file: git compresses each file alone, which takes a fifth more room.
COMPRESSED = ".gz.bundle"
MAX_LIBRARY_BYTES = 100_000_000  # a stranger's may stand for any number


def compress_bundle(source: Path, path: Path) -> None:
    """Writes a bundle as a gzip file."""
    temporary = path.with_suffix(f".{os.getpid()}")
    try:
        content = gzip.compress(source.read_bytes(), mtime=0)
        temporary.write_bytes(content + seal_of(content))
        flush_to_disk(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def seal_of(content: bytes) -> bytes:
    """The end of a gzip file: an empty member (RFC 1952) whose name is the hash of what is before it."""
    member = io.BytesIO()
    name = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    gzip.GzipFile(name, "wb", fileobj=member, mtime=0).close()
    return member.getvalue()


SEAL_BYTES = len(seal_of(b""))


@contextmanager
def open_bundle(path: Path) -> Iterator[io.FileIO]:
    """A bundle as git reads it; of a gzip file at most MAX_LIBRARY_BYTES."""
    with open_file(path) as file:
        if not path.name.endswith(COMPRESSED):
            yield file
            return
        with tempfile.TemporaryFile(buffering=0) as plain, gzip.open(file) as content:
            plain.write(content.read(MAX_LIBRARY_BYTES))
            plain.seek(0)
            yield plain


# Below the root of runs: bundles by commit; runs of the same code are links to one file.
STORE = ".code"
# A bundle is made while a user waits for the start of a run: rather time than space.
FAST_PACKING = ("-c", "pack.window=0", "-c", "pack.compression=1")
MAX_COMMITS_AHEAD = 100  # commits of HEAD after a whole bundle, from which on a new one is made
OF_TREE = ".tree.bundle"  # in a run from an archive: its code as one commit without history
USUAL_BRANCHES = ("main", "master")  # one of them is the default branch of most remotes


@dataclass(frozen=True)
class BundleFile:
    """One bundle of a snapshot."""

    ending: str  # of its name in a run directory
    stored_name: str  # in the store
    commit: str  # what it brings
    excluded: str | None = None  # the commit that it leaves out, with all before it


def write_bundles(git: Git, store: Path, code: Code, *, whole: bool = False) -> Code:
    """Puts the bundles of a snapshot and of its submodules into the store.

    Args:
        whole: leave nothing to a remote.

    Returns:
        `code` with three more keys. `remote_base` is the commit at the remote that the bundles
        leave out; None when they hold everything. `base` is then the commit of the whole bundle
        that the other one needs. `bundle` is "thin" (the remote has the base), "full" (everything
        is in the bundles) or "pushed" (the remote has the commit).
    """
    store.mkdir(parents=True, exist_ok=True)
    remote_base = None if whole else commit_at_remote(git, code)
    base = None
    if remote_base is None:
        base = base_commit_for(git, store, code["head"] or code["commit"])
    code = code | {"remote_base": remote_base, "base": base}
    bundles = bundle_files(code)
    for bundle in bundles:
        path = store / bundle.stored_name
        if not is_complete(path):
            write_bundle(git, path, bundle)
    if base:
        code["bundle"] = "full"
    else:
        code["bundle"] = "thin" if bundles else "pushed"
    code["submodules"] = [
        write_submodule_bundles(git, store, inner, whole=base is not None)
        if inner.get("commit") and inner["path"] != FROZEN_LIBRARY
        else inner
        for inner in code["submodules"]
    ]
    return code


def write_submodule_bundles(
    git: Git, store: Path, submodule: Submodule, *, whole: bool
) -> Submodule:
    """Puts the bundles of a submodule into its own folder of the store.

    They are whole when those around them are: then the run directory alone has all code.
    """
    top = Path(git("rev-parse", "--show-toplevel"))
    inner_git = Git(top / submodule["path"])
    folder = store / folder_name(submodule)
    return cast("Submodule", write_bundles(inner_git, folder, submodule, whole=whole))


def commit_at_remote(git: Git, code: Code) -> str | None:
    """The newest commit before `code` that the remote's default branch had when git last saw it.

    None when there is none, or when the default branch is not known.
    """
    name = code["remote_name"]
    if name is None or code["head"] is None:
        return None
    places = [f"refs/remotes/{name}/{branch}" for branch in ("HEAD", *USUAL_BRANCHES)]
    lines = git("for-each-ref", "--format=%(refname) %(objectname)", *places).splitlines()
    commits = dict(line.split(" ") for line in lines)
    tip = commits.pop(places[0], None)  # git knows it of a clone
    if tip is None and len(commits) == 1:
        (tip,) = commits.values()
    if tip is None:
        return None
    return git.run("merge-base", "--end-of-options", code["head"], tip).stdout.strip() or None


def base_commit_for(git: Git, store: Path, head: str) -> str:
    """The commit of the newest whole bundle that `head` is not far ahead of; else `head`.

    Far means MAX_COMMITS_AHEAD.
    """
    limit = f"--max-count={MAX_COMMITS_AHEAD}"
    for path in sorted(store.glob("*.whole.bundle"), key=os.path.getmtime, reverse=True):
        base = path.name.partition(".")[0]
        ahead = git.run("rev-list", "--count", limit, "--end-of-options", f"{base}..{head}")
        if ahead.returncode == 0 and int(ahead.stdout) < MAX_COMMITS_AHEAD:
            return base
    return head


def bundle_files(code: Code) -> list[BundleFile]:
    """The bundles that hold a snapshot; none when it was not recorded, or the remote has it."""
    commit = code.get("commit")
    if commit is None or commit == code.get("remote_base"):
        return []
    base = code.get("base")
    if code.get("path") == FROZEN_LIBRARY:
        return [BundleFile(COMPRESSED, f"{base}.whole{COMPRESSED}", commit)]
    if commit == base:
        return [BundleFile(".bundle", f"{base}.whole.bundle", commit)]
    excluded = base or code.get("remote_base")
    if excluded is None:  # somebody else wrote it
        return []
    difference = BundleFile(".bundle", f"{commit}.{excluded[:12]}.bundle", commit, excluded)
    if base is None:
        return [difference]
    return [BundleFile(".base.bundle", f"{base}.whole.bundle", base), difference]


def kept_bundles(code: Code) -> list[BundleFile]:
    """The bundles from which a snapshot can be written out: the recorded ones, and an archive's."""
    if not code.get("commit"):
        return []
    commit = code["commit"]
    return [*bundle_files(code), BundleFile(OF_TREE, f"{commit}{OF_TREE}", commit)]


def write_bundle(
    git: Git, path: Path, bundle: BundleFile, packing: tuple[str, ...] = FAST_PACKING
) -> None:
    """Makes one bundle; none when everything in it is excluded.

    Args:
        packing: settings of git that say how.
    """
    temporary = path.with_suffix(f".{os.getpid()}")
    ref = create_ref(git, bundle.commit)
    excluded = ("--not", bundle.excluded) if bundle.excluded else ()
    try:
        done = git.run(*packing, "bundle", "create", "-q", str(temporary), ref, *excluded)
        if done.returncode == 0:
            flush_to_disk(temporary)
            os.replace(temporary, path)
        elif "empty bundle" not in done.stderr:
            raise GitFailed(f"git bundle failed: {done.stderr.strip()}. To see more: git fsck")
    finally:
        temporary.unlink(missing_ok=True)


def flush_to_disk(path: Path) -> None:
    """Waits until a file is on the disk, so that a power cut leaves it whole or not there."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def link_bundles(code: Code, store: Path, folder: Path, name: str = "code") -> None:
    """Links the bundles of `code` into `folder`.

    They are code.bundle and perhaps code.base.bundle; code.<path>.bundle for submodules.
    """
    for bundle in kept_bundles(code):
        stored = store / bundle.stored_name
        if stored.exists():
            link_or_copy(stored, folder / f"{name}{bundle.ending}")
    for inner in checked_out_submodules(code):
        link_bundles(inner, store / folder_name(inner), folder, f"{name}.{folder_name(inner)}")


def store_bundles(code: Code, folder: Path, store: Path, name: str = "code") -> None:
    """Puts the bundles that lie in `folder` of a run into the store: `link_bundles` backwards.

    So a run from another clone can be repeated here. A bundle that was cut is left out.
    """
    store.mkdir(parents=True, exist_ok=True)
    for bundle in kept_bundles(code):
        source = folder / f"{name}{bundle.ending}"
        stored = store / bundle.stored_name
        if is_complete(source) and not is_complete(stored):
            temporary = stored.with_suffix(f".{os.getpid()}")
            link_or_copy(source, temporary)
            os.replace(temporary, stored)
    for inner in checked_out_submodules(code):
        store_bundles(inner, folder, store / folder_name(inner), f"{name}.{folder_name(inner)}")


def link_or_copy(source: str | Path, target: str | Path) -> None:
    """`target` becomes a hard link to `source`, or a copy where there are no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
