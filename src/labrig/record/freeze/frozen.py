"""The frozen code of a run: recorded at its start, written out again, checked when it runs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ... import env
from ...config.schema import all_settings
from ...errors import Failed, LabError, Refused
from ...machine.git import is_remote
from ...machine.text_formats import counted
from ...project import LABEL, LIBRARY, Project
from ..files.atomic import read_advisory, write_file, write_json
from ..files.code_section import checked_out_submodules, folder_name, library_of
from ..files.schema import Code, Submodule
from .bundle import COMPRESSED, OF_TREE, STORE, kept_bundles, unpack_bundle, write_bundles
from .frozen_files import write_file_list
from .git import Git, NoRepository
from .library import freeze_library
from .snapshot import snapshot


def freeze_code(
    project: Project,
    runs: Path,
    trial: str,
    *,
    dirty: str = "snapshot",
    max_file_mb: float = 10,
    allow: bool = False,
) -> Code:
    """Freezes the code of a run: a commit with a ref in the repository, and bundles below `runs`.

    Args:
        runs: root of all runs.
        trial: "wide", or "wide/lowlr" for a variant.
        dirty: what to do about uncommitted changes: "snapshot" or "refuse".
        max_file_mb: files that git does not track are skipped above this size (10**6 bytes).
        allow: record also what looks like a token.
    """
    all_settings()["record.dirty"].check(dirty, "freeze_code")
    if frozen_directory():
        return frozen_code()
    try:
        code = snapshot(project.root, max_file_mb=max_file_mb, allow=allow)
    except NoRepository as error:
        return unrecorded_code(str(error))
    if code["dirty"] and dirty == "refuse":
        n_files = code["n_changed"] + code["n_untracked"]
        raise Refused(
            f"record.dirty=refuse, and not committed: {counted(n_files, 'file')}. "
            "Type: git add -A && git commit    or run with: record.dirty=snapshot"
        )
    git = Git(project.root)
    package = f"{code['prefix']}src/{project.package}"
    trial_folder = f"{package}/trials/{trial.partition('/')[0]}"
    package_tree, trial_tree = tree_hashes(git, code["commit"], [package, trial_folder])
    if package_tree is None:
        return unrecorded_code(f"the git repository around {project.root} ignores {package}")
    code["package_tree"] = package_tree
    code["trial_tree"] = trial_tree
    return with_library(write_bundles(git, runs / STORE, code), runs / STORE)


def with_library(code: Code, store: Path) -> Code:
    """A `code` section with the library that runs now; its bundle is put into the store."""
    others = [inner for inner in code.get("submodules", []) if inner["path"] != env.FROZEN_LIBRARY]
    return code | {"submodules": [*others, freeze_library(store)]}


def tree_hashes(git: Git, commit: str, folders: list[str]) -> list[str | None]:
    """Git's hash of each folder in a commit; None where it is missing."""
    names = "".join(f"{commit}:{folder}\n" for folder in folders)
    answers = git("cat-file", "--batch-check", stdin=names).splitlines()
    # Each answer is "<hash> tree <size>" or "<name> missing".
    return [None if line.endswith(" missing") else line.split()[0] for line in answers]


def unrecorded_code(reason: str) -> Code:
    """The `code` section of a run whose code git cannot record."""
    return {"dirty": None, "reason": reason}


