"""The frozen code of a submission, as bundles that need nothing else."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from ..cluster.submit.submit import freeze_points
from ..config.compose import Composition
from ..errors import Refused
from ..project import Project
from ..record.files.code_section import checked_out_submodules, folder_name, library_of
from ..record.files.schema import Code, Submodule
from ..record.freeze.bundle import STORE, bundle_files, write_bundles
from ..record.freeze.git import Git

LOCKS = ("uv.lock", "pyproject.toml")  # the first that is frozen names the environment


@dataclass(frozen=True)
class SentCode:
    """The code of a submission.

    Args:
        codes: the `code` section of the record for each trial; all have one commit.
        store: the directory with its bundles.
        bundles: their paths in the store, in the order in which git can take them.
        lock: names the environment; it changes with the lock file.
    """

    codes: dict[str, Code]
    store: Path
    bundles: list[str]
    lock: str

    @property
    def code(self) -> Code:
        return next(iter(self.codes.values()))

    @property
    def library(self) -> Submodule:
        library = library_of(self.code)
        assert library is not None  # this version has frozen it
        return library


def freeze(project: Project, points: list[Composition], allow: bool) -> SentCode:
    """Freezes the working tree, with whole bundles: the host may reach no remote."""
    runs = project.paths.runs
    codes = freeze_points(project, runs, points, allow)
    git = Git(project.root)
    store = runs / STORE
    codes = {trial: write_bundles(git, store, code, whole=True) for trial, code in codes.items()}
    code = next(iter(codes.values()))
    return SentCode(codes, store, bundle_paths(code), lock_of(git, code))


def bundle_paths(code: Code) -> list[str]:
    """The bundles of a snapshot and of its submodules, relative to the store."""
    paths = [bundle.stored_name for bundle in bundle_files(code)]
    for inner in checked_out_submodules(code):
        paths += [f"{folder_name(inner)}/{path}" for path in bundle_paths(inner)]
    return paths


def lock_of(git: Git, code: Code) -> str:
    """12 letters for the environment that the frozen code asks for."""
    for name in LOCKS:
        done = git.run("show", "--end-of-options", f"{code['commit']}:{code['prefix']}{name}")
        if done.returncode == 0:
            return hashlib.sha256(done.stdout.encode(errors="replace")).hexdigest()[:12]
    raise Refused(
        f"neither {' nor '.join(LOCKS)} is in the code, so no environment can be made."
        " Write one: make setup"
    )
