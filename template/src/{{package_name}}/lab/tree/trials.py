# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab trials new` copies a trial's directory; `lab trials tree` draws what came from what. No registry: directories are it."""

from __future__ import annotations

import argparse
import keyword
import re
import shutil
from pathlib import Path

from ..errors import LabError, nearest
from ..project import Project
from ..record.rows import ranked, rows

NAME = re.compile(r"[a-z][a-z0-9_]*")
PARENT = re.compile(r"^\*\*Parent\.\*\* \[([a-z][a-z0-9_]*)\]", re.MULTILINE)
README = """# {name}

**Parent.** [{parent}](../{parent}/README.md)

**Question.** What does this trial ask?

**Change.** The one thing that differs from {parent}.

**Numbers.** `lab runs list trial={name}` shows the runs behind them.

| seed | {metric} |
|---|---|

**Verdict.** Open.
"""


def new_command(project: Project, args: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="lab trials new", description="Copies a trial's directory under a new name.")
    parser.add_argument("name")
    parser.add_argument(
        "--from",
        dest="parent",
        default="baseline",
        metavar="PARENT",
        help="the trial to start from (default: baseline)",
    )
    chosen = parser.parse_args(args)
    made = new(project, chosen.name, chosen.parent)
    place = made.relative_to(project.root)
    print(
        f"made {place}/ from {chosen.parent}\n  1. write the question and the one change: {place}/README.md\n  2. make the change"
    )
    print(f"  3. lab check trial={chosen.name} && lab train trial={chosen.name}")
    return 0


def new(project: Project, name: str, parent: str) -> Path:
    """Makes trials/<name>/ as a copy of trials/<parent>/ with an open README.

    Raises:
        LabError: a name that cannot be imported or is taken, or no such parent.
    """
    folder = project.source / "trials"
    known = names(project)
    if not NAME.fullmatch(name) or keyword.iskeyword(name):
        raise LabError(
            f"trial name {name!r} must be lower-case letters, digits and _, beginning with a letter, and no Python word."
        )
    if (folder / name).exists():
        raise LabError(f"there is a trial {name!r} already: {folder / name}. Choose another name.")
    if parent not in known:
        raise LabError(
            f"no trial {parent!r}{nearest(parent, known)} to start from. Trials: {', '.join(known) or 'none'}"
        )
    aside = folder / f".{name}.new"
    shutil.rmtree(aside, ignore_errors=True)
    shutil.copytree(folder / parent, aside, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    (aside / "README.md").write_text(README.format(name=name, parent=parent, metric="val/loss"), encoding="utf-8")
    aside.rename(folder / name)
    return folder / name


def tree_command(project: Project, args: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="lab trials tree", description="Draws the trials with their best numbers.")
    parser.add_argument("--metric", default="val/loss", help="the number shown (default: val/loss)")
    chosen = parser.parse_args(args)
    print("\n".join(tree(project, chosen.metric)))
    return 0


def tree(project: Project, metric: str) -> list[str]:
    """A line per trial: indented below its parent, with the number of runs and the best value of `metric`."""
    known = names(project)
    parents = {name: parent_of(project.source / "trials" / name) for name in known}
    found = rows(project.paths["runs"])
    lines: list[str] = []

    def visit(name: str, prefix: str, branch: str, seen: tuple[str, ...]) -> None:
        lines.append(f"{prefix}{branch}{name}".ljust(28) + f"  {numbers(name, found, metric)}".rstrip())
        children = [child for child in known if parents[child] == name and child not in seen]
        below = prefix + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
        for child in children:
            visit(child, below, "└─ " if child == children[-1] else "├─ ", (*seen, child))

    for root in [name for name in known if parents[name] not in known]:
        visit(root, "", "", (root,))
    return lines or ["no trials yet: lab trials new NAME"]


def numbers(trial: str, found: list[dict], metric: str) -> str:
    own = [row for row in found if row["trial"].partition("/")[0] == trial]
    if not own:
        return "no runs"
    best = ranked([row for row in own if row["status"] == "finished"], metric)
    value = f"  {metric} {best[0]['metrics'][metric]:.4g}" if best else ""
    return f"{len(own)} run{'s' if len(own) > 1 else ''}{value}"


def names(project: Project) -> list[str]:
    return sorted(path.parent.name for path in (project.source / "trials").glob("*/config.yaml"))


def parent_of(trial: Path) -> str | None:
    """The parent that the trial's README names, or None."""
    try:
        found = PARENT.search((trial / "README.md").read_text(encoding="utf-8"))
    except OSError:
        return None
    return found[1] if found else None
