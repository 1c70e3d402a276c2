# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Git bundles next to a run: they keep its code even when the repository is gone.

If a remote has the base commit, we store only the difference to it (a thin bundle). Otherwise we
store one whole bundle, and later runs store the difference to that one until HEAD is 100 commits
ahead.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from .git import Git, GitFailed
from .schema import Code
from .snapshot import create_ref

# Below the root of runs: bundles by commit; runs of the same code are links to one file.
STORE = ".code"
# A bundle is made while a user waits for the start of a run: rather time than space.
FAST_PACKING = ("-c", "pack.window=0", "-c", "pack.compression=1")
MAX_COMMITS_AHEAD = 100  # commits of HEAD after a whole bundle, from which on a new one is made


@dataclass(frozen=True)
class BundleFile:
    """One bundle of a snapshot."""

    ending: str  # of its name in a run directory
    stored_name: str  # in the store
    commit: str  # what it brings
    excluded: tuple[str, ...] = ()  # git's arguments for what is left out


def write_bundles(git: Git, store: Path, code: Code) -> Code:
    """Puts the bundles of a snapshot and of its submodules into the store.

    Returns:
        `code` with two more keys. `base` is the commit of the whole bundle that the thin one needs;
        None when a remote has what is left out. `bundle` is "thin" (a remote has the base), "full"
        (everything is in the bundles) or "pushed" (a remote has the commit).
    """
    store.mkdir(parents=True, exist_ok=True)
    base = None
    if not code["remote"]:
        base = base_commit_for(git, store, code["head"] or code["commit"])
    code = code | {"base": base}
    for bundle in bundle_files(code):
        path = store / bundle.stored_name
        if not path.exists():
            write_bundle(git, path, bundle)
    code["bundle"] = bundle_kind(store, code)
    code["submodules"] = [
        write_submodule_bundles(git, store, inner) if inner["commit"] else inner
        for inner in code["submodules"]
    ]
    return code


def write_submodule_bundles(git: Git, store: Path, submodule: Code) -> Code:
    """Puts the bundles of a submodule into its own folder of the store."""
    top = Path(git("rev-parse", "--show-toplevel"))
    inner_git = Git(top / submodule["path"])
    return write_bundles(inner_git, store / folder_name(submodule), submodule)


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
    """The bundles that hold a snapshot; none when it was not recorded."""
    commit = code["commit"]
    base = code.get("base")
    if commit is None:
        return []
    if base is None:
        return [BundleFile(".bundle", f"{commit}.based.bundle", commit, ("--not", "--remotes"))]
    if base == commit:
        return [BundleFile(".bundle", f"{base}.whole.bundle", base)]
    return [
        BundleFile(".base.bundle", f"{base}.whole.bundle", base),
        BundleFile(".bundle", f"{commit}.{base[:12]}.bundle", commit, ("--not", base)),
    ]


def write_bundle(git: Git, path: Path, bundle: BundleFile) -> None:
    """Makes one bundle; none when everything in it is excluded.

    Raises:
        GitFailed: git cannot write it.
    """
    temporary = path.with_suffix(f".{os.getpid()}")
    ref = create_ref(git, bundle.commit)
    try:
        done = git.run(
            *FAST_PACKING, "bundle", "create", "-q", str(temporary), ref, *bundle.excluded
        )
        if done.returncode == 0:
            os.replace(temporary, path)
        elif "empty bundle" not in done.stderr:
            raise GitFailed(f"git bundle: {done.stderr.strip()}")
    finally:
        temporary.unlink(missing_ok=True)


def bundle_kind(store: Path, code: Code) -> str:
    """thin, full or pushed; see `write_bundles`."""
    if not code["remote"]:
        return "full"
    path = store / bundle_files(code)[0].stored_name
    if not path.exists():
        return "pushed"
    with open(path, "rb") as file:
        header = file.read(1 << 16).partition(b"\n\n")[0]
    needs_a_base = b"\n-" in header
    return "thin" if needs_a_base else "full"


def link_bundles(code: Code, store: Path, folder: Path, name: str = "code") -> None:
    """Links the bundles of `code` into `folder`.

    They are code.bundle and perhaps code.base.bundle; code.<path>.bundle for submodules.
    """
    for bundle in bundle_files(code):
        stored = store / bundle.stored_name
        if not stored.exists():
            continue
        try:
            os.link(stored, folder / f"{name}{bundle.ending}")
        except OSError:  # a file system without links
            shutil.copyfile(stored, folder / f"{name}{bundle.ending}")
    for inner in checked_out_submodules(code):
        link_bundles(inner, store / folder_name(inner), folder, f"{name}.{folder_name(inner)}")


def checked_out_submodules(code: Code) -> list[Code]:
    """The submodules whose code a snapshot holds."""
    return [inner for inner in code.get("submodules", []) if inner["commit"]]


def folder_name(submodule: Code) -> str:
    """The path of a submodule as the name of one folder."""
    return submodule["path"].replace("/", "+")
