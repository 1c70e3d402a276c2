# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The code of a run: frozen at its start, kept in git bundles beside it, written out again, and checked when it runs.

Where a remote has the base, the bundle is thin and leans on it. Elsewhere a whole bundle of some commit is made, which
takes as long as reading the repository; the code of this run and of the next ones is thin on top of it, until HEAD has
gone far. A run directory has links to all it needs.
"""

import os
import shutil
import tempfile
from pathlib import Path

from ..errors import Failed, LabError, Refused
from ..project import LAB, PACKAGE, Project
from .files import read_json, write_json
from .snapshot import Git, GitFailed, NoRepository, pin, snapshot

LABEL = ".lab-snapshot.json"  # lies with the files of a run's code: the `code` section they were made from
STORE = ".code"  # below the root of runs: bundles by commit; runs of the same code are links to one file
QUICKLY = ("-c", "pack.window=0", "-c", "pack.compression=1")  # rather time than space: it is made at the start of runs
FAR = 100  # commits between HEAD and a whole bundle, from which on a new one is made


def bundle(git: Git, store: Path, code: dict) -> None:
    """Puts the bundles of a snapshot and of its submodules into the store. Into `code` goes their kind as `bundle`:
    "thin" (a remote has the base), "full" (everything is in them) or "pushed" (a remote has the commit); and as `base`
    the commit of the whole bundle that they lean on."""
    store.mkdir(parents=True, exist_ok=True)
    code["base"] = None if code["remote"] else near(git, store, code["head"] or code["commit"])
    for _, name, commit, without in parts(code):
        path = store / name
        if not path.exists():
            pack(git, path, commit, without)
    code["bundle"] = "full"
    if code["remote"]:
        code["bundle"] = ("thin" if b"\n-" in header(path) else "full") if path.exists() else "pushed"
    for inner, folder in checked_out(code):
        bundle(Git(Path(git("rev-parse", "--show-toplevel")) / inner["path"]), store / folder, inner)


def near(git: Git, store: Path, head: str) -> str:
    """The commit of the newest whole bundle from which `head` is not far; else `head`."""
    for path in sorted(store.glob("*.whole.bundle"), key=os.path.getmtime, reverse=True):
        base = path.name.partition(".")[0]
        ahead = git.run("rev-list", "--count", f"--max-count={FAR}", f"{base}..{head}")
        if ahead.returncode == 0 and int(ahead.stdout) < FAR:
            return base
    return head


def parts(code: dict) -> list[tuple[str, str, str, list[str]]]:
    """The bundles of a snapshot: how their names end in a run directory, names in the store, commit, what is left out."""
    commit, base = code["commit"], code.get("base")
    if base is None:
        return [(".bundle", f"{commit}.based.bundle", commit, ["--not", "--remotes"])] if commit else []
    if base == commit:
        return [(".bundle", f"{base}.whole.bundle", base, [])]
    thin = (".bundle", f"{commit}.{base[:12]}.bundle", commit, ["--not", base])
    return [(".base.bundle", f"{base}.whole.bundle", base, []), thin]


def pack(git: Git, path: Path, commit: str, without: list[str]) -> None:
    """Makes one bundle; none when `without` leaves nothing."""
    temporary = path.with_suffix(f".{os.getpid()}")
    try:
        done = git.run(*QUICKLY, "bundle", "create", "-q", str(temporary), pin(git, commit), *without)
        if done.returncode == 0:
            os.replace(temporary, path)
        elif "empty bundle" not in done.stderr:
            raise GitFailed(f"git bundle: {done.stderr.strip()}")
    finally:
        temporary.unlink(missing_ok=True)


def header(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(1 << 16).partition(b"\n\n")[0]


def keep(code: dict, store: Path, folder: Path, name: str = "code") -> None:
    """Links the bundles of `code` into `folder`: code.bundle and code.base.bundle, code.<path>.… for submodules."""
    for ending, stored, _, _ in parts(code):
        if (store / stored).exists():
            try:
                os.link(store / stored, folder / f"{name}{ending}")
            except OSError:  # a file system without links
                shutil.copyfile(store / stored, folder / f"{name}{ending}")
    for inner, below in checked_out(code):
        keep(inner, store / below, folder, f"{name}.{below}")


def checked_out(code: dict) -> list[tuple[dict, str]]:
    """The submodules that a snapshot holds, each with its path in one word."""
    return [(inner, inner["path"].replace("/", "+")) for inner in code.get("submodules", []) if inner["commit"]]


def materialise(code: dict, root: Path, run_dir: Path, destination: Path, name: str = "code") -> None:
    """Writes the files of a recorded `code` section into the empty directory `destination`.

    They come from the repository around `root`, or else from the run's bundles with, for a thin one, its base
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
        bundles = [run_dir / f"{name}{ending}" for ending in (".base.bundle", ".bundle")]
        git_dir = holder(code, top, bundles, Path(temporary) / "git")
        git = Git(destination, {"GIT_DIR": str(git_dir), **place})
        git("-c", "core.sparseCheckout=false", "read-tree", code["commit"])
        if git("write-tree") != code["tree"]:
            raise Failed(f"the commit {code['commit']} has another tree than the recorded {code['tree']}")
        git("checkout-index", "-a", "-f")
        write_json(destination / LABEL, code)
        for inner, below in checked_out(code):
            materialise(inner, top / inner["path"], run_dir, destination / inner["path"], f"{name}.{below}")


