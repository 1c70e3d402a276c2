"""Run after a change in a site's profile: site_tables.py. It writes docs/sites.md, a table for each site."""

from __future__ import annotations

import sys
from itertools import takewhile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
PROFILES = ROOT / "src/labrig/conf/site"
PAGE = ROOT / "docs/sites.md"
# What a table shows, in this order; other keys are for the library
FACTS = (
    *("scheduler", "gpu", "job", "account", "resources", "queues", "options"),
    *("launcher", "launcher_options", "modules", "prologue", "internet", "node_local"),
    *("home_writable", "python", "container", "env", "rendezvous_suffix", "max_jobs", "paths"),
    *("requeue", "cost"),
)
HEAD = """\
# What is known of each site?

Written by `hooks/site_tables.py` from the profiles in `src/labrig/conf/site/`;
`lab site show NAME` prints one. Each fact has a mark and a source: **V** run, or read in source · **D** documented ·
**U** seen only in users' job scripts · **?** unconfirmed. What labrig chose itself is not in the tables.
**Nobody on the project can log in to the centres**: look at `lab submit --dry-run` first, and correct a copy in
`conf/site/` of your project.
"""


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
    """The heading, the first comment and the table of a profile."""
    text = path.read_text(encoding="utf-8")
    profile = yaml.safe_load(text)
    marks = profile["confidence"]
    lines = [
        f"\n## {path.stem}\n",
        *comment_of(text),
        "",
        "fact | value | mark | source",
        "-|-|-|-",
    ]
    for key in FACTS:
        if key not in profile:
            continue
        mark, source = marks.get(key, ("", ""))
        if mark:
            lines.append(f"{key} | `{inline(profile[key])}` | {mark} | {source}")
        inner = {name: mark for name, mark in marks.items() if name.startswith(f"{key}.")}
        for name, (mark, source) in inner.items():
            value = inner_value(profile[key], name.removeprefix(f"{key}."))
            lines.append(f"{name} | `{inline(value)}` | {mark} | {source}")
    if profile.get("verified"):
        lines.append(f"verified | {profile['verified']} | |")
    sources = [
        f"{name}: {entry.get('url') or entry['what']} ({entry['seen']})"
        for name, entry in profile["sources"].items()
    ]
    return "\n".join([*lines, "", f"Sources: {'; '.join(sources)}.", ""])


def inner_value(value: dict | list, name: str) -> object:
    """The entry `name` of a section, or of a list such as `queues`."""
    if isinstance(value, dict):
        return value[name]
    return next(entry for entry in value if entry["name"] == name)


def comment_of(text: str) -> list[str]:
    """The comment at the top of a profile."""
    lines = takewhile(lambda line: line.startswith("# "), text.split("\n"))
    return [line.removeprefix("# ") for line in lines]


def inline(value: object) -> str:
    """A value on one line, as YAML; `|` would end the cell."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...").replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
