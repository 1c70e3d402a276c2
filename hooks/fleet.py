"""All projects of a lab: fleet.py list, fleet.py update, fleet.py retarget URL.

projects.txt names them, a path or an address of a repository on each line. Nothing in a project's
own work tree is touched: updates are branches, which the owner of a project reads and merges.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from labrig.cluster.doctor.template import changed_files
from labrig.errors import Failed
from labrig.update.origin import is_address
from packaging.version import InvalidVersion, Version
from release.repository import ReleaseError, Repository, run_git

TEMPLATE = Path(__file__).resolve().parents[1]
SOURCE = TEMPLATE / "src"  # of labrig, whose commands are called from here
ANSWERS = ".copier-answers.yml"
IDENTITY = ("-c", "user.name=template", "-c", "user.email=template@localhost")
RETARGET_BRANCH = "template-retarget"
HOUR_S = 3600


class FleetError(Exception):
    """What keeps one project from being read or updated; the others continue."""


@dataclass(frozen=True)
class Row:
    """What the table says of one project.

    Attributes:
        edited: the template's files with an edit, moved or deleted; None where the template is not
            to be had.
        last_run: its date; None without runs, or where only the repository was looked at.
        gpu_hours: by person.
    """

    project: str
    version: str
    behind: str
    edited: int | None
    last_run: str | None = None
    gpu_hours: dict[str, float] = field(default_factory=dict)

    def cells(self) -> list[str]:
        hours = ", ".join(f"{who} {hours:.1f}" for who, hours in sorted(self.gpu_hours.items()))
        edited = "?" if self.edited is None else str(self.edited)
        return [self.project, self.version, self.behind, edited, self.last_run or "-", hours or "-"]


HEADINGS = ["project", "template", "behind", "edited", "last run", "GPU-hours"]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--projects", type=Path, default=Path("projects.txt"), metavar="FILE")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("list", help="a table: version, how far behind, edits, last run, GPU-hours")
    commands.add_parser("update", help="a branch in each project, with the newest release")
    retarget = commands.add_parser("retarget", help="a branch in each, with another template")
    retarget.add_argument("url", help="the address of the template that they follow from now on")
    arguments = parser.parse_args(argv)
    if not arguments.projects.is_file():
        parser.error(f"{arguments.projects} is missing; write a path or an address on each line")
    lines = arguments.projects.read_text(encoding="utf-8").splitlines()
    projects = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    os.environ["PATH"] = os.pathsep.join([f"{sys.prefix}/bin", os.environ["PATH"]])  # copier
    rows, failed = [], 0
    for project in projects:
        try:
            if arguments.command == "list":
                rows.append(row_of(project))
            elif arguments.command == "update":
                print(f"{project}: {updated(project)}")
            else:
                print(f"{project}: {retargeted(project, arguments.url)}")
        except (FleetError, ReleaseError) as error:
            print(f"{project}: {error}", file=sys.stderr)
            failed += 1
    if rows:
        print_table([HEADINGS, *(row.cells() for row in rows)])
    return 1 if failed else 0


def print_table(rows: list[list[str]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS))]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ".join(cells).rstrip())


def row_of(project: str) -> Row:
    """What the table says of a project."""
    with folder_of(project) as folder:
        version = answer(folder, "_commit")
        row = Row(project, version, behind(version), edited_files(folder))
        if is_address(project):
            return row
        runs = runs_of(folder)
    hours: dict[str, float] = defaultdict(float)
    for run in runs:
        hours[run["who"] or "?"] += float(run.get("gpu_seconds") or 0) / HOUR_S
    last = max((run["created"][:10] for run in runs if run["created"]), default=None)
    return Row(project, version, row.behind, row.edited, last, dict(hours))


def behind(version: str) -> str:
    """How many releases of this template are newer than `version`."""
    tags = Repository(TEMPLATE).tags
    try:
        n = sum(Version(tag) > Version(version) for tag in tags)
    except InvalidVersion:
        return "no release"
    return f"{n} release{'s' if n > 1 else ''}" if n else "-"


def edited_files(folder: Path) -> int | None:
    """How many of the template's files differ from what the template wrote; None where it is not to be had."""
    try:
        return len(changed_files(folder))
    except Failed:
        return None


