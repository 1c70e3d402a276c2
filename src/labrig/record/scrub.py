"""`lab runs scrub`: takes a leaked value out of a run, and says so in its record."""

from __future__ import annotations

import argparse
import getpass
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from ..env import MACHINERY
from ..errors import LabError, Refused
from ..machine.counted import counted
from ..machine.terminal import printable
from ..project import Project
from .attempt_files import read_attempts
from .bundle import link_or_copy
from .code_section import checked_out_submodules, folder_name
from .find import RUN_HELP, find_run
from .frozen import repository_top
from .index import run_directories
from .process import user
from .prune import commits_of, delete_unused_code
from .roots import run_roots
from .run import Run
from .schema import Code, Scrub
from .scrub_code import (
    CodeFile,
    code_repository,
    files_with,
    is_in_history,
    replace_bundles,
    scrub_commit,
)
from .scrub_files import Replacer, encoded, files_of_record_with, rewrite_record
from .status import UNENDED, status_of
from .verify_files import check_record, check_settings, file_problems, recorded_files
from .verify_results import check_metrics

SHORTEST = 6  # characters of a value: a shorter one stands in other texts, too
DESCRIPTION = (
    "Takes a leaked value out of the record of a run and its frozen code; *** stands in its place. "
    "The value is asked for, or read from a line of the standard input, so that no history of the "
    "shell holds it. Without --yes it only says where the value is. The code becomes a commit without "
    "history. The record is sealed again, and says that it was scrubbed."
)


@dataclass(frozen=True)
class LeakingCode:
    """Code of a run, or of an attempt of it, that holds the value."""

    code: Code
    folder: str  # of its bundles, from the run directory
    files: list[CodeFile]  # empty when only its history holds the value


@dataclass(frozen=True)
class Leaks:
    """Where a value is in a run."""

    files: list[str] = field(default_factory=list)
    codes: list[LeakingCode] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)  # what cannot be rewritten: weights, submodules


def scrub_command(project: Project, args: list[str]) -> int:
    """`lab runs scrub`.

    Returns: 1 when something that cannot be rewritten holds the value.

    Raises:
        LabError: the value is too short, or the run has not ended.
        Refused: the record was changed by hand before.
    """
    parser = argparse.ArgumentParser(prog="lab runs scrub", description=DESCRIPTION)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--yes", action="store_true", help="really change the record")
    options = parser.parse_args(args)
    roots = run_roots(project)
    run = find_run(roots, options.run)
    require_ended_and_whole(run)
    value = ask_value()
    with tempfile.TemporaryDirectory(prefix="lab-scrub-") as temporary:
        leaks = find_leaks(run, project.root, value, Path(temporary))
        print_leaks(run, leaks, options.yes)
        if options.yes and (leaks.files or leaks.codes):
            old_commits = commits_of(run.dir)
            scrub_run(run, project, value, leaks, Path(temporary))
            delete_unused_code(old_commits, project, roots)
    if options.yes:
        print_advice(roots, leaks)
    elif leaks.files or leaks.codes:
        print("to take it out add: --yes")
    return 1 if leaks.fixed else 0


def require_ended_and_whole(run: Run) -> None:
    """A record that was edited by hand must not look right afterwards.

    Raises:
        LabError: the run has not ended.
        Refused: something in the record is not as it was written.
    """
    if status_of(run.dir) in UNENDED:
        raise LabError(f"{run.id} has not ended. End it first: lab cancel {run.id}")
    parts = (check_settings(run), check_record(run), check_metrics(run))
    problems = [problem for part in parts for problem in part.problems]
    problems += file_problems(recorded_files(run, ".bundle"))
    if problems:
        raise Refused(
            f"{run.id} is not as it was recorded, and scrubbing would hide that:\n"
            + "\n".join(f"  {problem}" for problem in problems[:5])
            + f"\nSee first: lab runs verify {run.id}"
        )


def ask_value() -> str:
    """The leaked value: without echo on a terminal, else a line of the standard input.

    Raises:
        LabError: it is too short.
    """
    if sys.stdin.isatty():
        value = getpass.getpass("the leaked value (it is not shown): ")
    else:
        value = sys.stdin.readline().removesuffix("\n")
    if len(value) < SHORTEST:
        raise LabError(
            f"the value has {len(value)} characters, expected at least {SHORTEST}. "
            "Type it when asked, or: lab runs scrub RUN < FILE"
        )
    return value


