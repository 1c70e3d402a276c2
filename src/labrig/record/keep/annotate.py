"""`lab runs note` and `lab runs tag`.

A tag that one run has, such as best-paper, names a version: it moves to another run when that is tagged. The
project keeps a file of lines for each, which git can keep: when it was set, to which run, by whom. The last counts.
"""

import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...errors import LabError
from ...machine.secrets import hide_secrets, refuse_tokens_in
from ...project import Project
from ..files.json_lines import read_lines
from ..files.manifest import append_listed
from ..files.process import user
from ..files.schema import Note
from ..read.find import VERSIONS, find_run, run_of_version, run_parser
from ..read.row_cache import outdate_row
from ..read.rows import read_rows, read_tags
from ..read.run import Run, run_roots

MAX_LENGTH = 100  # characters of a tag
NOBODY = "-"  # in place of a run: no longer the tag of one run
TAG = re.compile(rf"[A-Za-z][\w.-]{{0,{MAX_LENGTH - 1}}}")


def note_command(project: Project, args: list[str]) -> None:
    parser = run_parser("note", "Adds a note to a run.")
    parser.add_argument("text", nargs="+")
    options = parser.parse_args(args)
    text = hide_secrets(" ".join(options.text))
    refuse_tokens_in({"the note": text}, "Write the note without it.")
    annotate(find_run(run_roots(project), options.run), note=text)


def tag_command(project: Project, args: list[str]) -> None:
    """`lab runs tag`."""
    parser = run_parser(
        "tag",
        "Names a version: the tag moves here from the run that has it. "
        "`lab runs prune` never deletes a tagged run.",
    )
    parser.add_argument("tags", nargs="+", metavar="TAG")
    parser.add_argument(
        "--also", action="store_true", help="the tag stays with the runs that have it, too"
    )
    parser.add_argument("--remove", action="store_true", help="remove the tags")
    options = parser.parse_args(args)
    roots = run_roots(project)
    run = find_run(roots, options.run)
    for tag in options.tags:
        if not TAG.fullmatch(tag):
            raise LabError(
                f"got the tag {tag!r}; a tag begins with a letter and has letters, digits, "
                f"'.', '_' and '-', {MAX_LENGTH} at most"
            )
    if not options.remove:
        refuse_tokens_in({"the tag": "\n".join(options.tags)}, "Choose another tag.")
    for tag in options.tags:
        others = [Run.open(Path(row["run_dir"])) for row in read_rows(roots) if tag in row["tags"]]
        others = [other for other in others if other.id != run.id]
        if options.remove:
            annotate(run, untag=tag)
            if run_of_version(roots, tag, [run.id]):
                note_version(project.root, tag, NOBODY)
        elif options.also:
            annotate(run, tag=tag)
            note_version(project.root, tag, NOBODY if others else run.id)
        elif len(others) > 1:
            raise LabError(
                f"{tag!r} is the tag of {len(others)} other runs. To give it to this one too: "
                f"lab runs tag {run.id} {tag} --also"
            )
        else:
            annotate(run, tag=tag)
            note_version(project.root, tag, run.id)
            for other in others:
                annotate(other, untag=tag)
                print(
                    f"{tag} moved from {other.id} to {run.id} (history: {VERSIONS}/{tag}.txt). "
                    f"For both: lab runs tag {other.id} {tag} --also"
                )
    tags = read_tags(run.dir)
    print(f"{run.id} has the tags: {', '.join(tags)}" if tags else f"{run.id} has no tag")


def note_version(project_root: Path, name: str, run_id: str) -> None:
    """Adds a line to the history of a named version: it means `run_id` from now on."""
    file = project_root / VERSIONS / f"{name}.txt"
    file.parent.mkdir(exist_ok=True)
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {run_id} {user()}\n"
    # One write of one line: two processes that do this at once lose nothing.
    with open(file, "ab", buffering=0) as stream:
        stream.write(line.encode())
        os.fsync(stream.fileno())


def note_named(directories: Iterable[str], file: Path) -> None:
    """Notes in runs that a table, an archive or a report names them, so that they are not pruned.

    A run of another person, which cannot be written, is left as it is.
    """
    for directory in map(Path, directories):
        with suppress(OSError):
            if file.name not in names_of_files(directory):
                append_listed(directory, "notes.jsonl", line_of_note(named=file.name))
                outdate_row(directory)


def names_of_files(directory: Path) -> list[str]:
    """The tables, archives and reports that have named a run."""
    entries = read_lines(directory / "notes.jsonl", Note)
    return [str(entry["named"]) for entry in entries if "named" in entry]


def named_in(directory: Path) -> str | None:
    """The last of them; None without one."""
    return next(reversed(names_of_files(directory)), None)


def annotate(run: Run, **entry: str) -> None:
    """Adds a line to notes.jsonl: `note`, `tag` or `untag`, with the time and the user."""
    append_listed(run.dir, "notes.jsonl", line_of_note(**entry))
    outdate_row(run.dir)


def line_of_note(**entry: str) -> dict[str, Any]:
    """An entry with the time and the user."""
    return {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "who": user(), **entry}