def runs_of(folder: Path) -> list[dict[str, str]]:
    """The runs of a project, as `lab runs list --csv` tells them."""
    done = call_python("-m", "labrig", "runs", "list", "--csv", folder=folder)
    if done.returncode:
        raise FleetError(f"lab runs list fails: {done.stderr.strip().splitlines()[-1]}")
    return list(csv.DictReader(done.stdout.splitlines()))


def updated(project: str) -> str:
    """Makes the branch template-update, and says so; an address gets it pushed."""
    with folder_of(project) as folder, worktree(folder) as place:
        done = call_python("-m", "labrig", "update-branch", folder=place)
        if done.returncode:
            raise FleetError(done.stderr.strip())
        if not done.stdout.startswith("nothing"):
            publish(project, place, "template-update")
            return f"branch template-update\n{done.stdout.rstrip()}"
    return done.stdout.strip()


def retargeted(project: str, url: str) -> str:
    """Makes the branch template-retarget, in which the project follows the template at `url`."""
    with folder_of(project) as folder, worktree(folder) as place:
        version = answer(place, "_commit")
        tags = run_git(place, "ls-remote", "--tags", address_for_git(url), version)
        if tags.returncode:
            raise FleetError(f"git cannot read {url}: {tags.stderr.strip().splitlines()[-1]}")
        if not tags.stdout:
            raise FleetError(
                f"{url} has no tag {version}, from which this project must be updated.\n"
                f"  Push it there: git push {url} {version}"
            )
        answers = place / ANSWERS
        text = answers.read_text(encoding="utf-8")
        answers.write_text(
            re.sub(r"^_src_path:.*$", f"_src_path: {url}", text, flags=re.MULTILINE),
            encoding="utf-8",
        )
        git(place, "switch", "--quiet", "--force-create", RETARGET_BRANCH)
        git(place, "add", ANSWERS)
        git(place, *IDENTITY, "commit", "--no-verify", "-qm", f"Follow the template at {url}")
        publish(project, place, RETARGET_BRANCH)
    return f"branch {RETARGET_BRANCH}; merge it, then update"


def call_python(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A program with the labrig of this repository."""
    variables = os.environ | {"PYTHONPATH": str(SOURCE)}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)


def publish(project: str, place: Path, branch: str) -> None:
    if is_address(project):
        git(place, "push", "--quiet", "--force", "origin", branch)


@contextmanager
def folder_of(project: str) -> Iterator[Path]:
    """The directory of a project; a clone of it for an address."""
    if not is_address(project):
        folder = Path(project).expanduser().resolve()
        if not (folder / ANSWERS).is_file():
            raise FleetError(f"no project of a template here: {ANSWERS} is missing")
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="fleet-") as place:
        git(Path(place), "clone", "--quiet", project, "project")
        yield Path(place, "project")


@contextmanager
def worktree(folder: Path) -> Iterator[Path]:
    """A second work tree of a project at its last commit, so that nobody's edits are in the way."""
    inside = git(folder, "rev-parse", "--show-prefix")
    with tempfile.TemporaryDirectory(prefix="fleet-") as place:
        tree = Path(place, "tree")
        git(folder, "worktree", "add", "--quiet", "--detach", str(tree))
        try:
            yield tree / inside
        finally:
            git(folder, "worktree", "remove", "--force", str(tree))


def address_for_git(url: str) -> str:
    """An address in copier's form, as git takes it."""
    for short, host in (("gh:", "https://github.com/"), ("gl:", "https://gitlab.com/")):
        if url.startswith(short):
            return f"{host}{url.removeprefix(short)}"
    return url.removeprefix("git+")


def answer(folder: Path, name: str) -> str:
    """A line of the answers file."""
    text = (folder / ANSWERS).read_text(encoding="utf-8")
    match = re.search(rf"^{name}: *(.+)$", text, re.MULTILINE)
    if match is None:
        raise FleetError(f"{ANSWERS} has no {name}, so it cannot be updated")
    return match[1].strip("'\"")


def git(folder: Path, *words: str) -> str:
    done = run_git(folder, *words)
    if done.returncode:
        reason = done.stderr.strip().splitlines() or ["no reason"]
        raise FleetError(f"git {words[0]} fails: {reason[-1]}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
