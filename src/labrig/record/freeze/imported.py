"""What ran is what is recorded: compares the imported files of own code with the frozen code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from ...env import FROZEN_LIBRARY
from ...errors import Refused
from ...machine.text_formats import counted
from ...project import Project
from ...version import __version__
from ..files.atomic import sha256
from ..files.code_section import library_name, library_of
from ..files.schema import Code, UnfrozenFile
from .frozen import frozen_code, frozen_directory, repository_top
from .frozen_files import (
    frozen_hashes,
    git_hash,
    is_readme,
    left_out_reason,
    skip_reason,
    way_to_record,
)
from .git import Git, GitFailed
from .library import read_library
from .loading import CODE, OWN, own_files
from .packages import editable_repositories, nearest_repository

FILTERED = "a filter of git has stored other bytes than those that ran"
MAX_NAMES = 3  # files that a message names
NOT_CODE = (".env", ".git", ".venv")  # of a project; the record never holds values of .env


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
        self.has_list = bool(self.unpacked) and frozen_code().get("commit") == code.get("commit")
        self.compared: set[str] = set()
        self.used: dict[str, str] = {}  # git's hash of each frozen file that was imported or read
        self.read_before = set(OWN.read)

    def load_from_now_on(self) -> None:
        """Has Python import the modules of this project as they were frozen."""
        places = [self.root, self.top, *filter(None, [self.unpacked])]
        OWN.watch(*places, *(place.resolve() for place in places))
        OWN.from_frozen = self.frozen_bytes

    @cached_property
    def recorded(self) -> dict[str, str]:
        """Git's hash of each file of the frozen code.

        Raises:
            GitFailed: git does not have the commit.
        """
        if self.unpacked and self.has_list:
            return frozen_hashes(self.code, self.unpacked, unpacked=True)
        return frozen_hashes(self.code, self.top)

    def frozen_bytes(self, path: str, on_disk: bytes) -> bytes:
        """The bytes of a module as they were frozen; those on the disk where there are no others."""
        name = self.name_in_repository(os.path.realpath(path))
        try:
            recorded = self.recorded.get(name or "")
            if recorded is None or self.is_as_recorded(path, recorded, on_disk):
                return on_disk
            if self.is_filtered(path, recorded, on_disk):
                return on_disk  # `compare` names it
            return self.blob(name or "", recorded)
        except GitFailed:
            return on_disk  # `compare` says that it differs, or why it cannot tell

    def blob(self, name: str, recorded: str) -> bytes:
        """The content of a frozen file, of its repository or submodule.

        Raises:
            GitFailed: git does not have it.
        """
        unpacked = self.unpacked / name if self.unpacked else None
        if unpacked and unpacked.is_file():
            content = unpacked.read_bytes()
            if git_hash(content, recorded) == recorded:
                return content
        places = [place for place in self.repositories() if (self.top / name).is_relative_to(place)]
        return Git(places[-1]).content("cat-file", "blob", recorded)

    def compare(self, elsewhere: Sequence[Path] = ()) -> list[UnfrozenFile]:
        """The files imported or read since the last call that the frozen code does not hold as they are.

        Args:
            elsewhere: directories of runs, data and caches, where files that are only read do not count.

        Raises:
            GitFailed: git does not have the commit.
        """
        modules = [path for path in modules_of_own_code() if path not in self.compared]
        self.compared |= set(modules)
        differing = [] if self.unpacked else self.compare_library()
        for path in modules:
            differing += self.compare_module(path)
        OWN.add_reports()
        for path in list(OWN.read):
            if path not in self.compared:
                self.compared.add(path)
                differing += self.compare_read(path, elsewhere)
        return differing

    def compare_module(self, path: str) -> list[UnfrozenFile]:
        """Nothing, or how an imported file differs from the frozen code."""
        path = file_around(path)
        name = self.name_in_repository(os.path.realpath(path))
        if name is None:
            return self.describe_outside(path)
        if name not in self.recorded:
            return [self.describe_left_out(path)]
        return self.compare_frozen(path, name, OWN.loaded.get(path))

    def compare_read(self, path: str, elsewhere: Sequence[Path]) -> list[UnfrozenFile]:
        """Nothing, or what the frozen code lacks of a file that was read, and not imported."""
        if not os.path.isfile(path):
            return []
        if path.endswith(CODE):
            return self.compare_module(path)
        if not self.counts(path, elsewhere):
            return []
        name = self.name_in_repository(os.path.realpath(path))
        if name in self.recorded:
            # What was read before the freeze, such as settings, is recorded by itself.
            if path in self.read_before:
                return []
            return self.compare_frozen(path, name)
        reason = skip_reason(self.code, name or "") or "not in the frozen code"
        return [unfrozen(self.shown(path), "read", f"read, and {reason}", path)]

    def compare_frozen(
        self, path: str, name: str, content: bytes | None = None
    ) -> list[UnfrozenFile]:
        """Nothing, or how a file differs from the frozen one of this name.

        Args:
            content: that was loaded from `path`; else what lies there now counts.
        """
        recorded = self.recorded[name]
        if self.is_as_recorded(path, recorded, content):
            self.used[name] = recorded
            return []
        if self.is_filtered(path, recorded, content):
            self.used[name] = recorded
            return [unfrozen(self.shown(path), "filtered", FILTERED, path)]
        return [unfrozen(self.shown(path), "changed", "changed after the code was frozen", path)]

    def counts(self, path: str, elsewhere: Sequence[Path]) -> bool:
        """Whether a file that was read, and is no code, can have changed a number."""
        is_hidden = self.shown(path).partition(os.sep)[0] in NOT_CODE
        is_elsewhere = any(Path(path).is_relative_to(place) for place in elsewhere)
        return not (is_hidden or is_elsewhere or is_readme(path))

    def compare_library(self) -> list[UnfrozenFile]:
        """The library, when it is another one than was frozen; told once."""
        recorded = library_of(self.code)
        if FROZEN_LIBRARY in self.compared or recorded is None:
            return []
        now = read_library()
        if now.commit == recorded["commit"]:
            return []
        self.compared.add(FROZEN_LIBRARY)
        reason = f"it was {library_name(self.code)}"
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

    def is_as_recorded(self, path: str, recorded: str, content: bytes | None = None) -> bool:
        """Whether a file has the recorded content, perhaps with other line ends.

        Args:
            content: that was loaded from `path`; else what lies there now counts.
        """
        try:
            now = Path(path).read_bytes() if content is None else content
        except OSError:
            return False
        unix = now.replace(b"\r\n", b"\n")
        forms = (now, unix, unix.replace(b"\n", b"\r\n"))
        return any(git_hash(form, recorded) == recorded for form in forms)

    def is_filtered(self, path: str, recorded: str, content: bytes | None = None) -> bool:
        """Whether a filter of git, such as Git LFS, makes the recorded content of a file."""
        try:
            now = Path(path).read_bytes() if content is None else content
            hashed = Git(self.top).content("hash-object", "--stdin", f"--path={path}", stdin=now)
            return hashed.decode().strip() == recorded
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


def modules_of_own_code() -> list[str]:
    """Every imported file of own code, also of a module that was deleted or replaced since."""
    return sorted({*own_files(), *OWN.loaded})


def file_around(path: str) -> str:
    """The file that a module is of: of one in an archive the archive."""
    folder = path
    while not os.path.exists(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    return folder if os.path.isfile(folder) else path


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
def files_at_head(repository: Path) -> dict[str, str]:
    """Git's hash of each file of HEAD."""
    return frozen_hashes({"commit": "HEAD"}, repository)


