"""`lab runs scrub`: takes a leaked value out of a run, and says so in its record."""

from __future__ import annotations

import argparse
import getpass
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ...env import FROZEN_LIBRARY
from ...errors import LabError, Refused
from ...machine.secrets import has_secret_name
from ...machine.terminal import printable
from ...project import Project
from ..files.code_section import checked_out_submodules, folder_name
from ..files.process import user
from ..files.schema import Code, Scrub
from ..freeze.bundle import STORE, link_or_copy
from ..freeze.frozen import repository_top, submodule_top
from ..list.find import RUN_HELP, find_run
from ..list.row_cache import cache_file
from ..list.rows import run_directories
from ..read.attempt_files import read_attempts
from ..read.roots import run_roots
from ..read.run import Run
from ..read.status import UNENDED, status_of
from ..verify.files import check_record, check_settings, file_problems, recorded_files
from ..verify.results import check_metrics
from ..write.claim import is_claimed
from .contents import holds_any
from .prune import Deletion, commits_of, hidden_name, remove_tree
from .scrub_code import (
    CodeFile,
    code_repository,
    files_with,
    is_in_history,
    replace_bundles,
    scrub_commit,
)
from .scrub_files import Replacer, encoded, files_of_record_with, forms_of, rewrite_record

SHORTEST = 6  # characters of a value: a shorter one stands in other texts, too
DESCRIPTION = (
    "Takes a leaked value out of the record of a run and its frozen code; *** stands in its place. "
    "The value is asked for, or read from a line of the standard input, so that no history of the "
    "shell holds it. Without --yes it only says where the value is. The code becomes a commit without "
    "history. The record is sealed again, and says that it was scrubbed. What cannot be rewritten, "
    "and other files of the project that hold the value, are named; the exit code is 1 then."
)
BEFORE = "-before-scrub"  # how the name of the old record ends while the new one takes its place


@dataclass(frozen=True)
class LeakingCode:
    """Code of a run, or of an attempt of it, that holds the value."""

    code: Code
    folder: str  # of its bundles, from the run directory
    files: list[CodeFile]  # empty when only its history holds the value


@dataclass(frozen=True)
class Leaks:
    """Where a value is in a run."""

    files: list[str] = field(default_factory=list)  # texts, and files that are named after it
    codes: list[LeakingCode] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)  # what cannot be rewritten


def scrub_command(project: Project, args: list[str]) -> int:
    """`lab runs scrub`.

    Returns: 1 when something that was not rewritten holds the value.

    Raises:
        LabError: the value is too short, or the run has not ended, or lies behind a link.
        Refused: the record was changed by hand before.
    """
    parser = argparse.ArgumentParser(prog="lab runs scrub", description=DESCRIPTION)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--yes", action="store_true", help="really change the record")
    options = parser.parse_args(args)
    roots = run_roots(project)
    run = find_run(roots, options.run)
    if options.yes:
        run = finish_interrupted(run)
    require_ended_and_whole(run)
    value = ask_value()
    with tempfile.TemporaryDirectory(prefix="lab-scrub-") as temporary:
        leaks = find_leaks(run, project.root, value, Path(temporary))
        print_leaks(run, leaks, options.yes)
        if options.yes and (leaks.files or leaks.codes):
            deletion = Deletion(project, roots, is_real=True)
            deletion.commits |= commits_of(run.dir)
            scrub_run(run, project, value, leaks, Path(temporary))
            deletion.delete_unused_code()
    if options.yes:
        for root in roots:
            cache_file(root).unlink(missing_ok=True)  # of rows; the next list writes it again
    left = print_left(run, project, roots, value, leaks)
    if options.yes:
        print_advice(leaks)
    elif leaks.files or leaks.codes:
        print("to take it out add: --yes")
    return 1 if left else 0


def finish_interrupted(run: Run) -> Run:
    """The run under its own name, when a scrubbing was killed while the new record took its place."""
    final = run.dir.with_name(run.dir.name.removesuffix(BEFORE))
    old = final.with_name(final.name + BEFORE)
    if not old.is_dir() or old.is_symlink():
        return run
    if not final.exists():
        print(f"an earlier scrubbing was interrupted; back under its name: {printable(final)}")
        os.rename(old, final)
    elif Run.open(final).record.get("scrubbed"):
        print(f"deleting what an earlier scrubbing left: {printable(old)}")
        remove_tree(old)
    return Run.open(final)


