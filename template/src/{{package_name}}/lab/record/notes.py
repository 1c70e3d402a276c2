# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs note` and `lab runs tag`: what people say about a run, a line each in its notes.jsonl."""

import argparse
import json
import os
import re
import time
from contextlib import suppress

from ..errors import LabError
from ..project import Project
from .environment import user
from .find import find
from .run import Run


def note_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="lab runs note", description="Adds a note to a run.")
    parser.add_argument("run", help="an id or its beginning, a tag, @last, @best:val/loss")
    parser.add_argument("text", nargs="+")
    options = parser.parse_args(args)
    append(find(project.paths["runs"], options.run), note=" ".join(options.text))


def tag_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="lab runs tag", description="Tags a run; prune never deletes a tagged one.")
    parser.add_argument("run", help="an id or its beginning, a tag, @last, @best:val/loss")
    parser.add_argument("tags", nargs="+", metavar="TAG")
    parser.add_argument("--remove", action="store_true", help="take the tags away")
    options = parser.parse_args(args)
    run = find(project.paths["runs"], options.run)
    for tag in options.tags:
        if not re.fullmatch(r"[A-Za-z][\w.-]*", tag):
            raise LabError(f"a tag begins with a letter and has letters, digits, '.', '_' and '-'; got {tag!r}")
        append(run, **{"untag" if options.remove else "tag": tag})


def append(run: Run, **entry: str) -> None:
    """Adds one line in one write, so that people who write at once lose nothing."""
    line = json.dumps({"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "who": user(), **entry}) + "\n"
    file = os.open(run.dir / "notes.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.write(file, line.encode())
    os.close(file)
    with suppress(FileNotFoundError):
        os.utime(run.dir / "summary.json")  # the cache of rows sees by it that there is a new note
