"""Writes the lines of TRIALS.md."""

from __future__ import annotations

import re
from datetime import date

from ..config.trial_names import PAGE, GoneTrial, gone_trials
from ..machine.terminal import printable
from ..project import Project
from ..record.files.atomic import write_file

HEAD = """# Trials that are gone

`lab trials drop` and `lab trials rename` write these lines. `lab trials restore NAME` brings a
dropped trial back; the runs of a renamed one are listed under its new name.

"""


def read_gone(project: Project) -> dict[str, GoneTrial]:
    """The lines of this project's TRIALS.md, by the trial's name."""
    return gone_trials(project.root / PAGE)


def read_page(project: Project) -> str | None:
    """The text of TRIALS.md; None when there is none."""
    path = project.root / PAGE
    return path.read_text(encoding="utf-8") if path.exists() else None


def write_page(project: Project, text: str | None) -> None:
    """Puts TRIALS.md back as `read_page` returned it."""
    path = project.root / PAGE
    if text is None:
        path.unlink(missing_ok=True)
    else:
        write_file(path, text)


def add_dropped(project: Project, name: str, commit: str, number: str, why: str) -> None:
    """Adds the line of a dropped trial.

    Args:
        commit: the last one that has it.
        number: its best number.
    """
    reason = printable(" ".join(why.split()))
    add_line(project, f"dropped `{name}` at `{commit}`: {number}. {reason}")


def add_renamed(project: Project, old: str, new: str) -> None:
    add_line(project, f"renamed `{old}` to `{new}`")


def add_line(project: Project, text: str) -> None:
    """Adds a line with the date of today."""
    page = read_page(project) or HEAD
    page = page if page.endswith("\n") else f"{page}\n"
    write_page(project, f"{page}- {date.today().isoformat()} {text}\n")


def remove_lines(project: Project, name: str) -> None:
    """Takes out the lines that say what became of the trial `name`."""
    page = read_page(project)
    if page is None:
        return
    lines = re.compile(rf"^- \d{{4}}-\d\d-\d\d (?:dropped|renamed) `{name}` .*\n?", re.M)
    write_page(project, lines.sub("", page))