def unpack_code(
    code: Code,
    root: Path | None,
    bundles: Path,
    destination: Path,
    name: str = "code",
    stored: Path = Path(),
    *,
    from_remote: bool = True,
) -> None:
    """Writes the files of a recorded `code` section into the empty directory `destination`.

    They come from the repository around `root`, or else from bundles. The base of a thin bundle
    comes from that repository or the recorded remote. An archive has the tree without the commit.

    Args:
        root: the project; None: from no repository of this machine.
        bundles: the directory of a run, or the store of all bundles.
        name: how the names of bundles begin in the directory of a run.
        stored: where the bundles of a submodule lie in the store.
        from_remote: whether the recorded remote may be asked.

    Raises:
        LabError: the run's code was not recorded.
        Failed: none of these has the commit, or a submodule lies outside of `destination`.
    """
    if not code.get("commit"):
        reason = code.get("reason", "nobody knows why")
        raise LabError(
            f"the code of {bundles.name} was not recorded: {reason}. "
            "Take it from the commits of that day: git log"
        )
    top = repository_top(root, code) if root else None
    with tempfile.TemporaryDirectory(prefix="lab-code-") as temporary:
        ending = COMPRESSED if code.get("path") == env.FROZEN_LIBRARY else ".bundle"
        files = [bundles / f"{name}{each}" for each in (".base.bundle", ending, OF_TREE)]
        files += [bundles / stored / bundle.stored_name for bundle in kept_bundles(code)]
        git_dir = repository_with(code, top, files, Path(temporary) / "git", from_remote)
        destination.mkdir(parents=True, exist_ok=True)
        places = {
            "GIT_DIR": str(git_dir),
            "GIT_WORK_TREE": str(destination),
            "GIT_INDEX_FILE": f"{temporary}/index",
        }
        git = Git(destination, places)
        git("-c", "core.sparseCheckout=false", "read-tree", "--end-of-options", code["tree"])
        git("checkout-index", "-a", "-f")
        write_json(destination / LABEL, code)
        write_file_list(git, code["tree"], destination)
        for inner in checked_out_submodules(code):
            folder = folder_name(inner)
            unpack_code(
                inner,
                submodule_top(top, inner),
                bundles,
                place_inside(destination, inner["path"]),
                f"{name}.{folder}",
                stored / folder,
                from_remote=from_remote,
            )


def place_inside(folder: Path, path: str) -> Path:
    """The place of a recorded path in a folder."""
    place = folder / path
    if not place.resolve().is_relative_to(folder.resolve()):
        raise Failed(
            f"the recorded code has a link where its submodule {path} lies, and it leads out of "
            f"{folder}. Do not trust this record"
        )
    return place


def unpack_library(code: Code, bundles: Path, destination: Path) -> None:
    """Writes the library of a recorded `code` section into the empty directory `destination`.

    Args:
        bundles: the directory of the run.

    Raises:
        LabError: it was not recorded.
        Failed: its bundle is gone.
    """
    library = library_of(code)
    if library is None:
        raise LabError(
            "the library of this run was not recorded. To see what differs: lab runs diff"
        )
    name = f"code.{folder_name(library)}"
    # Its bundle is whole, and a run that somebody sent is no repository to run git in.
    unpack_code(library, None, bundles, destination, name, from_remote=False)


def repository_top(root: Path, code: Code) -> Path:
    """The top of the repository around the project at `root`, by the recorded prefix."""
    depth = len(Path(code["prefix"]).parts)
    return root.joinpath(*[".."] * depth).resolve()


def submodule_top(top: Path | None, submodule: Submodule) -> Path | None:
    """Where the repository of a submodule lies; None where `top` has no such submodule now.

    A record could name any directory below it, such as one that holds a stranger's repository,
    whose settings git would obey.
    """
    if top is None or not top.is_dir():
        return None
    path = submodule["path"]
    listed = Git(top).run("ls-files", "-s", "-z", "--", f":(literal){path}").stdout
    return top / path if listed.startswith("160000 ") else None


def repository_with(
    code: Code, top: Path | None, bundles: list[Path], new_git_dir: Path, from_remote: bool = True
) -> Path:
    """A git directory that has the recorded tree with all its files.

    It is the one of `top` when that has them. Else `new_git_dir` is created and filled from the
    bundles; the base of a thin one comes from `top`, or else from the remote if `from_remote`.
    """
    local = git_dir_of(top) if top else None
    if local and contains_code(local, code):
        return local
    git = repository_beside(local, new_git_dir, code)
    remote = code.get("remote") if from_remote else None
    for source in (None, remote):
        if source and is_remote(source):
            # A shallow clone next to it would have git fetch too little.
            (new_git_dir / "objects/info/alternates").unlink(missing_ok=True)
            git.run("fetch", "-q", "--end-of-options", source, "+refs/*:refs/base/*")
        for bundle in bundles:
            unpack_bundle(git, bundle)
        if contains_code(new_git_dir, code):
            return new_git_dir
    raise Failed(missing_commit(code, top, bundles[1], remote))


