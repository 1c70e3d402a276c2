"""`lab docs`: lists the pages of this version, or shows one."""

from __future__ import annotations

import argparse
import pydoc
from pathlib import Path

from ..errors import LabError, nearest
from ..project import LIBRARY, Project

OF_WHEEL = LIBRARY / "docs"
OF_CHECKOUT = LIBRARY.parents[1] / "docs"  # of an editable install


def docs_command(project: Project | None, args: list[str]) -> None:
    """`lab docs`.

    Raises:
        LabError: there is no such page.
    """
    parser = argparse.ArgumentParser(
        prog="lab docs", description="Shows a page of the documentation; without PAGE, lists them."
    )
    parser.add_argument("page", nargs="?", metavar="PAGE")
    name = parser.parse_args(args).page
    pages = {path.stem: path for path in page_files()}
    if not pages:
        raise LabError(f"{OF_WHEEL} has no pages. Install labrig again: make setup")
    if name is None:
        for page, path in pages.items():
            print(f"lab docs {page:<15} {title_of(path)}")
        print(f"They are files, too: {next(iter(pages.values())).parent}/*.md")
        return
    name = name.removesuffix(".md")
    if name not in pages:
        raise LabError(f"no page {name!r}{nearest(name, pages)}. Pages: {', '.join(pages)}")
    # A pager on a terminal, plain text elsewhere
    pydoc.pager(pages[name].read_text(encoding="utf-8"))


def page_files() -> list[Path]:
    """The pages; the first day comes first, the others in the order of their names."""
    paths = list(OF_WHEEL.glob("*.md")) or list(OF_CHECKOUT.glob("*.md"))
    return sorted(paths, key=lambda path: (not path.stem.startswith("first-day"), path.stem))


def title_of(path: Path) -> str:
    """The first heading of a page."""
    with open(path, encoding="utf-8") as file:
        return file.readline().strip().removeprefix("# ")
