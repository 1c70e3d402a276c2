"""Are the pages plain English? plain_english.py [PAGE ...] prints what is not, with the line.

A sentence has at most LONGEST words, half of the sentences of a page at most MEDIAN. Words of `[plain]` in judges.toml
have a plainer one. A word of the glossary has one meaning and one row.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
GLOSSARY = ROOT / "docs/glossary.md"
# Written by programs from settings and profiles, or in another language
GENERATED = ("settings.md", "sites.md")
LONGEST = 25  # words
MEDIAN = 12
WORDS = tomllib.loads((ROOT / "hooks/judges.toml").read_text(encoding="utf-8"))["plain"]


@dataclass(frozen=True)
class Sentence:
    """A sentence of a page, without marks of Markdown."""

    line: int
    words: list[str]

    def __str__(self) -> str:
        return " ".join(self.words)


def main(names: list[str]) -> int:
    """Prints every fault; 1 when there is one."""
    faults = [fault for path in pages(names) for fault in faults_of(path)]
    if not names:
        faults += faults_of_glossary()
    print("\n".join(faults) or "plain")
    return int(bool(faults))


def pages(names: list[str]) -> list[Path]:
    """The pages that somebody wrote in English."""
    if names:
        return [Path(name) for name in names]
    written = [
        path
        for path in sorted((ROOT / "docs").glob("*.md"))
        if path.name not in GENERATED and "." not in path.stem
    ]
    return [ROOT / "README.md", *written]


def faults_of(path: Path) -> Iterator[str]:
    """What is not plain in a page."""
    text = path.read_text(encoding="utf-8")
    sentences = list(sentences_of(text))
    for sentence in sentences:
        if len(sentence.words) > LONGEST:
            yield f"{path.name}:{sentence.line}: {len(sentence.words)} words: {sentence}"
    usual = median(len(sentence.words) for sentence in sentences)
    if usual > MEDIAN:
        yield f"{path.name}: half of the sentences have {usual:.0f} words or more, not {MEDIAN}"
    without_code = re.sub(r"^```.*?^```$", blank, text, flags=re.DOTALL | re.MULTILINE)
    for number, line in enumerate(without_code.splitlines(), 1):
        for fault in hard_words_in(line):
            yield f"{path.name}:{number}: {fault}"


def blank(code: re.Match) -> str:
    """As many lines, without the code."""
    return "\n" * code[0].count("\n")


def sentences_of(text: str) -> Iterator[Sentence]:
    """The sentences outside of code; a cell of a table, an entry of a list and a heading end one."""
    is_code = False
    paragraph: list[tuple[int, str]] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
            continue
        is_new = not line.strip() or re.match(r"\s*([-*] |\d+\. |#|\|)|.* \| ", line)
        if is_new or is_code:
            yield from split_paragraph(paragraph)
            paragraph = []
        if is_code or not line.strip():
            continue
        if re.match(r".* \| |\|", line):
            for cell in line.split("|"):
                yield from split_paragraph([(number, cell)])
        else:
            paragraph.append((number, line))


def split_paragraph(lines: list[tuple[int, str]]) -> Iterator[Sentence]:
    """The sentences of lines that belong together. Code in backticks is one word."""
    text = " ".join(f"{line} \0{number}\0" for number, line in lines)
    text = re.sub(r"`[^`]*`", "CODE", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    for part in re.split(r"(?<=[.!?:;])\**\)?\s+", text):
        numbers = re.findall(r"\0(\d+)\0", part)
        words = re.findall(r"[^\W\d_][\w'’-]*", re.sub(r"\0\d+\0", " ", part))
        if len(words) > 2:
            yield Sentence(int(numbers[0]) if numbers else lines[-1][0], words)


def hard_words_in(text: str) -> Iterator[str]:
    """Each word that has a plainer one."""
    prose = re.sub(r"`[^`]*`", "", text)
    for word, plain in WORDS.items():
        if re.search(rf"\b{word}\b", prose, re.IGNORECASE):
            yield f"{word!r}: write {plain!r}"


def faults_of_glossary() -> Iterator[str]:
    """A word twice, or the beginning of another, as "lead" and "lead time" were."""
    words = glossary_words()
    for word in words:
        others = [other for other in words if other != word and other.startswith(f"{word} ")]
        if others or words.count(word) > 1:
            yield f"glossary.md: {word!r} has two rows: {', '.join([word, *others])}"


def glossary_words() -> list[str]:
    """The words that the glossary explains; one row may hold several."""
    text = GLOSSARY.read_text(encoding="utf-8")
    rows = re.findall(r"^([^|\n]+) \| (?!meaning|-)", text, re.MULTILINE)
    return [word for row in rows for word in row.split(", ")]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
