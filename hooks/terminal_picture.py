"""Run after a change in the first day: terminal_picture.py. It draws a part of that page as a terminal, as SVG.

The commands and their output are those of the page, which a test types and compares.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/first-day.md"
PICTURE = ROOT / "docs/img/first-day.svg"
COMMANDS = ("lab train trial=shapes", "lab runs table", "lab submit", "lab runs reproduce")
COLUMNS = 104
MAX_LINES = 9  # of one command
WIDTH_PX, LINE_PX, MARGIN_PX = 8, 18, 16  # of a letter; of a line; around all
STYLE = "text{font:13px ui-monospace,Menlo,Consolas,monospace;fill:#d8dee9;white-space:pre}.typed{fill:#a3be8c}"


def main() -> int:
    """Writes the picture; 1 when it has changed, else 0."""
    text = picture(PAGE.read_text(encoding="utf-8"))
    is_new = not PICTURE.exists() or PICTURE.read_text(encoding="utf-8") != text
    PICTURE.write_text(text, encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)} is {'written: commit it' if is_new else 'up to date'}")
    return int(is_new)


def picture(page: str) -> str:
    """An SVG of the chosen commands with what they print."""
    lines = chosen_lines(page)
    height = len(lines) * LINE_PX + 2 * MARGIN_PX
    width = COLUMNS * WIDTH_PX + 2 * MARGIN_PX
    texts = [text_element(n, line) for n, line in enumerate(lines)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">',
            f"<style>{STYLE}</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#2e3440"/>',
            *texts,
            "</svg>\n",
        ]
    )


def text_element(n: int, line: str) -> str:
    """The n-th line of the terminal."""
    y = MARGIN_PX + (n + 1) * LINE_PX - 5
    kind = "typed" if line.startswith("$ ") else "printed"
    return f'<text class="{kind}" x="{MARGIN_PX}" y="{y}">{escape(line[:COLUMNS])}</text>'


def chosen_lines(page: str) -> list[str]:
    """Each chosen command with its first and its last lines."""
    chosen: list[str] = []
    for command in COMMANDS:
        output = output_of(page, command)
        if len(output) > MAX_LINES:
            output = [*output[:3], "...", *output[4 - MAX_LINES :]]
        chosen += [*output, ""]
    return chosen[:-1]


def output_of(page: str, command: str) -> list[str]:
    """The line of a command on the page, and what is shown below it."""
    lines = page.split("\n")
    start = next(n for n, line in enumerate(lines) if line.startswith(f"$ {command}"))
    end = next(n for n in range(start + 1, len(lines)) if lines[n].startswith(("$ ", "```")))
    return lines[start:end]


if __name__ == "__main__":
    sys.exit(main())
