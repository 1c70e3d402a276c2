"""The README of a trial: parent, question, change, numbers, verdict."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ..errors import LabError

NEW = """# {name}

{parent}**Question.** {question}

**Change.** {change}

**Numbers.** `lab trials result {name}` writes this table.

<!-- numbers: written by lab trials result -->
<!-- end of numbers -->

**Verdict.** Open.
"""
NO_QUESTION = "What does this trial ask?"
PARENT = re.compile(r"^(\*\*Parent\.\*\* )\[([a-z][a-z0-9_]*)\](?:\([^)\n]*\))?", re.MULTILINE)
BEGIN = "<!-- numbers: written by lab trials result -->"
END = "<!-- end of numbers -->"
PARAGRAPH = r"^\*\*{title}\.\*\*[ \t]*(.*?)(?=\n\s*\n|\n#|\n\*\*\w+\.\*\*|\Z)"


@dataclass(frozen=True)
class Readme:
    """What the README of a trial says; "" or None where it does not."""

    parent: str | None
    question: str
    verdict: str


def read_readme(trial: Path) -> Readme:
    """The README in the directory of a trial."""
    try:
        text = (trial / "README.md").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return Readme(parent=None, question="", verdict="")
    parent = PARENT.search(text)
    return Readme(
        parent=parent[2] if parent else None,
        question=paragraph(text, "Question"),
        verdict=paragraph(text, "Verdict"),
    )


def paragraph(text: str, title: str) -> str:
    """The paragraph that begins with **title.**, on one line; "" when there is none."""
    match = re.search(PARAGRAPH.format(title=title), text, re.MULTILINE | re.DOTALL)
    return " ".join(match[1].split()) if match else ""


def with_parent(text: str, old: str, new: str) -> str:
    """A README whose parent was `old` and is `new`."""
    parent = PARENT.search(text)
    if not parent or parent[2] != old:
        return text
    link = f"{parent[1]}[{new}](../{new}/README.md)"
    return text[: parent.start()] + link + text[parent.end() :]


def with_numbers(text: str, table: str, path: Path) -> str:
    """A README with `table` between its marks; they are made where they are missing."""
    block = f"{BEGIN}\n\n{table}\n\n{END}"
    if BEGIN in text and END in text.partition(BEGIN)[2]:
        before, _, rest = text.partition(BEGIN)
        return before + block + rest.partition(END)[2]
    if BEGIN in text or END in text:
        raise LabError(
            f"{path} has one of the two marks of its numbers, or both in the wrong order.\n"
            f"Delete it, then type the command again. The marks:\n  {BEGIN}\n  {END}"
        )
    numbers = re.search(PARAGRAPH.format(title="Numbers"), text, re.MULTILINE | re.DOTALL)
    if numbers:
        after = text[numbers.end() :].lstrip("\n")
        return f"{text[: numbers.end()]}\n\n{block}\n\n{after}"
    return f"{text.rstrip()}\n\n**Numbers.**\n\n{block}\n"
