# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab check` once more, on the frozen tree: what a job would find missing there is found before the queue.

Started by submit as a process of its own, from the frozen code: python -m <package>.lab.cluster.frozen_check
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..errors import LabError, Refused
from ..project import Project
from ..record.git import Git
from .scheduler import clean_environment

NOT_CODE = ("data", "runs", ".venv", ".git", ".env")  # at the top of a project: never frozen, and not code


def check_frozen(project: Project, code: dict[str, Any], frozen: Path, overrides: list[str], python: str) -> int | None:
    """Runs the check in `frozen`; the number of parameters of the model, when it said so.

    Raises:
        LabError: what the check said.
        Refused: it loaded a file of the repository that the snapshot lacks; with the file and the rule that left it out.
    """
    source = frozen / code["prefix"]
    variables = {
        "PYTHONPATH": str(source / "src"),
        "PYTHONSAFEPATH": "1",
        "LAB_FROZEN": str(frozen),
        "LAB_PROJECT": str(project.root),
    }
    command = [python, "-m", f"{project.package}.lab.cluster.frozen_check", *overrides]
    done = subprocess.run(command, env=clean_environment() | variables, cwd=source, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    files = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {"opened": [], "missing": []}
    if done.returncode:
        said = (
            done.stderr.rpartition("\nlab: ")[2].strip().removeprefix("lab: ")
            or f"it ended with code {done.returncode}"
        )
        raise LabError(
            f"the frozen code fails its check: {said.replace(str(frozen), '<snapshot>')}{hint(project, code, files['missing'])}"
        )
    outside = [name for name in files["opened"] if not (source / name).exists()]
    if outside:
        raise Refused(
            "the check read files of the repository that the snapshot lacks, so the job would miss them:\n"
            + "\n".join(f"  {name}: {rule(project, code, name)}" for name in outside)
        )
    found = re.search(r"([\d,]+) parameters", done.stdout)
    return int(found[1].replace(",", "")) if found else None


def hint(project: Project, code: dict[str, Any], missing: list[str]) -> str:
    """Why what the check missed is not in the snapshot, for what exists in the project."""
    for name in missing:
        for place in (project.root / "src" / name, project.root / name):
            if place.exists():
                inside = str(place.relative_to(project.root))
                return f"\n{inside} exists here, but the snapshot lacks it: {rule(project, code, inside)}"
    return ""


def rule(project: Project, code: dict[str, Any], name: str) -> str:
    """Why the snapshot left a file out."""
    for entry in code["skipped"]:
        if entry["path"] == code["prefix"] + name:
            return entry["reason"]
    said = Git(project.root).run("check-ignore", "--verbose", "--no-index", name).stdout.partition("\t")[0]
    if said:
        file, line, pattern = said.split(":", 2)
        return f"ignored by {pattern!r} in {file}:{line}; add !{name} below it, or git add -f {name}"
    return "it lies outside what the snapshot holds"


def main(overrides: list[str]) -> int:
    """The check, with every file of the live tree that is opened meanwhile printed as JSON at the end."""
    root = Path(os.environ["LAB_PROJECT"])
    opened: set[str] = set()
    sys.addaudithook(
        lambda event, values: opened.add(values[0]) if event == "open" and isinstance(values[0], str) else None
    )
    from ..fit.start import check

    code, missing = 0, []
    try:
        print(check(Project.find(), overrides))
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        code, missing = error.exit_code, not_found(error)
    inside = {Path(path).relative_to(root) for path in opened if path.startswith(f"{root}/")}
    names = sorted(str(path) for path in inside if is_code(path) and (root / path).is_file())
    print(json.dumps({"opened": names, "missing": missing}))
    return code


def not_found(error: BaseException | None) -> list[str]:
    """Modules (as files) and files that the errors behind `error` did not find."""
    names = []
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name:
            names.append(error.name.replace(".", "/") + ".py")
        elif isinstance(error, FileNotFoundError) and error.filename:
            path = Path(error.filename)
            frozen = Path(os.environ["LAB_FROZEN"])
            names.append(str(path.relative_to(frozen) if path.is_relative_to(frozen) else path))
        error = error.__cause__ or error.__context__
    return names


def is_code(path: Path) -> bool:
    made = any(part == "__pycache__" or part.endswith((".egg-info", ".dist-info")) for part in path.parts)
    return path.parts[0] not in NOT_CODE and not made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
