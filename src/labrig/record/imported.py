"""What ran is what is recorded: compares the imported files of own code with the frozen code."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from ..env import MACHINERY
from ..errors import Refused
from ..machine.counted import counted
from ..project import Project
from ..version import __version__
from .atomic import sha256
from .code_section import machinery_name, machinery_of
from .editable import editable_repositories, nearest_repository
from .frozen import frozen_code, frozen_directory, repository_top
from .frozen_files import filtered_hashes, frozen_hashes, git_hash, left_out_reason
from .git import Git, GitFailed
from .machinery import read_machinery
from .own_files import own_files
from .schema import Code, UnfrozenFile

MAX_NAMES = 3  # files that a message names


class ImportedCode:
    """The own code that this process has imported, compared with frozen code.

    Args:
        project: whose code it is.
        code: the frozen code, which was recorded.
    """

    def __init__(self, project: Project, code: Code) -> None:
        self.root = project.root
        self.code = code
        self.top = repository_top(project.root, code)
        self.unpacked = frozen_directory()  # where frozen code lies if it is what runs
        self.has_list = bool(self.unpacked) and frozen_code()["commit"] == code["commit"]
        self.compared: set[str] = set()

    def compare(self) -> list[UnfrozenFile]:
        """The files imported since the last call that the frozen code does not hold as they are.

        Raises:
            GitFailed: git does not have the commit.
        """
        paths = [path for path in own_files() if path not in self.compared]
        self.compared |= set(paths)
        names = {path: self.name_in_repository(os.path.realpath(path)) for path in paths}
        recorded = self.recorded_hashes(sorted({name for name in names.values() if name}))
        differing = [] if self.unpacked else self.compare_library()
        for path, name in names.items():
            if name is None:
                differing += self.describe_outside(path)
            elif name not in recorded:
                differing.append(self.describe_left_out(path))
            elif not self.is_as_recorded(path, recorded[name]):
                reason = "changed after the code was frozen"
                differing.append(unfrozen(self.shown(path), "changed", reason, path))
        return differing

    def compare_library(self) -> list[UnfrozenFile]:
        """The library, when it is another one than was frozen; told once."""
        recorded = machinery_of(self.code)
        if MACHINERY in self.compared or recorded is None:
            return []
        now = read_machinery()
        if now.commit == recorded["commit"]:
            return []
        self.compared.add(MACHINERY)
        reason = f"it was {machinery_name(self.code)}"
        return [unfrozen(f"labrig {__version__} ({now.commit[:12]})", "changed", reason, "")]

    def name_in_repository(self, real: str) -> str | None:
        """The name of a file (without links) in the frozen code; None: it lies elsewhere."""
        for directory in filter(None, (self.unpacked, self.top)):
            if not Path(real).is_relative_to(directory):
                continue
            repository = nearest_repository(os.path.dirname(real))
            if directory == self.unpacked or repository in self.repositories():
                return os.path.relpath(real, directory)
        return None

    def repositories(self) -> list[Path]:
        """The work trees that the frozen code is made of: the repository and its submodules."""
        submodules = self.code.get("submodules", [])
        return [self.top, *(self.top / submodule["path"] for submodule in submodules)]

    def recorded_hashes(self, names: list[str]) -> dict[str, str]:
        """Git's hashes of the files in the frozen code."""
        if self.unpacked and self.has_list:
            return frozen_hashes(self.code, self.unpacked, names, unpacked=True)
        return frozen_hashes(self.code, self.top, names)

    def is_as_recorded(self, path: str, recorded: str) -> bool:
        """Whether the file at `path` has the recorded content, perhaps with other line ends."""
        try:
            if git_hash(Path(path).read_bytes(), recorded) == recorded:
                return True
            return filtered_hashes(Git(self.top), [path])[path] == recorded
        except (OSError, GitFailed):
            return False

    def describe_left_out(self, path: str) -> UnfrozenFile:
        """A file of the repository that the frozen code does not have."""
        shown = self.shown(path)
        rule = left_out_reason(self.root, self.code, shown)
        if rule is None:
            return unfrozen(shown, "changed", "created after the code was frozen", path)
        return unfrozen(shown, "left out", rule, path)

    def describe_outside(self, path: str) -> list[UnfrozenFile]:
        """A file outside of the repository; nothing when env.txt says its version.

        It does for a committed file of an editable install.
        """
        real = os.path.realpath(path)
        repository = nearest_repository(os.path.dirname(real))
        shown = self.shown(path)
        if shown != path and self.shown(real) == real:
            reason = f"a link to {real}, outside of the repository"
        elif repository in editable_repositories():
            if is_committed(repository, real):
                return []
            reason = f"not committed in its repository, {repository}"
        elif shown != path:
            reason = "in a repository of its own, which is no submodule"
            return [unfrozen(shown, "left out", reason, path)]
        else:
            reason = "outside of the repository"
        return [unfrozen(shown, "outside", reason, path)]

    def shown(self, path: str) -> str:
        """A path of the project relative to it, any other as it is."""
        roots = [self.root, self.root.resolve()]
        if self.unpacked:
            roots.append(self.unpacked / self.code["prefix"])
        for root in [*roots, self.top]:
            if Path(path).is_relative_to(root):
                return os.path.relpath(path, self.root if root == self.top else root)
        return path


def unfrozen(shown: str, kind: str, reason: str, path: str) -> UnfrozenFile:
    """An entry for the record."""
    file = Path(path)
    return {
        "path": shown,
        "kind": kind,
        "reason": reason,
        "sha256": sha256(file) if file.is_file() else None,
    }


@cache
def head_of(repository: Path) -> str:
    """The commit of HEAD."""
    return Git(repository)("rev-parse", "HEAD")


def is_committed(repository: Path, real: str) -> bool:
    """Whether HEAD of a repository has the file at `real` as it is."""
    name = os.path.relpath(real, repository)
    try:
        recorded = frozen_hashes({"commit": head_of(repository)}, repository, [name]).get(name)
        return recorded == git_hash(Path(real).read_bytes(), recorded or "")
    except (OSError, GitFailed):
        return False


def refuse_unfrozen(files: list[UnfrozenFile], policy: str) -> None:
    """Stops a run that would not be what its record says.

    Args:
        files: what `ImportedCode.compare` returned.
        policy: what to do about files that the freeze left out, "refuse" or "warn".

    Raises:
        Refused: a file was changed after the freeze, or was left out and `policy` is "refuse".
    """
    changed = [file for file in files if file["kind"] == "changed"]
    if changed:
        raise Refused(
            f"the code that runs is not the code that was recorded.\n{format_files(changed)}\n"
            "Type the same command again."
        )
    left_out = [file for file in files if file["kind"] == "left out"]
    if left_out and policy == "refuse":
        raise Refused(
            f"the recorded code lacks files that this run imports.\n{format_files(left_out)}\n"
            f"To record such a file: git add -f {left_out[0]['path']}\n"
            "To run with an incomplete record: record.code=warn"
        )


def format_files(files: list[UnfrozenFile]) -> str:
    """A line for each of the first files, with the reason, and how many more there are."""
    lines = [f"  {file['path']}: {file['reason']}" for file in files[:MAX_NAMES]]
    if len(files) > MAX_NAMES:
        lines.append(f"  and {counted(len(files) - MAX_NAMES, 'more file')}")
    return "\n".join(lines)
