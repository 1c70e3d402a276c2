"""Commands over many files (`lab submit --each`): which files a run has, and which of them are done.

inputs.json of such a run holds the command and its files, each.jsonl a row for each file that a
command came to an end with. A file is the same as long as its path, size and time of change are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..files.atomic import read_advisory
from ..files.json_lines import read_lines
from .rows import run_directories
from .status import UNENDED, JobStateOf, status_of

INPUTS = "inputs.json"
DONE = "each.jsonl"
PLACE = "{}"  # where the path of a file goes in a command


@dataclass(frozen=True)
class InputFile:
    """A file that a command is called with."""

    path: str  # absolute
    size_bytes: int
    mtime_ns: int

    @classmethod
    def of(cls, path: str) -> InputFile:
        """The file as it is now.

        Raises:
            OSError: there is none.
        """
        status = Path(path).stat()
        return cls(path, status.st_size, status.st_mtime_ns)

    @classmethod
    def recorded(cls, row: Mapping[str, Any]) -> InputFile:
        """The file of a row of inputs.json or each.jsonl."""
        return cls(row["path"], row["size_bytes"], row["mtime_ns"])


@dataclass(frozen=True)
class Inputs:
    """What one run of an array over files has to do."""

    command: list[str]  # PLACE stands for the path of a file
    files: list[InputFile]

    def text(self) -> str:
        """inputs.json. Names that are not UTF-8 become \\udcff, which is valid JSON."""
        files = [vars(file) for file in self.files]
        return json.dumps({"command": self.command, "files": files}, indent=1) + "\n"

    @classmethod
    def read(cls, run_dir: Path) -> Inputs | None:
        """The inputs of a run; None when it is no run over files."""
        content = read_advisory(run_dir / INPUTS, Inputs)
        if content is None:
            return None
        return cls(content["command"], [InputFile.recorded(row) for row in content["files"]])


def done_files(run_dir: Path) -> set[InputFile]:
    """The files that a run's command ended with 0 for."""
    rows = read_lines(run_dir / DONE, InputFile)
    return {InputFile.recorded(row) for row in rows if row.get("exit_code") == 0}


@dataclass(frozen=True)
class EachProgress:
    """What all runs of one command have done, and what they will do."""

    done: set[InputFile]
    pending: set[InputFile]  # of runs that are queued or running


def progress_of(
    roots: Sequence[Path], command: list[str], job_state_of: JobStateOf
) -> EachProgress:
    """What the runs of a command over files have done."""
    progress = EachProgress(set(), set())
    for directory in runs_over_files(roots):
        inputs = Inputs.read(directory)
        if inputs is None or inputs.command != command:
            continue
        progress.done.update(done_files(directory))
        if status_of(directory, job_state_of) in UNENDED:
            progress.pending.update(inputs.files)
    return progress


def runs_over_files(roots: Sequence[Path]) -> Iterator[Path]:
    """The directories of runs that have an inputs.json."""
    for directory in map(Path, run_directories(*roots)):
        if (directory / INPUTS).exists():
            yield directory
