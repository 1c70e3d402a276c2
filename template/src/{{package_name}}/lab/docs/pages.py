# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""`lab docs`: lists the pages in docs/lab, or shows one."""

from __future__ import annotations

import argparse
import pydoc
from pathlib import Path

from ..errors import LabError, nearest
from ..project import Project

FOLDER = "docs/lab"


def docs_command(project: Project, args: list[str]) -> None:
    """`lab docs`.

    Raises:
        LabError: there is no such page.
    """
    parser = argparse.ArgumentParser(
        prog="lab docs", description="Shows a page of the documentation; without PAGE, lists them."
    )
    parser.add_argument("page", nargs="?", metavar="PAGE")
    name = parser.parse_args(args).page
    paths = (project.root / FOLDER).glob("*.md")
    pages = {path.stem: path for path in sorted(paths, key=place_in_list)}
    if not pages:
        raise LabError(
            f"{project.root / FOLDER} has no pages. Bring them back: git checkout HEAD -- {FOLDER}"
        )
    if name is None:
        for page, path in pages.items():
            print(f"lab docs {page:<15} {title_of(path)}")
        print(f"They are files, too: {FOLDER}/*.md")
        return
    name = name.removesuffix(".md")
    if name not in pages:
        raise LabError(f"no page {name!r}{nearest(name, pages)}. Pages: {', '.join(pages)}")
    # A pager on a terminal, plain text elsewhere
    pydoc.pager(text_of(pages[name]))


def place_in_list(path: Path) -> tuple[bool, str]:
    """The first day comes first; the others are in the order of their names."""
    return not path.stem.startswith("first-day"), path.stem


def title_of(path: Path) -> str:
    """The first heading of a page."""
    lines = text_of(path).splitlines()
    return lines[0].removeprefix("# ") if lines else ""


def text_of(path: Path) -> str:
    """A page without the comment that says whose file it is."""
    text = path.read_text(encoding="utf-8")
    if text.startswith("<!--"):
        text = text.partition("-->")[2].lstrip()
    return text
