# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Checks a point in its frozen code before anything is sent to the scheduler."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .. import env
from ..config.compose import Composition
from ..errors import Failed, LabError, Refused
from ..project import Project
from ..record.git import Git
from .scheduler import clean_environment

NOT_CODE = re.compile(
    r"(data|runs|\.venv|\.git|\.env)(/|$)|.*(__pycache__|\.egg-info|\.dist-info)/"
)  # never frozen


def check_frozen(project: Project, code: dict[str, Any], frozen: Path, point: Composition) -> None:
    """Runs `lab check` in `frozen`, the unpacked snapshot.

    Raises:
        Refused: it wanted a file of the repository that the snapshot lacks, or two checkpoints do not fit on the disk.
        LabError: what the check said.
    """
    source = frozen / code["prefix"]
    own = env.frozen_environment(frozen, code["prefix"], project.root, code["commit"])
    command = [
        sys.executable,
        "-m",
        f"{project.package}.lab.cluster.check_frozen",
        *point.overrides,
    ]
    done = subprocess.run(
        command, env=clean_environment() | own, cwd=source, capture_output=True, text=True
    )
    if done.returncode:
        raise Failed(
            f"the check of the frozen code ended with code {done.returncode}:\n{done.stderr.strip()[-2000:]}"
        )
    said = json.loads(done.stdout.splitlines()[-1])
    refuse_lacking(project, code, frozen, said["wanted"])
    if said["error"]:
        raise LabError(
            f"the frozen code fails its check: {said['error'].replace(str(frozen), '<snapshot>')}"
        )
    place = Path(point.config.paths.checkpoints or point.config.paths.runs)
    while not place.exists():
        place = place.parent
    # two checkpoints: weights and two moments of the optimizer, 4 bytes each
    need_MB, free_MB = 2 * 12 * said["parameters"] / 1e6, shutil.disk_usage(place).free / 1e6
    if free_MB < need_MB:
        raise Refused(
            f"two checkpoints, {need_MB:,.0f} MB in all, do not fit on the disk of {place} ({free_MB:,.0f} MB free).\n"
            "Make space (lab runs prune), or set paths.checkpoints to a larger disk."
        )


def refuse_lacking(
    project: Project, code: dict[str, Any], frozen: Path, names: Iterable[str]
) -> None:
    """Compares files that a run needs, relative to the project, with the snapshot in `frozen`.

    Raises:
        Refused: the project has some that the snapshot lacks; with the rule that left each out.
    """
    here = [
        name
        for name in sorted(set(names))
        if not NOT_CODE.match(name) and (project.root / name).is_file()
    ]
    lacking = [name for name in here if not (frozen / code["prefix"] / name).exists()]
    if lacking:
        rules = "\n".join(f"  {name}: {ignore_rule(project, code, name)}" for name in lacking)
        raise Refused(f"nothing was sent: the snapshot lacks files that the job needs:\n{rules}")


def ignore_rule(project: Project, code: dict[str, Any], name: str) -> str:
    """Why the snapshot left a file out."""
    for entry in code["skipped"]:
        if entry["path"] == code["prefix"] + name:
            return entry["reason"]
    said = (
        Git(project.root)
        .run("check-ignore", "--verbose", "--no-index", name)
        .stdout.partition("\t")[0]
    )
    if said:
        file, line, pattern = said.split(":", 2)
        return (
            f"ignored by {pattern!r} in {file}:{line}; add !{name} below it, or git add -f {name}"
        )
    return "it lies outside what the snapshot holds"


def main(overrides: list[str]) -> None:
    """The check; its last line is JSON: the error, the number of parameters, and the files and modules it wanted."""
    wanted: set[str] = set()

    def note(event: str, values: tuple) -> None:
        if event == "open" and isinstance(values[0], str):
            wanted.add(values[0])
        elif event == "import":
            module = f"src/{values[0].replace('.', '/')}"
            wanted.update((f"{module}.py", f"{module}/__init__.py"))

    sys.addaudithook(note)
    from ..training.check import check

    error, parameters = None, 0
    try:
        parameters = check(Project.find(), overrides).n_parameters
    except Exception as problem:  # whatever it is: what it wanted may be the reason
        error = (
            str(problem)
            if isinstance(problem, LabError)
            else "".join(traceback.format_exception(problem))
        )
    roots = (os.environ[env.PROJECT] + "/", os.getcwd() + "/")
    names = {name.removeprefix(roots[0]).removeprefix(roots[1]) for name in set(wanted)}
    inside = sorted(name for name in names if not name.startswith(("/", "..")))
    print(json.dumps({"error": error, "parameters": parameters, "wanted": inside}))


if __name__ == "__main__":
    main(sys.argv[1:])
