"""What a process ran, for the record of its attempt: the code and the variables that it read."""

from __future__ import annotations

import os
import sys
from typing import Any

from ..errors import LabError
from ..machine.known_secrets import known_secrets, says_secret
from ..project import Project
from .frozen import frozen_code, frozen_directory
from .imported import ImportedCode, format_files, refuse_unfrozen
from .read_variables import VariablesRead
from .run import Run
from .schema import Code, StartRecord, UnfrozenFile

# Variables that every program reads and that change no number.
USUAL = {"HOME", "USER", "LOGNAME", "HOSTNAME", "PATH", "PWD", "SHELL", "TERM", "TMPDIR"}


class RanCode:
    """The own code that a process imported while it worked on a run.

    Args:
        imported: that code next to the frozen one; None when the code was not recorded.
        policy: what to do about files that the freeze left out: record.code.
    """

    def __init__(self, imported: ImportedCode | None = None, policy: str = "refuse") -> None:
        self.imported = imported
        self.policy = policy
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
            print_unfrozen(self.compare())
        except (LabError, OSError) as error:
            return {"complete": False, "reason": f"not compared with what ran: {error}"}
        return self.facts()

    def compare(self) -> list[UnfrozenFile]:
        new_files = self.imported.compare() if self.imported else []
        self.not_frozen += new_files
        return new_files

    def facts(self) -> dict[str, Any]:
        is_complete = self.imported is not None and not self.not_frozen
        return {"complete": is_complete, "not_frozen": self.not_frozen}


def print_unfrozen(files: list[UnfrozenFile]) -> None:
    """Says which files that run are not in the record."""
    if files:
        lines = format_files(files)
        print(f"lab: the record lacks code that runs here:\n{lines}", file=sys.stderr)


def imported_code(project: Project, code: Code) -> ImportedCode | None:
    """What this process imports, next to `code`; None when that was not recorded."""
    return ImportedCode(project, code) if code.get("commit") else None


def code_of_attempt(run: Run, start: StartRecord) -> Code:
    """The frozen code of an attempt, whose start.json names only its commit if it is the run's."""
    code = start.get("code") or {}
    return run.record["code"] if code.get("same") else code


def code_of_process(run: Run, start: StartRecord) -> Code:
    """The frozen code that this process runs, as a member of an attempt that another one began."""
    return frozen_code() if frozen_directory() else code_of_attempt(run, start)


def unrecorded_names(read: VariablesRead, variables: dict[str, str]) -> list[str]:
    """The variables that own code has read and whose values `variables` lacks."""
    return sorted(read.names - variables.keys())


def print_unrecorded(names: list[str]) -> None:
    """One line about variables that can change a number and are not recorded.

    Args:
        names: from `unrecorded_names`.
    """
    secrets = known_secrets()
    values = {name: os.environ[name] for name in names if name in os.environ}
    shown = [
        name
        for name, value in values.items()
        if name not in USUAL and not says_secret(name) and value not in secrets
    ]
    if shown:
        print(
            f"lab: the code read {', '.join(shown)}, which the record does not hold. "
            f"To record it: record.env_vars=[{','.join(shown)}]",
            file=sys.stderr,
        )
