# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab trials tree`: the trials, where each came from, and its best number."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from ..config.trial_names import trial_names
from ..project import Project
from ..record.index import ranked, rows

PARENT = re.compile(r"^\*\*Parent\.\*\* \[([a-z][a-z0-9_]*)\]", re.MULTILINE)


def tree_command(project: Project, args: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="lab trials tree", description="Draws the trials with their best numbers."
    )
    parser.add_argument("--metric", default="val/loss", help="the number shown (default: val/loss)")
    chosen = parser.parse_args(args)
    print("\n".join(format_tree(project, chosen.metric)))
    return 0


def format_tree(project: Project, metric: str) -> list[str]:
    """A line per trial: indented below its parent, with the number of runs and the best value of `metric`."""
    known = trial_names(project)
    parents = {name: parent_of(project.source / "trials" / name) for name in known}
    found = rows(project.paths["runs"])
    lines: list[str] = []

    def visit(name: str, prefix: str, branch: str, seen: tuple[str, ...]) -> None:
        lines.append(
            f"{prefix}{branch}{name}".ljust(28) + f"  {trial_numbers(name, found, metric)}".rstrip()
        )
        children = [child for child in known if parents[child] == name and child not in seen]
        below = prefix + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
        for child in children:
            visit(child, below, "└─ " if child == children[-1] else "├─ ", (*seen, child))

    for root in [name for name in known if parents[name] not in known]:
        visit(root, "", "", (root,))
    return lines or ["no trials yet: lab trials new NAME"]


def trial_numbers(trial: str, found: list[dict], metric: str) -> str:
    own = [row for row in found if row["trial"].partition("/")[0] == trial]
    if not own:
        return "no runs"
    best = ranked([row for row in own if row["status"] == "finished"], metric)
    value = f"  {metric} {best[0]['metrics'][metric]:.4g}" if best else ""
    return f"{len(own)} run{'s' if len(own) > 1 else ''}{value}"


def parent_of(trial: Path) -> str | None:
    """The parent that the trial's README names, or None."""
    try:
        found = PARENT.search((trial / "README.md").read_text(encoding="utf-8"))
    except OSError:
        return None
    return found[1] if found else None
