"""The files of a trial: its code and settings, and its README: parent, question, change, numbers, verdict."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from ..config.trial_names import PAGE, GoneTrial, gone_trials
from ..errors import LabError
from ..machine.text_formats import printable
from ..project import Project
from ..record.compare.code_files import code_of_rows
from ..record.files.atomic import write_file
from ..record.files.schema import Row
from ..record.freeze.frozen_files import git_hash
from ..record.freeze.git import Git, GitFailed

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
PICTURES = (".png", ".jpg", ".jpeg", ".svg", ".gif")
SETTINGS = (".yaml", ".yml")
CACHES = ("__pycache__", ".ipynb_checkpoints")


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


def trial_directory(project: Project, name: str) -> Path:
    return project.source / "trials" / name


def trial_path(project: Project, name: str) -> str:
    """The directory of a trial for git, relative to the project."""
    return f"src/{project.package}/trials/{name}"


def is_result(path: str) -> bool:
    """Whether a file of a trial's directory, by its relative path, is a result."""
    return path == "README.md" or path.lower().endswith(PICTURES)


def code_files(directory: Path) -> list[str]:
    """The files of a trial that are code or settings, relative to its directory, sorted.

    Files that git ignores, such as logs and checkpoints, are left out.
    """
    try:
        git = Git(directory)
        names = git.paths("ls-files", "-z", "-c", "-o", "--exclude-standard", "--", ".")
    except GitFailed:  # no repository
        paths = (path for path in directory.rglob("*") if not set(CACHES) & set(path.parts))
        names = [str(path.relative_to(directory)) for path in paths]
    return sorted({name for name in names if (directory / name).is_file() and not is_result(name)})


def has_code_of_today(project: Project, name: str, row: Row) -> bool:
    """Whether the files of code that a run of a trial used, and the trial's settings, are as then.

    Args:
        name: of the trial.
        row: of a run whose code was recorded; of others nobody can tell.
    """
    (code,) = code_of_rows([row]).values()
    then = {path: hashes for path, hashes in code if path}
    if not then:
        return False
    top = top_of_repository(project)
    directory = trial_directory(project, name)
    of_trial = files_of_tree(project, row["trial_tree"]) if row["trial_tree"] else {}
    settings = [path for path in of_trial if path.endswith(SETTINGS)]
    return all(is_as_then(top / path, hashes) for path, hashes in then.items()) and all(
        is_as_then(directory / path, of_trial[path]) for path in settings
    )


def top_of_repository(project: Project) -> Path:
    """What the paths of recorded files are relative to."""
    try:
        return Path(Git(project.root)("rev-parse", "--show-toplevel").strip())
    except GitFailed:  # no repository
        return project.root


def files_of_tree(project: Project, tree: str) -> dict[str, str]:
    """Git's hash of each file of a recorded tree; none where this repository does not have it."""
    try:
        lines = Git(project.root).paths("ls-tree", "-r", "-z", "--end-of-options", tree)
    except GitFailed:
        return {}
    entries = [line.partition("\t") for line in lines]
    return {path: facts.split()[2] for facts, _, path in entries}


def is_as_then(path: Path, hashes: str) -> bool:
    """Whether a file has the content of each of these hashes, which stand with spaces between them."""
    if not path.is_file():
        return False
    content = path.read_bytes()
    return all(git_hash(content, each) == each for each in hashes.split())
