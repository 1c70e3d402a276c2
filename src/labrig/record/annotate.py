"""`lab runs note` and `lab runs tag`."""

import os
import re
import time
from contextlib import suppress

from ..errors import LabError
from ..machine.known_secrets import hide_secrets, known_secrets
from ..machine.secrets import find_tokens, refuse_tokens
from ..project import Project
from .find import find_run, run_parser
from .process import user
from .roots import run_roots
from .run import Run
from .seal import append_sealed

TAG = re.compile(r"[A-Za-z][\w.-]*")


def note_command(project: Project, args: list[str]) -> None:
    parser = run_parser("note", "Adds a note to a run.")
    parser.add_argument("text", nargs="+")
    options = parser.parse_args(args)
    text = hide_secrets(" ".join(options.text))
    places = find_tokens(text.encode(errors="replace"), "the note", known_secrets())
    refuse_tokens(places, "Write the note without it.")
    annotate(find_run(run_roots(project), options.run), note=text)


def tag_command(project: Project, args: list[str]) -> None:
    """`lab runs tag`.

    Raises:
        LabError: a tag has a character that tags cannot have.
    """
    parser = run_parser("tag", "Tags a run; `lab runs prune` never deletes a tagged run.")
    parser.add_argument("tags", nargs="+", metavar="TAG")
    parser.add_argument("--remove", action="store_true", help="remove the tags")
    options = parser.parse_args(args)
    run = find_run(run_roots(project), options.run)
    for tag in options.tags:
        if not TAG.fullmatch(tag):
            raise LabError(
                f"got the tag {tag!r}; a tag begins with a letter and has letters, digits, "
                "'.', '_' and '-'"
            )
        if options.remove:
            annotate(run, untag=tag)
        else:
            annotate(run, tag=tag)


def annotate(run: Run, **entry: str) -> None:
    """Adds a line to notes.jsonl: `note`, `tag` or `untag`, with the time and the user."""
    line = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "who": user(), **entry}
    append_sealed(run.dir / "notes.jsonl", line)
    # The cache of rows sees the new note by the new time of summary.json.
    with suppress(FileNotFoundError):
        os.utime(run.dir / "summary.json")
