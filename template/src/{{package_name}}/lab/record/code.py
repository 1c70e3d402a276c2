# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The code of a run: frozen from the project, or taken over from the snapshot that this process already runs
from."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import LabError, Refused
from ..project import Project
from . import frozen
from .git import Git, GitFailed
from .snapshot import NoRepository, snapshot

STORE = ".code"  # below the root of runs: bundles by commit; runs of the same code are links to one file


def freeze(
    project: Project,
    runs: Path,
    trial: str,
    *,
    dirty: str = "snapshot",
    max_file_mb: float = 10,
    allow: bool = False,
) -> dict[str, Any]:
    """The `code` section of a record, pinned in the repository and kept as a bundle in the store below
    `runs`.

    Raises:
        Refused: the snapshot refuses, or the tree has uncommitted changes and `dirty` is "refuse".
    """
    if dirty not in ("snapshot", "refuse"):
        raise LabError(f"record.dirty={dirty}: it is one of snapshot, refuse")
    if frozen.directory():
        return frozen.recorded()
    try:
        code = snapshot(project.root, max_file_mb=max_file_mb, allow=allow)
    except NoRepository as error:
        return unrecorded(str(error))
    git = Git(project.root)
    if code["dirty"] and dirty == "refuse":
        raise Refused(
            f"record.dirty=refuse, and {code['n_changed'] + code['n_untracked']} files are not committed. "
            "Type: git add -A && git commit    or run with: record.dirty=snapshot"
        )
    package = f"{code['prefix']}src/{project.package}"
    folders = [package, f"{package}/trials/{trial.partition('/')[0]}"]
    names = "".join(f"{code['commit']}:{folder}\n" for folder in folders)
    trees = [line.split() for line in git("cat-file", "--batch-check", stdin=names).splitlines()]
    if trees[0][-1] == "missing":
        return unrecorded(f"the git repository around {project.root} ignores {package}")
    code["trial_tree"] = None if trees[1][-1] == "missing" else trees[1][0]
    code["bundle"] = bundle(git, runs / STORE / f"{code['commit']}.bundle", code)
    code["complete"] = True
    return code


def unrecorded(reason: str) -> dict[str, Any]:
    """The `code` section of a run whose code git cannot record."""
    return {"commit": None, "dirty": None, "complete": False, "reason": reason}


def bundle(git: Git, path: Path, code: dict[str, Any]) -> str:
    """Makes the bundle of a snapshot, unless the store has it; says what it is: "thin" (a remote has the
    base),
    "full" (everything), or "pushed" (a remote has the commit itself, so there is nothing to keep)."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        try:
            done = git.run("bundle", "create", "-q", str(temporary), code["ref"], "--not", "--remotes")
            if "empty bundle" in done.stderr:
                return "pushed"
            if done.returncode:
                raise GitFailed(f"git bundle: {done.stderr.strip()}")
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    with open(path, "rb") as file:
        header = file.read(65536).partition(b"\n\n")[0]
    return "thin" if b"\n-" in header else "full"


def keep(code: dict[str, Any], runs: Path, run_dir: Path) -> None:
    """Links the bundle of `code` into a run directory as code.bundle."""
    source = runs / STORE / f"{code['commit']}.bundle"
    if code.get("bundle") in ("thin", "full") and source.exists():
        with suppress(FileExistsError):
            try:
                os.link(source, run_dir / "code.bundle")
            except OSError:
                shutil.copyfile(source, run_dir / "code.bundle")