def holder(code: dict, top: Path, bundles: list[Path], fresh: Path) -> Path:
    """A git directory that has the recorded commit with all its files; `fresh` is made when it is needed."""
    done = Git(top).run("rev-parse", "--absolute-git-dir") if top.is_dir() else None
    here = Path(done.stdout.strip()) if done and done.returncode == 0 else None
    if here and has(here, code):
        return here
    fresh.mkdir()
    git = Git(fresh)
    git("init", "-q", "--bare")
    for base in (None, here, code.get("remote")):  # a thin bundle can be read once its base is there
        for source in filter(None, (base, *bundles)):
            git.run("fetch", "-q", str(source), "+refs/*:refs/base/*")
        if has(fresh, code):
            return fresh
    raise Failed(
        f"the commit {code['commit']} is neither in {top}, nor whole in {bundles[-1]}, "
        f"nor at the remote {code.get('remote')}. Bring its base {code.get('head')} with: git fetch"
    )


def has(git_dir: Path, code: dict) -> bool:
    """Whether a repository holds the commit and every file of its tree."""
    done = Git(git_dir, {"GIT_DIR": str(git_dir)}).run("rev-list", "--objects", "-n", "1", code["commit"])
    return done.returncode == 0


def freeze(project: Project, runs: Path, trial: str, dirty: str = "snapshot", **options: object) -> dict:
    """The `code` section of a record: pinned in the repository, and kept as a bundle below `runs`.

    Args:
        dirty: what to do about uncommitted changes: "snapshot" or "refuse".
        options: of `snapshot`.

    Raises:
        Refused: the snapshot refuses, or there are uncommitted changes and `dirty` is "refuse".
    """
    if dirty not in ("snapshot", "refuse"):
        raise LabError(f"record.dirty={dirty}: it is one of snapshot, refuse")
    if directory():
        return recorded()
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
    code["package_tree"], code["trial_tree"] = (None if tree[-1] == "missing" else tree[0] for tree in trees)
    bundle(git, runs / STORE, code)
    return code | {"complete": True}


def unrecorded(reason: str) -> dict:
    """The `code` section of a run whose code git cannot record."""
    return {"commit": None, "dirty": None, "complete": False, "reason": reason}


def directory() -> Path | None:
    """Where the frozen code lies, or None when this process runs the live tree."""
    return Path(os.environ["LAB_FROZEN"]).resolve() if os.environ.get("LAB_FROZEN") else None


def check() -> None:
    """Makes sure that a process that should run frozen code does.

    An editable install puts the live tree on the path; without this check a job would silently run code
    edited since.

    Raises:
        Refused: the package was imported from elsewhere than LAB_FROZEN.
    """
    folder = directory()
    if folder and not LAB.is_relative_to(folder):
        raise Refused(
            f"this run must use the frozen code in {folder}, but {PACKAGE} was imported from {LAB.parent}.\n"
            f"Put the snapshot first on the path: PYTHONPATH={folder}/src"
        )


def recorded() -> dict:
    """The `code` section that belongs to the frozen code this process runs.

    Raises:
        Refused: the directory carries no label, or another commit's than LAB_SNAPSHOT_COMMIT says.
    """
    check()
    code = read_json(directory() / LABEL) or {}
    expected = os.environ.get("LAB_SNAPSHOT_COMMIT", code.get("commit"))
    if not code.get("commit") or code["commit"] != expected:
        raise Refused(
            f"{directory() / LABEL} names the commit {code.get('commit')}, expected {expected}. "
            "Make such a directory with: lab runs code RUN DIRECTORY"
        )
    return code
