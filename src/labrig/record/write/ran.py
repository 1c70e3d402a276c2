"""What a process ran, for the record of its attempt; its workers load the project's modules as they were frozen.

Worker processes that are started anew load the frozen code; forked ones have it already.
They import this module first, and so does the server that starts the workers of the loader.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ... import env
from ...errors import LabError
from ...project import Project, this_project
from ..files.schema import Code, StartRecord, UnfrozenFile
from ..freeze.frozen import frozen_code, frozen_directory
from ..freeze.imported import ImportedCode, Policy, format_files, refuse_unfrozen, unfrozen
from ..freeze.loading import OWN
from ..freeze.packages import edited_modules
from ..read.attempt_files import read_attempt
from ..read.run import Run

DEFAULT_POLICY = Policy()


class RanCode:
    """The own code that a process imported while it worked on a run.

    Args:
        imported: that code next to the frozen one; None when the code was not recorded.
        policy: what to do about files that the freeze left out.
        elsewhere: directories of runs, data and caches, where files that are only read do not count.
    """

    def __init__(
        self,
        imported: ImportedCode | None = None,
        policy: Policy = DEFAULT_POLICY,
        elsewhere: Sequence[Path] = (),
    ) -> None:
        self.imported = imported
        self.policy = policy
        self.elsewhere = elsewhere
        if imported:
            OWN.elsewhere = tuple(os.path.join(place.absolute(), "") for place in elsewhere)
        self.not_frozen: list[UnfrozenFile] = []

    def check(self) -> dict[str, Any]:
        """Compares what was imported since the last call; the keys for `code` of start.json.

        Raises:
            Refused: see `refuse_unfrozen`.
        """
        new_files = self.compare()
        refuse_unfrozen(new_files, self.policy)
        print_unfrozen(new_files)
        return self.facts()

    def check_late(self) -> dict[str, Any]:
        """As `check`, at the end of a training, when it is too late to refuse."""
        try:
            print_unfrozen(self.compare() + self.compare_packages())
        except (LabError, OSError) as error:
            return {"complete": False, "reason": f"not compared with what ran: {error}"}
        return self.facts()

    def compare(self) -> list[UnfrozenFile]:
        new_files = self.imported.compare(self.elsewhere) if self.imported else []
        self.not_frozen += new_files
        return new_files

    def compare_packages(self) -> list[UnfrozenFile]:
        """The imported files of installed packages that somebody has edited."""
        reason = "installed, and edited since"
        edited = [unfrozen(path, "outside", reason, path) for path in edited_modules()]
        new_files = edited if self.imported else []
        self.not_frozen += new_files
        return new_files

    def facts(self) -> dict[str, Any]:
        is_complete = self.imported is not None and not self.not_frozen
        used = dict(sorted(self.imported.used.items())) if self.imported else {}
        return {"complete": is_complete, "not_frozen": self.not_frozen, "used": used}


def print_unfrozen(files: list[UnfrozenFile]) -> None:
    """Says which files that run are not in the record."""
    if files:
        lines = format_files(files)
        print(f"lab: the record lacks code that runs here:\n{lines}", file=sys.stderr)


def imported_code(project: Project, code: Code) -> ImportedCode | None:
    """What this process imports, from now on as it was frozen; None when `code` was not recorded."""
    if not code.get("commit"):
        return None
    imported = ImportedCode(project, code)
    imported.load_from_now_on()
    tell_new_processes()
    return imported


def code_of_attempt(run: Run, start: StartRecord) -> Code:
    """The frozen code of an attempt, whose start.json names only its commit if it is the run's."""
    code = start.get("code") or {}
    return run.record["code"] if code.get("same") else code


def code_of_process(run: Run, start: StartRecord) -> Code:
    """The frozen code that this process runs, as a member of an attempt that another one began."""
    return frozen_code() if frozen_directory() else code_of_attempt(run, start)


def places_in(paths: Mapping[str, Any]) -> list[Path]:
    """The directories that the section `paths` of a configuration names."""
    entries: list[str] = []
    for value in paths.values():
        entries += [value] if isinstance(value, str) else value or []
    return [Path(entry) for entry in entries]


WORKERS = "labrig.record.write.ran"  # loads the frozen code when it is imported


class ImportsWorkers:
    """Where it is unpickled, WORKERS is imported."""

    def __reduce__(self) -> Any:
        return import_module, (WORKERS,)


def tell_new_processes() -> None:
    """Has each process that multiprocessing starts anew (spawn, forkserver) import WORKERS first.

    The preparation of a process is the first thing that it unpickles, before anything of the project.
    It passes over keys that it does not know.
    """
    from multiprocessing import spawn  # only a training starts processes

    prepare = spawn.get_preparation_data
    if prepare.__module__ == __name__:
        return

    def prepare_with_workers(name: str) -> dict[str, Any]:
        return {"labrig": ImportsWorkers(), **prepare(name)}

    spawn.get_preparation_data = prepare_with_workers


def load_frozen_code() -> None:
    """Loads modules from now on as the attempt that this process belongs to has frozen them."""
    run = Run.open(Path(os.environ[env.RUN_DIR]))
    OWN.report_to(run.dir / "attempts" / os.environ[env.ATTEMPT])
    start = read_attempt(run.dir, int(os.environ[env.ATTEMPT])).start
    imported_code(this_project(), code_of_process(run, start))


if env.RUN_DIR in os.environ and env.ATTEMPT in os.environ:
    load_frozen_code()
