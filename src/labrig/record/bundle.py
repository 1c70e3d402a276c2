"""Git bundles next to a run: they keep its code even when the repository is gone.

If the default branch of the remote has an ancestor of the code, we store only the difference to it
(a thin bundle): such branches last. Any other branch may be deleted once it is merged. Without such
an ancestor we store one whole bundle, and later runs store the difference to that one until HEAD is
100 commits ahead.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from ..env import MACHINERY
from .bundle_file import is_complete
from .code_section import checked_out_submodules, folder_name
from .git import Git, GitFailed
from .schema import Code
from .snapshot import create_ref

# Below the root of runs: bundles by commit; runs of the same code are links to one file.
STORE = ".code"
# A bundle is made while a user waits for the start of a run: rather time than space.
FAST_PACKING = ("-c", "pack.window=0", "-c", "pack.compression=1")
MAX_COMMITS_AHEAD = 100  # commits of HEAD after a whole bundle, from which on a new one is made
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
        if inner["commit"] and inner["path"] != MACHINERY
        else inner
        for inner in code["submodules"]
    ]
    return code


def write_submodule_bundles(git: Git, store: Path, submodule: Code, *, whole: bool) -> Code:
    """Puts the bundles of a submodule into its own folder of the store.

    They are whole when those around them are: then the run directory alone has all code.
    """
    top = Path(git("rev-parse", "--show-toplevel"))
    inner_git = Git(top / submodule["path"])
    return write_bundles(inner_git, store / folder_name(submodule), submodule, whole=whole)


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
    return git.run("merge-base", code["head"], tip).stdout.strip() or None


def base_commit_for(git: Git, store: Path, head: str) -> str:
    """The commit of the newest whole bundle that `head` is not far ahead of; else `head`.

    Far means MAX_COMMITS_AHEAD.
    """
    limit = f"--max-count={MAX_COMMITS_AHEAD}"
    for path in sorted(store.glob("*.whole.bundle"), key=os.path.getmtime, reverse=True):
        base = path.name.partition(".")[0]
        ahead = git.run("rev-list", "--count", limit, f"{base}..{head}")
        if ahead.returncode == 0 and int(ahead.stdout) < MAX_COMMITS_AHEAD:
            return base
    return head


def bundle_files(code: Code) -> list[BundleFile]:
    """The bundles that hold a snapshot; none when it was not recorded, or the remote has it."""
    commit = code["commit"]
    if commit is None or commit == code.get("remote_base"):
        return []
    base = code.get("base")
    if commit == base:
        return [BundleFile(".bundle", f"{base}.whole.bundle", commit)]
    excluded = base or code["remote_base"]
    difference = BundleFile(".bundle", f"{commit}.{excluded[:12]}.bundle", commit, excluded)
    if base is None:
        return [difference]
    return [BundleFile(".base.bundle", f"{base}.whole.bundle", base), difference]


def write_bundle(git: Git, path: Path, bundle: BundleFile) -> None:
    """Makes one bundle; none when everything in it is excluded.

    Raises:
        GitFailed: git cannot write it.
    """
    temporary = path.with_suffix(f".{os.getpid()}")
    ref = create_ref(git, bundle.commit)
    excluded = ("--not", bundle.excluded) if bundle.excluded else ()
    try:
        done = git.run(*FAST_PACKING, "bundle", "create", "-q", str(temporary), ref, *excluded)
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
    for bundle in bundle_files(code):
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
    for bundle in bundle_files(code):
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
