"""`lab docs`: lists the pages of this version, or shows one."""

from __future__ import annotations

import pydoc
import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from ..command_parser import CommandParser
from ..errors import LabError, nearest
from ..project import LIBRARY, Project

OF_WHEEL = LIBRARY / "docs"
OF_CHECKOUT = LIBRARY.parents[1] / "docs"  # of an editable install
MOST_FOUND = 10  # pages that a search names
SHOWN_LETTERS = 90  # of a line


def docs_command(project: Project | None, args: list[str]) -> None:
    """`lab docs`."""
    parser = CommandParser(
        prog="lab docs",
        description="Shows a page of the documentation; without PAGE, lists them by theme. "
        "A word that is no page is searched in all of them.",
    )
    parser.add_argument("page", nargs="*", metavar="PAGE or WORDS")
    parser.add_argument(
        "--search", nargs="+", metavar="WORD", help="pages with these words, best first"
    )
    options = parser.parse_args(args)
    words = options.search or options.page
    pages = {path.stem: path for path in page_files()}
    if not pages:
        raise LabError(f"{OF_WHEEL} has no pages. Install labrig again: make setup")
    if not words:
        list_pages(pages)
        return
    name = words[0].removesuffix(".md")
    if options.search is None and len(words) == 1 and name in pages:
        # A pager on a terminal, plain text elsewhere
        pydoc.pager(pages[name].read_text(encoding="utf-8"))
        return
    found = search_pages(pages, " ".join(words).lower().replace("-", " ").split())
    if not found:
        raise LabError(
            f"no page has {' '.join(words)!r}{nearest(name, pages)}. All pages: lab docs"
        )
    for hit in found[:MOST_FOUND]:
        print(f"lab docs {hit.page:<15} {hit.line[:SHOWN_LETTERS]}")


def list_pages(pages: dict[str, Path]) -> None:
    """Prints each page with its title, below its theme."""
    for theme, names in themes_of().items():
        print(theme)
        for name in names:
            print(f"  lab docs {name:<15} {title_of(pages[name])}")
    print(f"They are files, too: {next(iter(pages.values())).parent}/*.md")
    print("Words in all of them: lab docs --search WORD")


def themes_of() -> dict[str, list[str]]:
    """Theme -> names of its pages, in the order of the site."""
    themes = {}
    for section in yaml.safe_load(themes_file().read_text(encoding="utf-8"))["nav"]:
        for theme, entries in section.items():
            files = [
                next(iter(entry.values())) if isinstance(entry, dict) else entry
                for entry in entries
            ]
            themes[theme] = [file.removesuffix(".md") for file in files]
    return themes


@dataclass(frozen=True)
class Hit:
    """A page that has all the words, and its line that has most of them."""

    page: str
    line: str
    score: int


def search_pages(pages: dict[str, Path], words: list[str]) -> list[Hit]:
    """The pages with all of the words, best first: a heading counts more than a sentence."""
    hits = []
    for name, path in pages.items():
        text = path.read_text(encoding="utf-8")
        if name == "coverage" or "." in name:
            continue  # for maintainers; translations, which say the same
        if not all(word in text.lower() for word in words):
            continue
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        scores = [score_of(line, words) for line in lines]
        best = max(range(len(lines)), key=scores.__getitem__)
        hits.append(Hit(name, lines[best], 10 * scores[best] + sum(score > 0 for score in scores)))
    return sorted(hits, key=lambda hit: -hit.score)


def score_of(line: str, words: list[str]) -> int:
    """How much a line is about the words."""
    n_words = sum(re.search(rf"\b{re.escape(word)}", line.lower()) is not None for word in words)
    return n_words * (5 if line.startswith("#") else 1)


def themes_file() -> Path:
    """The file of the site that says which page belongs to which theme."""
    in_wheel = OF_WHEEL / "mkdocs.yml"
    return in_wheel if in_wheel.exists() else OF_CHECKOUT.parent / "mkdocs.yml"


def page_files() -> list[Path]:
    """The pages; the first day comes first, the others in the order of their names."""
    paths = list(OF_WHEEL.glob("*.md")) or list(OF_CHECKOUT.glob("*.md"))
    return sorted(paths, key=lambda path: (not path.stem.startswith("first-day"), path.stem))


def title_of(path: Path) -> str:
    """The first heading of a page."""
    with open(path, encoding="utf-8") as file:
        return file.readline().strip().removeprefix("# ")
