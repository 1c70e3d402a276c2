# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Git bundles beside a run: they keep its code even when the repository is gone."""

import os
import shutil
from pathlib import Path

from .git import Git, GitFailed
from .snapshot import create_ref

STORE = ".code"  # below the root of runs: bundles by commit; runs of the same code are links to one file
QUICKLY = (
    "-c",
    "pack.window=0",
    "-c",
    "pack.compression=1",
)  # rather time than space: it is made at the start of runs
MAX_COMMITS_AHEAD = 100  # commits between HEAD and a whole bundle, from which on a new one is made


def write_bundles(git: Git, store: Path, code: dict) -> None:
    """Puts the bundles of a snapshot and of its submodules into the store. Into `code` goes their kind as `bundle`:
    "thin" (a remote has the base), "full" (everything is in them) or "pushed" (a remote has the commit); and as `base`
    the commit of the whole bundle that they lean on."""
    store.mkdir(parents=True, exist_ok=True)
    code["base"] = (
        None if code["remote"] else base_commit_for(git, store, code["head"] or code["commit"])
    )
    for _, name, commit, without in bundle_files(code):
        path = store / name
        if not path.exists():
            write_bundle(git, path, commit, without)
    code["bundle"] = "full"
    if code["remote"]:
        code["bundle"] = (
            ("thin" if b"\n-" in bundle_header(path) else "full") if path.exists() else "pushed"
        )
    for inner, folder in checked_out_submodules(code):
        write_bundles(
            Git(Path(git("rev-parse", "--show-toplevel")) / inner["path"]), store / folder, inner
        )


def base_commit_for(git: Git, store: Path, head: str) -> str:
    """The commit of the newest whole bundle from which `head` is not far; else `head`."""
    for path in sorted(store.glob("*.whole.bundle"), key=os.path.getmtime, reverse=True):
        base = path.name.partition(".")[0]
        ahead = git.run(
            "rev-list", "--count", f"--max-count={MAX_COMMITS_AHEAD}", f"{base}..{head}"
        )
        if ahead.returncode == 0 and int(ahead.stdout) < MAX_COMMITS_AHEAD:
            return base
    return head


def bundle_files(code: dict) -> list[tuple[str, str, str, list[str]]]:
    """The bundles of a snapshot: how their names end in a run directory, names in the store, commit, what is left out."""
    commit, base = code["commit"], code.get("base")
    if base is None:
        return (
            [(".bundle", f"{commit}.based.bundle", commit, ["--not", "--remotes"])]
            if commit
            else []
        )
    if base == commit:
        return [(".bundle", f"{base}.whole.bundle", base, [])]
    thin = (".bundle", f"{commit}.{base[:12]}.bundle", commit, ["--not", base])
    return [(".base.bundle", f"{base}.whole.bundle", base, []), thin]


def write_bundle(git: Git, path: Path, commit: str, without: list[str]) -> None:
    """Makes one bundle; none when `without` leaves nothing."""
    temporary = path.with_suffix(f".{os.getpid()}")
    try:
        done = git.run(
            *QUICKLY, "bundle", "create", "-q", str(temporary), create_ref(git, commit), *without
        )
        if done.returncode == 0:
            os.replace(temporary, path)
        elif "empty bundle" not in done.stderr:
            raise GitFailed(f"git bundle: {done.stderr.strip()}")
    finally:
        temporary.unlink(missing_ok=True)


def bundle_header(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(1 << 16).partition(b"\n\n")[0]


def link_bundles(code: dict, store: Path, folder: Path, name: str = "code") -> None:
    """Links the bundles of `code` into `folder`: code.bundle and code.base.bundle, code.<path>.… for submodules."""
    for ending, stored, _, _ in bundle_files(code):
        if (store / stored).exists():
            try:
                os.link(store / stored, folder / f"{name}{ending}")
            except OSError:  # a file system without links
                shutil.copyfile(store / stored, folder / f"{name}{ending}")
    for inner, below in checked_out_submodules(code):
        link_bundles(inner, store / below, folder, f"{name}.{below}")


def checked_out_submodules(code: dict) -> list[tuple[dict, str]]:
    """The submodules that a snapshot holds, each with its path in one word."""
    return [
        (inner, inner["path"].replace("/", "+"))
        for inner in code.get("submodules", [])
        if inner["commit"]
    ]