def require_ended_and_whole(run: Run) -> None:
    """A record that was edited by hand must not look right afterwards.

    Raises:
        LabError: the run has not ended, is in use, or lies behind a link.
        Refused: something in the record is not as it was written.
    """
    if status_of(run.dir) in UNENDED:
        raise LabError(f"{run.id} has not ended. End it first: lab cancel {run.id}")
    if is_claimed(run.dir):
        raise LabError(f"a process resumes or evaluates {run.id}. Wait for it, then type the same")
    if run.dir.is_symlink() or run.dir.parent.is_symlink():
        original = run.dir.resolve()
        raise LabError(
            f"{run.dir} lies behind a link. Scrub the original: lab runs scrub {original}"
        )
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
    texts, fixed = files_of_record_with(run.dir, replacer)
    leaks = Leaks(texts, fixed=[str(run.dir / name) for name in fixed])
    for n, (code, folder) in enumerate(codes_of(run)):
        place = temporary / str(n)
        place.mkdir()
        git = code_repository(code, repository_top(root, code), run.dir / folder, place)
        files = files_with(git, code["commit"], forms)
        if files or is_in_history(git, code["commit"], forms):
            leaks.codes.append(LeakingCode(code, folder, files))
        leaks.fixed.extend(leaking_submodules(code, run.dir / folder, root, forms, place))
    for path in sorted(run.checkpoints.rglob("*")):
        is_named_so = replacer.mask(path.name) != path.name
        if is_named_so or (path.is_file() and holds_any(path, forms)):
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
        if inner["path"] == FROZEN_LIBRARY:
            continue
        place = temporary / folder_name(inner)
        place.mkdir()
        top = submodule_top(repository_top(root, code), inner)
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
    """Writes the run again next to itself, then has the new record take its place.

    The old one keeps a name that lists show until the new one has its own: after a crash at any moment
    one of them is there, and the same command goes on.
    """
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
    note_scrub(Run.open(renewed), [replacer.mask(name) for name in leaks.files], changed_code)
    old = run.dir.with_name(run.dir.name + BEFORE)
    hidden = hidden_name(run.dir, run.id)
    os.rename(run.dir, old)
    os.rename(renewed, run.dir)
    os.rename(old, hidden)
    remove_tree(hidden)


def note_scrub(run: Run, files: list[str], changed_code: dict[str, list[str]]) -> None:
    """Says in run.json that the record was scrubbed, and where."""
    scrub: Scrub = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "who": user(),
        "files": files,
        "code": changed_code,
    }
    run.update(scrubbed=[*run.record.get("scrubbed", []), scrub])


def print_leaks(run: Run, leaks: Leaks, is_done: bool) -> None:
    """Where the value is, a line each."""
    verb = "taking it out of" if is_done else "would take it out of"
    for name in leaks.files:
        print(f"{verb} {printable(name)}")
    for leak in leaks.codes:
        which = f"the code of {leak.folder}" if leak.folder else "the code"
        files = ", ".join(file.path for file in leak.files) or "its history only"
        print(f"{verb} {which}: {printable(files)}")
    if not (leaks.files or leaks.codes or leaks.fixed):
        print(f"the value is nowhere in {run.id}")


def print_left(run: Run, project: Project, roots: list[Path], value: str, leaks: Leaks) -> bool:
    """Where the value is that this command does not change, a line each; whether there is anything."""
    left = [f"{name}, which cannot be changed: delete it" for name in leaks.fixed]
    left += places_elsewhere(run, project, roots, forms_of(value))
    old_commits = {leak.code["commit"] for leak in leaks.codes}
    for directory in run_directories(*roots):
        others = Path(directory).resolve() != run.dir.resolve() and commits_of(Path(directory))
        if others and old_commits & others:
            name = Path(directory).name
            left.append(f"the code of the run {name}: lab runs scrub {name}")
    for place in left:
        print(f"still in {printable(place)}")
    return bool(left)


def print_advice(leaks: Leaks) -> None:
    """What no command can take back."""
    if leaks.codes:
        print("git keeps the old code until: git gc --prune=now; a branch keeps it for ever")
    print("a value that leaked stays leaked: make a new one, and withdraw the old one")


# Where else in a project a leaked value is, and what takes it out there.

REPORT = "report.html"  # below a root; see report/report.py


def places_elsewhere(
    run: Run, project: Project, roots: list[Path], forms: list[str]
) -> Iterator[str]:
    """The other files of the project that hold the value, or are named after it, with what to do.

    Data, weights, environments and what git has stored are not read; files that exist to hold secrets,
    such as .env, do not count.
    """
    contents = encoded(forms)
    runs = {Path(directory).resolve() for directory in run_directories(*roots)}
    runs.discard(run.dir.resolve())
    for directory in sorted(runs):
        if any(is_leaking(path, directory, forms, contents) for path in files_below(directory)):
            yield f"the run {directory.name}: lab runs scrub {directory.name}"
    left_out = {run.dir.resolve(), *runs, *(path.resolve() for path in project.paths.data)}
    top = project.root.resolve()
    others = [root for root in roots if not root.resolve().is_relative_to(top)]
    for place in (project.root, *others):
        for path in files_below(place, left_out):
            if is_leaking(path, place, forms, contents):
                yield f"{path}: {advice_for(path, roots)}"


def is_leaking(path: Path, top: Path, forms: list[str], contents: list[bytes]) -> bool:
    """Whether a file below `top` holds the value, or has it in its path."""
    name = str(path.relative_to(top))
    try:
        return any(form in name for form in forms) or holds_any(path, contents)
    except OSError:  # it cannot be read, or is gone
        return False


def files_below(top: Path, left_out: Collection[Path] = ()) -> Iterator[Path]:
    """The files of a directory; no links, no weights, no environment, nothing of git's."""
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(
            name
            for name in folders
            if name not in (".git", STORE, "checkpoints")
            and Path(folder, name).resolve() not in left_out
            and not Path(folder, name, "pyvenv.cfg").exists()
        )
        for name in sorted(files):
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink() and not has_secret_name(name):
                yield path


def advice_for(path: Path, roots: list[Path]) -> str:
    """What takes the value out of a file."""
    if path.suffix == ".html":
        option = "" if path in [root / REPORT for root in roots] else f" -o {path}"
        return f"write it again: lab report{option}"
    if path.parent.parent.name == "sweeps":
        return "its points need it; delete the directory when the sweep has ended"
    return "take it out, or delete it"