def is_committed(repository: Path, real: str) -> bool:
    """Whether HEAD of a repository has the file at `real` as it is."""
    name = os.path.relpath(real, repository)
    try:
        recorded = files_at_head(repository).get(name, "")
        return recorded == git_hash(Path(real).read_bytes(), recorded)
    except (OSError, GitFailed):
        return False


@dataclass(frozen=True)
class Policy:
    """What to do about files that the freeze left out, each "refuse" or "warn".

    Args:
        code: imported ones: record.code.
        unfrozen: others of the project that are read: record.unfrozen.
    """

    code: str = "refuse"
    unfrozen: str = "warn"


def refuse_unfrozen(files: list[UnfrozenFile], policy: Policy) -> None:
    """Stops a run that would not be what its record says.

    Args:
        files: what `ImportedCode.compare` returned.
    """
    changed = [file for file in files if file["kind"] == "changed"]
    if changed:
        raise Refused(
            f"the code that runs is not the code that was recorded.\n{format_files(changed)}\n"
            "Type the same command again."
        )
    left_out = [file for file in files if file["kind"] == "left out"]
    if left_out and policy.code == "refuse":
        raise Refused(
            f"the recorded code lacks files that this run imports.\n{format_files(left_out)}\n"
            f"To record such a file: {way_to_record(left_out[0]['path'], left_out[0]['reason'])}\n"
            "To run with an incomplete record: record.code=warn"
        )
    read = [file for file in files if file["kind"] == "read"]
    if read and policy.unfrozen == "refuse":
        raise Refused(
            f"the recorded code lacks files that this run reads.\n{format_files(read)}\n"
            f"To record such a file: {way_to_record(read[0]['path'], read[0]['reason'])}\n"
            "To run with its hash in the record: record.unfrozen=warn"
        )


def format_files(files: list[UnfrozenFile]) -> str:
    """A line for each of the first files, with the reason, and how many more there are."""
    lines = [f"  {file['path']}: {file['reason']}" for file in files[:MAX_NAMES]]
    if len(files) > MAX_NAMES:
        lines.append(f"  and {counted(len(files) - MAX_NAMES, 'more file')}")
    return "\n".join(lines)
