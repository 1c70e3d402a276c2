"""Run after a change in the first day: terminal_picture.py. It draws parts of that page as terminals, as SVG.

The commands and their output are those of the page, which a test types and compares.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/first-day.md"
FOLDER = ROOT / "docs/img"
# Page that shows a picture -> the commands in it
COMMANDS = {
    "first-day": ("lab train trial=shapes", "lab runs table", "lab submit", "lab runs reproduce"),
    "cluster": ("lab submit", "lab queue", "lab logs @last"),
    "own-data": ("lab data pack shapes", "lab check trial=shapes"),
    "problems": ("lab check trial=baseline data=shapes",),
    "record": ("lab runs list trial=shapes", "lab runs show @best"),
    "statistics": ("lab train trial=shapes model.width", "lab runs table"),
    "trials": ("lab trials new shapes", "lab trials result"),
    "watching": ("lab train trial=baseline",),
}
COLUMNS = 104
MAX_LINES = 9  # of one command, where several share a picture
WIDTH_PX, LINE_PX, MARGIN_PX = 8, 18, 16  # of a letter; of a line; around all
STYLE = "text{font:13px ui-monospace,Menlo,Consolas,monospace;fill:#d8dee9;white-space:pre}.typed{fill:#a3be8c}"


def main() -> int:
    """Writes the pictures; 1 when one has changed, else 0."""
    page = PAGE.read_text(encoding="utf-8")
    n_new = 0
    for name in COMMANDS:
        file = FOLDER / f"{name}.svg"
        text = picture(page, name)
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
            print(f"{file.relative_to(ROOT)} is written: commit it")
            n_new += 1
    return int(n_new > 0)


def picture(page: str, name: str) -> str:
    """An SVG of the commands of a picture with what they print."""
    lines = chosen_lines(page, COMMANDS[name])
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


def chosen_lines(page: str, commands: tuple[str, ...]) -> list[str]:
    """Each command with its first and its last lines; one alone with all."""
    chosen: list[str] = []
    for command in commands:
        output = output_of(page, command)
        if len(commands) > 1 and len(output) > MAX_LINES:
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
