"""Run after a change in a site's profile: site_tables.py. It writes docs/sites.md, a section for each site."""

from __future__ import annotations

import sys
from itertools import takewhile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
PROFILES = ROOT / "src/labrig/conf/site"
PAGE = ROOT / "docs/sites.md"
HEAD = """\
# What is known of each site?

`lab site show NAME` prints a profile: each fact with its mark and its source, a page of the centre with the month in
which it was read. `hooks/site_tables.py` made this page from the profiles. *Not documented* are facts that come from
users' job scripts, and those that nobody has confirmed.
**Nobody on the project can log in to the centres**: look at `lab submit --dry-run` first, and correct a copy of the
profile in `conf/site/` of your project. [How to](clusters.md).
"""
UNSURE = ("U", "?")  # marks: seen only in users' job scripts, unconfirmed


def main() -> int:
    """Writes the page; 1 when it has changed, else 0."""
    text = page()
    is_new = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text
    PAGE.write_text(text, encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} is {'written: commit it' if is_new else 'up to date'}")
    return int(is_new)


def page() -> str:
    return HEAD + "".join(section(path) for path in sorted(PROFILES.glob("*.yaml")))


def section(path: Path) -> str:
    """The heading, the first comment of a profile, and which of its facts are not sure."""
    text = path.read_text(encoding="utf-8")
    profile = yaml.safe_load(text)
    comment = [line.removeprefix("# ") for line in takewhile(is_comment, text.split("\n"))]
    unsure = [f"`{key}`" for key, (mark, _) in profile["confidence"].items() if mark in UNSURE]
    lines = [f"\n## {path.stem}\n", *comment, "", f"Scheduler: {profile['scheduler']}."]
    if unsure:
        lines.append(f"Not documented: {', '.join(unsure)}.")
    if profile["verified"]:
        lines.append(f"Run: {profile['verified']}.")
    return "\n".join([*lines, ""])


def is_comment(line: str) -> bool:
    return line.startswith("# ")


if __name__ == "__main__":
    sys.exit(main())
