"""The page with every message: docs/errors.md."""

from __future__ import annotations

import re
from itertools import compress

from .sites import BOOTSTRAP, Site

# Folder of labrig -> heading, in the order of a user's day
HEADINGS = {
    "setup": "Setting up: `make setup`, `make add`",
    "": "Commands, projects, plug-ins",
    "docs": "Pages of the documentation",
    "config": "Settings and trials' files",
    "hdf5": "Data",
    "training": "Training",
    "machine": "This machine",
    "bench": "Measuring: `lab bench`",
    "record": "Runs and the record",
    "trials": "Trials",
    "report": "The report",
    "sweep": "Searches: `lab sweep`",
    "cluster": "Jobs and clusters",
    "remote": "Jobs from a laptop: `on=HOST`",
    "update": "Updates of the template",
}
HEAD = """\
# What does this message mean?

Every message that `lab` ends with, by what you were doing. A word in CAPITALS stands for a value: `NAME`, `PATH`.
First what was found, then **what to do**. Search for the words of the message that are not yours:
`lab docs errors | grep -i "no run"`. From symptom to command: [when something fails](problems.md).

The exit code of a command: 0 done · 1 failed or differs · 2 your mistake · 3 not comparable · 4 refused, because
something would be lost or leak · 130 interrupted. Here it stands after a message where it is not 2.

Not in the list: after `usage:` a command names its options, and after `error:` what it did not understand.
**Its `--help` explains each with an example.** What `lab doctor` and `lab check` find comes with its advice.
"""
# Where the part of a message begins that says what to do: the first that matches, of the earliest rule
REMEDIES = (
    r"(?<=[\w)\]'>%/…\"]) ?[.;]\s+(?=\S)|\s*\n\s*",
    r"(?<=[A-Z:)]) (?=To [a-z])",
    r"^(?=LAB_DEBUG)",
    r": (?=(lab|make|git|ssh|copier|mlflow|srun|pip|Pages|Kinds) ?)",
    r"[,;:]? (?=expected |must |needs |takes |write |it is one of |it takes |at most |Leave |name it )",
    r"[,:] (?=one of |minimize|leave |like |train=)",
)


def page(sites: list[Site]) -> str:
    groups: dict[str, dict[str, int]] = {}
    for site in sites:
        file = "setup/" if site.file == BOOTSTRAP else site.file
        folder = file.rpartition("/")[0].partition("/")[0]
        for message in site.messages:
            if has_own_words(message):
                groups.setdefault(folder, {}).setdefault(on_one_line(message), site.exit_code)
    unknown = set(groups) - set(HEADINGS)
    assert not unknown, f"page.py has no heading for {unknown}"
    parts = [HEAD]
    for folder, heading in HEADINGS.items():
        messages = groups.get(folder, {})
        if messages:
            parts.append(f"\n## {heading}\n\n")
            parts += [entry(text, messages[text]) for text in sorted(messages, key=own_words)]
    return "".join(parts)


def on_one_line(message: str) -> str:
    """A message whose lines are sentences of their own."""
    sentences = re.sub(r"(?<=[\w)'])\n(?=[A-Z])", ". ", message)
    return " ".join(sentences.split())


def entry(message: str, exit_code: int) -> str:
    found, remedy = split_remedy(message)
    parts = [escaped(found), f"**{escaped(remedy)}**", f"({exit_code})"]
    shown = [bool(found), bool(remedy), exit_code != 2]
    return f"- {' '.join(compress(parts, shown))}\n"


def split_remedy(message: str) -> tuple[str, str]:
    """(what was found, what to do); the second is empty when a message does not say it."""
    for rule in REMEDIES:
        match = re.search(rule, message)
        if match and message[match.end() :].strip():
            return message[: match.end()].rstrip(), message[match.end() :].strip()
    return message, ""


def has_own_words(message: str) -> bool:
    """Whether a message is more than the text of another error that it passes on."""
    return len(re.findall(r"\b[a-z]{2,}\b", message)) >= 2


def own_words(message: str) -> str:
    """A message from its first word that is the same for everyone."""
    return re.sub(r"^(?:[^a-z]*\b[A-Z_]+\b)*\W*", "", message).lower()


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, with code in backticks left alone."""
    parts = re.split(r"(`[^`]*`)", text)
    for index, part in enumerate(parts):
        if index % 2 == 0:
            parts[index] = re.sub(r"([*<\[])", r"\\\1", part)
    return "".join(parts)
