"""`lab runs diff`: what differs between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ... import env
from ...machine.caches import CACHES
from ...machine.text_formats import printable
from ...project import Project
from ..files.code_section import library_difference
from ..freeze.git import Git
from ..freeze.packages import other_packages
from ..read.find import find_run, run_parser
from ..read.rows import read_row
from ..read.run import Run, run_roots
from ..read.settings import list_differences

# Entries of the recorded environment that are no cause of a difference.
NOT_COMPARED = ("n_packages", "executable")
LAB_VARIABLES = "LAB_"  # the beginning of their names; env.py lists them
OF_TORCH = "PYTORCH_NVML_BASED_CUDA_CHECK"  # Lightning sets it
# What start.json adds to the environment.
OF_START = (
    *("host", "device", "devices", "precision", "threads", "instructions", "flags"),
    *("world_size", "driver", "cudnn", "determinism"),
)


def diff_command(project: Project, args: list[str]) -> int:
    parser = run_parser(
        "diff", "What differs between two runs, and only that. Exit code 1 when they differ."
    )
    parser.add_argument("other", help="a second run")
    options = parser.parse_args(args)
    a = find_run(run_roots(project), options.run)
    b = find_run(run_roots(project), options.other)
    print(printable(f"{a.id} ({a.trial}) -> {b.id} ({b.trial})"))
    row_a, row_b = (read_row(str(run.dir)) for run in (a, b))
    differences = {
        "code": code_differences(a, b, project.root),
        "configuration": list_differences(a.config, b.config),
        "parsed": list_differences(row_a["parsed"], row_b["parsed"]),
        "environment": list_differences(environment_of(a), environment_of(b)),
        "data": list_differences(a.data, b.data),
        "metrics": list_differences(row_a["metrics"], row_b["metrics"]),
    }
    for section, lines in differences.items():
        if lines:
            print("\n".join([section, *(f"  {printable(line)}" for line in lines)]))
    if any(differences.values()):
        return 1
    print("no difference")
    return 0


def environment_of(run: Run) -> dict[str, Any]:
    """The environment of a run, with versions by package and the devices of the last attempt."""
    environment: dict[str, Any] = {**run.record["env"]}
    recorded = {key: value for key, value in environment.items() if key not in NOT_COMPARED}
    if "variables" in recorded:
        recorded["variables"] = users_variables(recorded["variables"])
    start = run.last_start
    of_attempt = {key: start.get(key) for key in OF_START}
    return recorded | {"package": other_packages(run.packages)} | of_attempt


def users_variables(variables: dict[str, str]) -> dict[str, str]:
    """The variables that neither `lab` nor the scheduler has set for this one run."""
    set_for_the_run = (*env.JOB_IDS, "SLURM_JOBID", *CACHES, OF_TORCH)
    if env.FROZEN in variables:
        set_for_the_run = (*set_for_the_run, "PYTHONPATH")
    return {
        name: value
        for name, value in variables.items()
        if name not in set_for_the_run
        and (name == env.SITE_PATH or not name.startswith(LAB_VARIABLES))
    }


def code_differences(a: Run, b: Run, root: Path) -> list[str]:
    """The library that differs, and the files, when the repository has both commits."""
    before = a.record["code"].get("commit")
    after = b.record["code"].get("commit")
    library = library_difference(a.record["code"], b.record["code"])
    lines = [library] if library else []
    if before == after:
        return lines
    done = Git(root).run(
        "diff", "--stat=100", "--no-ext-diff", "--end-of-options", f"{before}", f"{after}", "--"
    )
    if done.returncode:
        advice = "not both in this repository; see: lab runs code RUN DIRECTORY"
        return [*lines, f"{before} -> {after} ({advice})"]
    files = [line.strip() for line in done.stdout.splitlines()]
    return [*lines, *files, f"git diff {str(before)[:12]} {str(after)[:12]}"]