def find_leaks(run: Run, root: Path, value: str, temporary: Path) -> Leaks:
    """Where the value is. `root` is the project's."""
    replacer = Replacer(value)
    forms = encoded(replacer.forms)
    leaks = Leaks(files_of_record_with(run.dir, replacer))
    for n, (code, folder) in enumerate(codes_of(run)):
        place = temporary / str(n)
        place.mkdir()
        git = code_repository(code, repository_top(root, code), run.dir / folder, place)
        files = files_with(git, code["commit"], forms)
        if files or is_in_history(git, code["commit"], forms):
            leaks.codes.append(LeakingCode(code, folder, files))
        leaks.fixed.extend(leaking_submodules(code, run.dir / folder, root, forms, place))
    for path in sorted(run.checkpoints.rglob("*")):
        if path.is_file() and replacer.is_in(path.read_bytes()):
            leaks.fixed.append(str(path))
    return leaks


def leaking_submodules(
    code: Code, bundles: Path, root: Path, forms: list[bytes], temporary: Path
) -> list[str]:
    """The submodules that hold the value. Their code is another repository's.

    The library is none of them: it holds nothing of the user's.
    """
    names = []
    for inner in checked_out_submodules(code):
        if inner["path"] == MACHINERY:
            continue
        place = temporary / folder_name(inner)
        place.mkdir()
        top = repository_top(root, code) / inner["path"]
        git = code_repository(inner, top, bundles, place, f"code.{folder_name(inner)}")
        if is_in_history(git, inner["commit"], forms):
            names.append(f"the code of the submodule {inner['path']}")
    return names


def codes_of(run: Run) -> list[tuple[Code, str]]:
    """The code of the run and of attempts that ran other code, each with its bundles' folder."""
    codes = [(run.record["code"], "")]
    for attempt in read_attempts(run.dir):
        code = attempt.start.get("code") or {"same": True}
        if not code.get("same"):
            codes.append((code, f"attempts/{attempt.n}"))
    return [(code, folder) for code, folder in codes if code.get("commit")]


def scrub_run(run: Run, project: Project, value: str, leaks: Leaks, temporary: Path) -> None:
    """Writes the run again next to itself, then takes its place: a crash leaves the old one."""
    renewed = run.dir.with_name(f".scrub-{run.dir.name}")
    shutil.rmtree(renewed, ignore_errors=True)
    shutil.copytree(run.dir, renewed, symlinks=True, copy_function=link_or_copy)
    replacer = Replacer(value)
    forms = encoded(replacer.forms)
    changed_code: dict[str, list[str]] = {}
    for n, leak in enumerate(leaks.codes):
        place = temporary / f"code-{n}"
        place.mkdir()
        git = code_repository(
            leak.code, repository_top(project.root, leak.code), run.dir / leak.folder, place
        )
        code = scrub_commit(git, leak.code, run.trial, leak.files, forms)
        replace_bundles(git, code, run.runs, renewed / leak.folder)
        replacer.add_code(leak.code, code)
        changed_code[code["commit"]] = [file.path for file in leak.files]
    rewrite_record(renewed, replacer)
    note_scrub(Run.open(renewed), leaks, changed_code)
    hidden = run.dir.with_name(f".deleted-{run.dir.name}")
    os.rename(run.dir, hidden)
    os.rename(renewed, run.dir)
    shutil.rmtree(hidden)


def note_scrub(run: Run, leaks: Leaks, changed_code: dict[str, list[str]]) -> None:
    """Says in run.json that the record was scrubbed, and where."""
    scrub: Scrub = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "who": user(),
        "files": leaks.files,
        "code": changed_code,
    }
    run.update(scrubbed=[*run.record.get("scrubbed", []), scrub])


def print_leaks(run: Run, leaks: Leaks, is_done: bool) -> None:
    """Where the value is, a line each."""
    verb = "taking it out of" if is_done else "would take it out of"
    for name in leaks.files:
        print(f"{verb} {name}")
    for leak in leaks.codes:
        which = f"the code of {leak.folder}" if leak.folder else "the code"
        files = ", ".join(file.path for file in leak.files) or "its history only"
        print(f"{verb} {which}: {printable(files)}")
    for name in leaks.fixed:
        print(f"still in {printable(name)}, which cannot be changed: delete it")
    if not (leaks.files or leaks.codes or leaks.fixed):
        print(f"the value is nowhere in {run.id}")


def print_advice(roots: list[Path], leaks: Leaks) -> None:
    """Where else the value may be."""
    old_commits = {leak.code["commit"] for leak in leaks.codes}
    others = [
        Path(directory).name
        for directory in run_directories(*roots)
        if old_commits & commits_of(Path(directory))
    ]
    if others:
        print(f"the same code is in {counted(len(others), 'other run')}: {' '.join(others[:5])}")
    if leaks.codes:
        print("git keeps the old code until: git gc --prune=now; a branch keeps it for ever")
    print("a value that leaked stays leaked: make a new one, and withdraw the old one")
