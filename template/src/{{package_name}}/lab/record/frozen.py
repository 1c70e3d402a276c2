# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The frozen code of a run: recorded at its start, written out again, checked when it runs."""

import os
import tempfile
from pathlib import Path

from .. import env
from ..errors import Failed, LabError, Refused
from ..project import LAB, PACKAGE, Project
from .atomic import read_json, write_json
from .bundle import STORE, checked_out_submodules, write_bundles
from .git import Git, NoRepository
from .snapshot import snapshot

LABEL = ".lab-snapshot.json"  # lies with the files of a run's code: the `code` section they were made from


def unpack_code(
    code: dict, root: Path, run_dir: Path, destination: Path, name: str = "code"
) -> None:
    """Writes the files of a recorded `code` section into the empty directory `destination`.

    They come from the repository around `root`, or else from the run's bundles with, for a thin one, its base
    from that repository or the recorded remote.

    Raises:
        LabError: the run's code was not recorded.
        Failed: none of these has the commit.
    """
    if not code.get("commit"):
        raise LabError(
            f"the code of {run_dir.name} was not recorded: {code.get('reason', 'an older record')}"
        )
    top = root.joinpath(*[".."] * len(Path(code["prefix"]).parts)).resolve()
    destination.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="lab-code-") as temporary:
        place = {"GIT_WORK_TREE": str(destination), "GIT_INDEX_FILE": f"{temporary}/index"}
        bundles = [run_dir / f"{name}{ending}" for ending in (".base.bundle", ".bundle")]
        git_dir = repository_with(code, top, bundles, Path(temporary) / "git")
        git = Git(destination, {"GIT_DIR": str(git_dir), **place})
        git("-c", "core.sparseCheckout=false", "read-tree", code["commit"])
        if git("write-tree") != code["tree"]:
            raise Failed(
                f"the commit {code['commit']} has another tree than the recorded {code['tree']}"
            )
        git("checkout-index", "-a", "-f")
        write_json(destination / LABEL, code)
        for inner, below in checked_out_submodules(code):
            unpack_code(
                inner, top / inner["path"], run_dir, destination / inner["path"], f"{name}.{below}"
            )


def repository_with(code: dict, top: Path, bundles: list[Path], fresh: Path) -> Path:
    """A git directory that has the recorded commit with all its files; `fresh` is made when it is needed."""
    done = Git(top).run("rev-parse", "--absolute-git-dir") if top.is_dir() else None
    here = Path(done.stdout.strip()) if done and done.returncode == 0 else None
    if here and contains_commit(here, code):
        return here
    fresh.mkdir()
    git = Git(fresh)
    git("init", "-q", "--bare")
    for base in (
        None,
        here,
        code.get("remote"),
    ):  # a thin bundle can be read once its base is there
        for source in filter(None, (base, *bundles)):
            git.run("fetch", "-q", str(source), "+refs/*:refs/base/*")
        if contains_commit(fresh, code):
            return fresh
    raise Failed(
        f"the commit {code['commit']} is neither in {top}, nor whole in {bundles[-1]}, "
        f"nor at the remote {code.get('remote')}. Bring its base {code.get('head')} with: git fetch"
    )


def contains_commit(git_dir: Path, code: dict) -> bool:
    """Whether a repository holds the commit and every file of its tree."""
    done = Git(git_dir, {"GIT_DIR": str(git_dir)}).run(
        "rev-list", "--objects", "-n", "1", code["commit"]
    )
    return done.returncode == 0


def freeze_code(
    project: Project, runs: Path, trial: str, dirty: str = "snapshot", **options: object
) -> dict:
    """The `code` section of a record: pinned in the repository, and kept as a bundle below `runs`.

    Args:
        dirty: what to do about uncommitted changes: "snapshot" or "refuse".
        options: of `snapshot`.

    Raises:
        Refused: the snapshot refuses, or there are uncommitted changes and `dirty` is "refuse".
    """
    if dirty not in ("snapshot", "refuse"):
        raise LabError(f"record.dirty={dirty}: it is one of snapshot, refuse")
    if frozen_directory():
        return frozen_code()
    try:
        code = snapshot(project.root, **options)
    except NoRepository as error:
        return unrecorded(str(error))
    if code["dirty"] and dirty == "refuse":
        raise Refused(
            f"record.dirty=refuse, and {code['n_changed'] + code['n_untracked']} files are not committed. "
            "Type: git add -A && git commit    or run with: record.dirty=snapshot"
        )
    git = Git(project.root)
    package = f"{code['prefix']}src/{project.package}"
    folders = [package, f"{package}/trials/{trial.partition('/')[0]}"]
    names = "".join(f"{code['commit']}:{folder}\n" for folder in folders)
    trees = [line.split() for line in git("cat-file", "--batch-check", stdin=names).splitlines()]
    if trees[0][-1] == "missing":
        return unrecorded(f"the git repository around {project.root} ignores {package}")
    code["package_tree"], code["trial_tree"] = (
        None if tree[-1] == "missing" else tree[0] for tree in trees
    )
    write_bundles(git, runs / STORE, code)
    return code | {"complete": True}


def unrecorded(reason: str) -> dict:
    """The `code` section of a run whose code git cannot record."""
    return {"commit": None, "dirty": None, "complete": False, "reason": reason}


def frozen_directory() -> Path | None:
    """Where the frozen code lies, or None when this process runs the live tree."""
    return Path(os.environ[env.FROZEN]).resolve() if os.environ.get(env.FROZEN) else None


def check_frozen_directory() -> None:
    """Makes sure that a process that should run frozen code does.

    An editable install puts the live tree on the path; without this check a job would silently run code
    edited since.

    Raises:
        Refused: the package was imported from elsewhere than LAB_FROZEN.
    """
    folder = frozen_directory()
    if folder and not LAB.is_relative_to(folder):
        raise Refused(
            f"this run must use the frozen code in {folder}, but {PACKAGE} was imported from {LAB.parent}.\n"
            f"Put the snapshot first on the path: PYTHONPATH={folder}/src"
        )


def frozen_code() -> dict:
    """The `code` section that belongs to the frozen code this process runs.

    Raises:
        Refused: the directory carries no label, or another commit's than LAB_SNAPSHOT_COMMIT says.
    """
    check_frozen_directory()
    code = read_json(frozen_directory() / LABEL) or {}
    expected = os.environ.get(env.SNAPSHOT_COMMIT, code.get("commit"))
    if not code.get("commit") or code["commit"] != expected:
        raise Refused(
            f"{frozen_directory() / LABEL} names the commit {code.get('commit')}, expected {expected}. "
            "Make such a directory with: lab runs code RUN DIRECTORY"
        )
    return code
