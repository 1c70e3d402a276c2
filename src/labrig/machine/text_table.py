"""Tables of text: for the terminal, and as Markdown, LaTeX or cells of CSV, which can be neither links nor commands."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .text_formats import printable

# With these, also behind white space, a spreadsheet begins a formula.
FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
# They begin links, code, emphasis and columns in Markdown.
MARKDOWN = re.compile(r"[\\`*\[\]|]")
HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
Cell = tuple[int, int]  # line and column
LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
LATEX_SPECIAL = re.compile("[" + re.escape("".join(LATEX)) + "]")


@dataclass(frozen=True)
class TextColumn:
    """A title, and below it a text for each line.

    Args:
        texts: may be made lazily; they are read once, when the width or the table asks for them.
        given_width: characters; a longer text shifts the rest of its line. None: as the longest.
        on_right: numbers stand on the right of their width, words on the left.
        colours: of the terminal, one for each text; none at all: as it is.
    """

    title: str
    texts: Iterable[str]
    given_width: int | None = None
    on_right: bool = False
    colours: Sequence[int] = ()

    @cached_property
    def cells(self) -> list[str]:
        return list(self.texts)

    @cached_property
    def width(self) -> int:
        """In characters."""
        if self.given_width is not None:
            return self.given_width
        return max(len(self.title), max(map(len, self.cells), default=0))

    def padded(self) -> list[str]:
        """The title and the cells, filled up with spaces."""
        width = self.width
        pad = str.rjust if self.on_right else str.ljust
        title, *cells = [pad(text, width) for text in (self.title, *self.cells)]
        if not self.colours:
            return [title, *cells]
        coloured = zip(self.colours, cells, strict=True)
        return [title, *(f"\033[{colour}m{cell}\033[0m" for colour, cell in coloured)]


def text_table(columns: Sequence[TextColumn], gap: str = "  ") -> list[str]:
    """The lines of a table: the titles, then a line for each text of the columns.

    Args:
        gap: between two columns.
    """
    padded = [column.padded() for column in columns]
    return [gap.join(cells).rstrip() for cells in zip(*padded, strict=True)]


def spreadsheet_cell(value: Any) -> Any:
    """A cell of a CSV file; a text that would be a formula gets an apostrophe in front, as to type it.

    A number stays a number, negative and written as text too.
    """
    if not isinstance(value, str) or not FORMULA.match(value) or is_number_text(value):
        return value
    return f"'{value}"


def is_number_text(text: str) -> bool:
    """Whether a text is a number as Python reads it, without blanks around it."""
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()


def markdown_cell(text: str) -> str:
    """A cell of a table in Markdown: one line, without links, columns and HTML of its own."""
    shown = "".join(HTML.get(character, character) for character in printable(text))
    return MARKDOWN.sub(lambda match: f"\\{match[0]}", shown)


def comment_text(text: str) -> str:
    """Text for a comment of HTML, LaTeX, YAML or Python: one line, which cannot end the comment."""
    return printable(text).replace("--", "- -")


def format_text(header: list[str], lines: list[list[str]]) -> str:
    """Columns on the right of their width, two spaces between them."""
    table = [[printable(cell) for cell in line] for line in (header, *lines)]
    columns = [
        TextColumn(title, cells, on_right=True) for title, *cells in zip(*table, strict=True)
    ]
    return "\n".join(text_table(columns))


def format_markdown(header: list[str], lines: list[list[str]], bold: Collection[Cell] = ()) -> str:
    """A table of Markdown; the cells `bold` are (line, column), counted from 0."""
    rule = ["---:"] * len(header)
    title = list(map(markdown_cell, header))
    table = [list(map(markdown_cell, line)) for line in lines]
    for line, column in bold:
        table[line][column] = f"**{table[line][column]}**"
    return "\n".join(f"| {' | '.join(line)} |" for line in (title, rule, *table))


def format_latex(
    header: list[str], lines: list[list[str]], bold: Collection[Cell] = (), n_words: int = 0
) -> str:
    """A tabular with the rules of booktabs and the numbers of siunitx.

    Args:
        bold: cells as (line, column), counted from 0.
        n_words: the first so many columns are words; the others are numbers.
    """
    table = [
        [latex(cell) if place < n_words else latex_number(cell) for place, cell in enumerate(line)]
        for line in lines
    ]
    for line, column in bold:
        cell = table[line][column]
        brace = "{" if cell.startswith("{") else ""  # around the whole of what is no number
        table[line][column] = rf"{brace}\bfseries {cell.removeprefix(brace)}"
    titles = [latex(title) for title in header]
    titles[n_words:] = [f"{{{title}}}" for title in titles[n_words:]]
    numbers = zip(*(line[n_words:] for line in lines), strict=True)
    columns = "l" * n_words + "".join(number_column(cells) for cells in numbers)
    rows = [" & ".join(line) + r" \\" for line in (titles, *table)]
    return "\n".join(
        [
            r"% Needs \usepackage{booktabs} and \usepackage{siunitx}.",
            r"\begingroup",
            r"\sisetup{detect-weight = true, separate-uncertainty = true}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            rows[0],
            r"\midrule",
            *rows[1:],
            r"\bottomrule",
            r"\end{tabular}",
            r"\endgroup",
        ]
    )


NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?: ± (\d+)(?:\.(\d+))?)?")  # 0.950 ± 0.012


def latex_number(cell: str) -> str:
    """A cell for a column of siunitx; what is no number stands in braces."""
    return cell.replace("±", "+-") if NUMBER.fullmatch(cell) else f"{{{latex(cell)}}}"


def number_column(cells: Collection[str]) -> str:
    """The column of siunitx in which these numbers stand below each other's point."""
    numbers = [match for cell in cells if (match := NUMBER.fullmatch(cell))]
    if not numbers:
        return "r"
    sign = "-" if any(number[1] for number in numbers) else ""
    n_whole = max(len(number[2]) for number in numbers)
    n_decimals = max(len(number[3] or "") for number in numbers)
    deviations = [f"{number[4]}{number[5] or ''}".lstrip("0") for number in numbers if number[4]]
    form = f"{sign}{n_whole}" + (f".{n_decimals}" if n_decimals else "")
    if deviations:
        form += f"({max(map(len, deviations)) or 1})"
    return f"S[table-format={form}]"


def latex(text: str) -> str:
    shown = LATEX_SPECIAL.sub(lambda match: LATEX[match[0]], printable(text))
    # Behind the end of a line, LaTeX would take these for an argument of it.
    return f"{{}}{shown}" if shown.startswith(("[", "*")) else shown
