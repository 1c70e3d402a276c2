# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Code outside the repository: a git bundle beside each run, and the way back from it to files."""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from ..errors import Failed, LabError
from .files import write_json
from .frozen import LABEL
from .git import Git, GitFailed

STORE = ".code"  # below the root of runs: bundles by commit; runs of the same code are links to one file


def bundle(git: Git, runs: Path, code: dict) -> None:
    """Puts the bundles of a snapshot and of its submodules into the store, and their kind into `code["bundle"]`:
    "thin" (a remote has the base), "full" (everything is in it), or "pushed" (a remote has the commit)."""
    path = runs / STORE / f"{code['commit']}.bundle"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        try:
            done = git.run("bundle", "create", "-q", str(temporary), code["ref"], "--not", "--remotes")
            if done.returncode and "empty bundle" not in done.stderr:
                raise GitFailed(f"git bundle: {done.stderr.strip()}")
            if not done.returncode:
                os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    code["bundle"] = "pushed"
    if path.exists():
        with open(path, "rb") as file:
            code["bundle"] = "thin" if b"\n-" in file.read(1 << 16).partition(b"\n\n")[0] else "full"
    for inner in checked_out(code):
        bundle(Git(Path(git("rev-parse", "--show-toplevel")) / inner["path"]), runs, inner)


def keep(code: dict, runs: Path, folder: Path, name: str = "code") -> None:
    """Links the bundles of `code` into `folder`: code.bundle, and code.<path>.bundle for submodules."""
    source = runs / STORE / f"{code['commit']}.bundle"
    if source.exists():
        with suppress(FileExistsError):
            try:
                os.link(source, folder / f"{name}.bundle")
            except OSError:  # a file system without links
                shutil.copyfile(source, folder / f"{name}.bundle")
    for inner in checked_out(code):
        keep(inner, runs, folder, f"{name}.{inner['path'].replace('/', '+')}")


def materialise(code: dict, root: Path, run_dir: Path, destination: Path, name: str = "code") -> None:
    """Writes the files of a recorded `code` section into the empty directory `destination`.

    They come from the repository around `root`, or else from the run's bundle with, for a thin one, its base
    from that repository or the recorded remote.

    Raises:
        LabError: the run's code was not recorded.
        Failed: none of these has the commit.
    """
    if not code.get("commit"):
        raise LabError(f"the code of {run_dir.name} was not recorded: {code.get('reason', 'an older record')}")
    top = root.joinpath(*[".."] * len(Path(code["prefix"]).parts)).resolve()
    destination.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="lab-code-") as temporary:
        place = {"GIT_WORK_TREE": str(destination), "GIT_INDEX_FILE": f"{temporary}/index"}
        git_dir = holder(code, top, run_dir / f"{name}.bundle", Path(temporary) / "git")
        git = Git(destination, {"GIT_DIR": str(git_dir), **place})
        git("-c", "core.sparseCheckout=false", "read-tree", code["commit"])
        if git("write-tree") != code["tree"]:
            raise Failed(f"the commit {code['commit']} has another tree than the recorded {code['tree']}")
        git("checkout-index", "-a", "-f")
        write_json(destination / LABEL, code)
        for inner in checked_out(code):
            nested = f"{name}.{inner['path'].replace('/', '+')}"
            materialise(inner, top / inner["path"], run_dir, destination / inner["path"], nested)


def holder(code: dict, top: Path, bundle_file: Path, fresh: Path) -> Path:
    """A git directory that has the recorded commit with all its files; `fresh` is made when it is needed."""
    done = Git(top).run("rev-parse", "--absolute-git-dir") if top.is_dir() else None
    here = Path(done.stdout.strip()) if done and done.returncode == 0 else None
    if here and has(here, code):
        return here
    fresh.mkdir()
    git = Git(fresh)
    git("init", "-q", "--bare")
    for base in (None, here, code.get("remote")):  # a thin bundle can be read once its base is there
        for source in filter(None, (base, bundle_file)):
            git.run("fetch", "-q", str(source), "+refs/*:refs/base/*")
        if has(fresh, code):
            return fresh
    raise Failed(
        f"the commit {code['commit']} is neither in {top}, nor whole in {bundle_file}, "
        f"nor at the remote {code.get('remote')}. Bring its base {code.get('head')} with: git fetch"
    )


def has(git_dir: Path, code: dict) -> bool:
    """Whether a repository holds the commit and every file of its tree."""
    done = Git(git_dir, {"GIT_DIR": str(git_dir)}).run("rev-list", "--objects", "-n", "1", code["commit"])
    return done.returncode == 0


def checked_out(code: dict) -> list[dict]:
    return [inner for inner in code.get("submodules", []) if inner["commit"]]
