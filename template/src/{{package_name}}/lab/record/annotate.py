# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs note` and `lab runs tag`."""

import os
import re
import time
from contextlib import suppress

from ..errors import LabError
from ..project import Project
from .find import find_run, run_parser
from .json_lines import JsonLines
from .process import user
from .run import Run


def note_command(project: Project, args: list[str]) -> None:
    parser = run_parser("note", "Adds a note to a run.")
    parser.add_argument("text", nargs="+")
    options = parser.parse_args(args)
    annotate(find_run(project.paths["runs"], options.run), note=" ".join(options.text))


def tag_command(project: Project, args: list[str]) -> None:
    parser = run_parser("tag", "Tags a run; prune never deletes a tagged one.")
    parser.add_argument("tags", nargs="+", metavar="TAG")
    parser.add_argument("--remove", action="store_true", help="take the tags away")
    options = parser.parse_args(args)
    run = find_run(project.paths["runs"], options.run)
    for tag in options.tags:
        if not re.fullmatch(r"[A-Za-z][\w.-]*", tag):
            raise LabError(
                f"a tag begins with a letter and has letters, digits, '.', '_' and '-'; got {tag!r}"
            )
        annotate(run, **{"untag" if options.remove else "tag": tag})


def annotate(run: Run, **entry: str) -> None:
    """Adds a line to the run's notes."""
    lines = JsonLines(run.dir / "notes.jsonl")
    lines.add({"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "who": user(), **entry})
    lines.close()
    with suppress(FileNotFoundError):
        os.utime(run.dir / "summary.json")  # the cache of rows sees by it that there is a new note
