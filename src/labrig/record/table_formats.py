"""A table as aligned text, as Markdown or as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Collection

from ..machine.terminal import printable

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
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in table
    )


def format_markdown(header: list[str], lines: list[list[str]], bold: Collection[Cell] = ()) -> str:
    """A table of Markdown; the cells `bold` are (line, column), counted from 0."""
    rule = ["---:"] * len(header)
    title = [printable(cell).replace("|", r"\|") for cell in header]
    table = [[printable(cell).replace("|", r"\|") for cell in line] for line in lines]
    for line, column in bold:
        table[line][column] = f"**{table[line][column]}**"
    return "\n".join(f"| {' | '.join(line)} |" for line in (title, rule, *table))


def format_latex(header: list[str], lines: list[list[str]], bold: Collection[Cell] = ()) -> str:
    """A tabular that needs no package; the cells `bold` are (line, column), counted from 0."""
    table = [[latex(cell) for cell in line] for line in (header, *lines)]
    for line, column in bold:
        table[line + 1][column] = rf"\textbf{{{table[line + 1][column]}}}"
    rows = [" & ".join(line) + r" \\" for line in table]
    begin = r"\begin{tabular}{" + "r" * len(header) + "}"
    return "\n".join([begin, r"\hline", rows[0], r"\hline", *rows[1:], r"\hline", r"\end{tabular}"])


def latex(text: str) -> str:
    return LATEX_SPECIAL.sub(lambda match: LATEX[match[0]], printable(text))
