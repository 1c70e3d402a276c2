"""The program that `check_frozen` starts in the frozen code: one batch, and what it needed."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass

from ... import env
from ...errors import LabError
from ...project import this_project


@dataclass(frozen=True)
class FrozenCheck:
    """What the check of frozen code found.

    Args:
        error: what is wrong; None when the batch was trained.
        n_parameters: of the model; 0 when there was an error before it was built.
        wanted_files: files and modules that the check tried to open, relative to the project.
    """

    error: str | None
    n_parameters: int
    wanted_files: list[str]


def main(overrides: list[str]) -> None:
    """Runs the check; the last line of output is a FrozenCheck as JSON."""
    wanted_paths: set[str] = set()
    sys.addaudithook(collector_of(wanted_paths))
    # imported only now, so that the hook sees which files it imports
    from ...training.check.command import check

    error = None
    n_parameters = 0
    try:
        n_parameters = check(this_project(), overrides).n_parameters or 0
    except LabError as problem:
        error = str(problem)
    except Exception as problem:  # whatever it is: a file that it wanted may be the reason
        error = "".join(traceback.format_exception(problem))
    result = FrozenCheck(error, n_parameters, inside_project(wanted_paths))
    print(json.dumps(asdict(result)))


def collector_of(wanted_paths: set[str]) -> Callable[[str, tuple], None]:
    """An audit hook of Python that adds the path of every opened file and imported module."""

    def collect(event: str, arguments: tuple) -> None:
        if event == "open" and isinstance(arguments[0], str):
            wanted_paths.add(arguments[0])
        elif event == "import":
            module = f"src/{arguments[0].replace('.', '/')}"
            wanted_paths.add(f"{module}.py")
            wanted_paths.add(f"{module}/__init__.py")

    return collect


def inside_project(paths: set[str]) -> list[str]:
    """The paths below the project or its frozen copy, relative to it."""
    project = os.environ[env.PROJECT] + "/"
    frozen = os.getcwd() + "/"
    # a copy: the audit hook may add to the set meanwhile
    names = {path.removeprefix(project).removeprefix(frozen) for path in set(paths)}
    return sorted(name for name in names if not name.startswith(("/", "..")))


if __name__ == "__main__":
    main(sys.argv[1:])
