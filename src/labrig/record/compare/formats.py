"""A table as aligned text, as Markdown or as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Collection

from ...machine.cells import markdown_cell
from ...machine.terminal import printable
from ...machine.text_table import TextColumn, text_table

Cell = tuple[int, int]  # line and column
LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
LATEX_SPECIAL = re.compile("[" + re.escape("".join(LATEX)) + "]")


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
