"""Cells of tables that other programs read: a setting that somebody chose is text, and no command."""

from __future__ import annotations

import re
from typing import Any

from .terminal import printable

# With these, also behind white space, a spreadsheet begins a formula.
FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
# They begin links, code, emphasis and columns in Markdown.
MARKDOWN = re.compile(r"[\\`*\[\]|]")
HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


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
