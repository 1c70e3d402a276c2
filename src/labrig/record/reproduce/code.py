"""`lab runs code`."""

from __future__ import annotations

import sys
from pathlib import Path

from ...errors import LabError
from ...project import Project
from ..freeze.frozen import unpack_code
from ..read.attempt_files import other_codes, read_attempts
from ..read.find import find_run, run_parser
from ..read.run import FrozenCode, Run, code_of, run_roots


def code_command(project: Project, args: list[str]) -> None:
    """`lab runs code`."""
    parser = run_parser("code", "Writes the frozen code of a run.")
    parser.add_argument("directory", nargs="?", type=Path, help="a new directory (code-<run>)")
    parser.add_argument(
        "--attempt", type=int, metavar="N", help="the code of attempt N, when it ran other code"
    )
    options = parser.parse_args(args)
    run = find_run(run_roots(project), options.run)
    name = f"code-{run.id}"
    if options.attempt:
        name += f"-attempt-{options.attempt}"
    directory = (options.directory or Path(name)).absolute()
    if directory.exists():
        raise LabError(f"{directory} exists already; name a new directory")
    frozen = attempt_code(run, options.attempt) if options.attempt else run_code(run)
    unpack_code(frozen.code, project.root, frozen.bundles, directory)
    print(directory)


def run_code(run: Run) -> FrozenCode:
    """The code that a run began with; prints the attempts that ran other code."""
    for n in other_codes(run.record["code"], read_attempts(run.dir)):
        print(f"lab: attempt {n} ran other code: add --attempt {n}", file=sys.stderr)
    return FrozenCode(run.record["code"], run.dir)


def attempt_code(run: Run, n: int) -> FrozenCode:
    """The code that attempt `n` of a run ran."""
    attempts = {attempt.n: attempt for attempt in read_attempts(run.dir)}
    if n not in attempts:
        numbers = ", ".join(map(str, attempts)) or "none"
        raise LabError(f"{run.id} has no attempt {n}. Attempts: {numbers}")
    return code_of(run, attempts[n])