def repository_beside(other: Path | None, new_git_dir: Path, code: Code) -> Git:
    """Git in a new repository that has the objects of the git directory `other`, and nothing else."""
    new_git_dir.mkdir()
    git = Git(new_git_dir, {"GIT_DIR": str(new_git_dir)})
    git("init", "-q", "--bare", "--template=", f"--object-format={object_format(code)}")
    if other:
        objects = Git(other, {"GIT_DIR": str(other)})(
            "rev-parse", "--path-format=absolute", "--git-path", "objects"
        )
        write_file(new_git_dir / "objects/info/alternates", f"{objects}\n")
    return git


def missing_commit(code: Code, top: Path | None, bundle: Path, remote: str | None) -> str:
    """Where a commit was searched, and what brings it."""
    text = f"the commit {code['commit']} is not whole in {bundle}"
    if top:
        text = f"the commit {code['commit']} is neither in {top}, nor whole in {bundle}"
    if not remote:
        return f"{text}. Copy the whole directory of the run again."
    if not is_remote(remote):
        return (
            f"{text}, and its remote {remote!r} is not asked: expected https://, ssh://, "
            "git@HOST:PATH or a path.\nDo not trust this record."
        )
    needed = code.get("remote_base") or code["commit"]
    return (
        f"{text}, nor at the remote {remote}.\n"
        f"In a clone that has {needed[:12]} this works; git fetch may bring it."
    )


def object_format(code: Code) -> str:
    """The hash that the repository of a commit uses."""
    return "sha1" if len(code["commit"]) == 40 else "sha256"


def git_dir_of(top: Path) -> Path | None:
    """The git directory of a work tree; None when it is gone."""
    if not top.is_dir():
        return None
    done = Git(top).run("rev-parse", "--absolute-git-dir")
    return Path(done.stdout.strip()) if done.returncode == 0 else None


def contains_code(git_dir: Path, code: Code) -> bool:
    """Whether a repository holds every file of the recorded tree."""
    git = Git(git_dir, {"GIT_DIR": str(git_dir)})
    tree = git.run("rev-parse", "-q", "--verify", f"{code['commit']}^{{tree}}").stdout.strip()
    if tree not in ("", code["tree"]):
        raise Failed(
            f"the commit {code['commit']} has another tree than the recorded "
            f"{code['tree']}. Copy the whole directory of the run again"
        )
    found = git.run("rev-list", "--objects", "--no-walk", "--end-of-options", code["tree"])
    return found.returncode == 0


def frozen_directory() -> Path | None:
    """Where the frozen code lies, or None when this process runs the live tree."""
    folder = os.environ.get(env.FROZEN)
    return Path(folder).resolve() if folder else None


def check_frozen_directory() -> None:
    """Makes sure that a process that should run frozen code does.

    The library is installed, and may be another version since; without this check a job would
    silently run that.
    """
    folder = frozen_directory()
    if folder and not LIBRARY.is_relative_to(folder):
        raise Refused(
            f"this run must use the frozen code in {folder}, but labrig was imported from "
            f"{LIBRARY}.\nPut the frozen one first on the path: "
            f"PYTHONPATH={folder}/src:{folder / env.FROZEN_LIBRARY}"
        )


def frozen_code() -> Code:
    """The `code` section that belongs to the frozen code this process runs."""
    check_frozen_directory()
    label = Path(os.environ[env.FROZEN]).resolve() / LABEL
    code: Code = read_advisory(label, Code) or {}
    commit = code.get("commit")
    expected = os.environ.get(env.SNAPSHOT_COMMIT, commit)
    if not commit or commit != expected:
        raise Refused(
            f"{label} names the commit {commit}, expected {expected}. "
            "Make such a directory with: lab runs code RUN DIRECTORY"
        )
    return code
