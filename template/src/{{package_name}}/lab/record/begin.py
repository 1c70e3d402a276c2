# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Begins the next attempt of a run.

It compares code and environment with the record, and writes start.json.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..errors import LabError, Refused
from ..project import Project
from .attempt import Attempt
from .attempt_files import last_attempt
from .bundle import STORE, link_bundles
from .environment import environment_differences, recorded_variables
from .frozen import check_frozen_directory, freeze_code
from .run import Run
from .schema import Code
from .status import alive


def begin_attempt(run: Run, project: Project, env_policy: str = "warn", **facts: object) -> Attempt:
    """Starts the next attempt of `run`; the caller ends it with `Attempt.end`.

    A training is begun and ended by `recording.record_attempt`, which calls this function.

    Args:
        env_policy: what to do when the environment differs from the record, "warn" or "refuse".
        facts: for start.json, such as the overrides of this attempt.

    Raises:
        LabError: the run is running.
        Refused: the environment differs and the policy is "refuse", or the code cannot be recorded.
    """
    check_frozen_directory()
    differences = []
    if not run.code_now:  # else this process has just recorded its own environment
        differences = environment_differences(run.record["env"], run.packages, project.root)
    report_environment(differences, env_policy)
    previous = last_attempt(run.dir)
    if previous and not previous.end and alive(previous.start):
        raise LabError(
            f"{run.id} is running on this machine already. Wait for it, or stop it with Ctrl-C."
        )
    code = run.code_now or freeze_code(
        project,
        run.runs,
        run.trial,
        allow=run.record["allow"] or False,
        max_file_mb=run.record["max_file_mb"] or 10,
    )
    attempt = Attempt(run.dir, previous.n + 1 if previous else 1)
    attempt.dir.mkdir(parents=True)
    code = record_code(run, attempt, code)
    if previous:
        move_summary(run.dir, previous.n)
    variables = recorded_variables(project.root, run.record["env"].get("env_vars") or ())
    attempt.start(code=code, environment_differences=differences, variables=variables, **facts)
    return attempt


def report_environment(differences: list[str], policy: str) -> None:
    """Prints how the environment differs from the record.

    Raises:
        Refused: it differs, and `policy` is "refuse".
    """
    if not differences:
        return
    if policy == "refuse":
        raise Refused(
            "record.env=refuse, and the environment differs from the record: "
            + "; ".join(differences[:9])
        )
    shown = "; ".join(differences[:3])
    print(f"lab: the environment differs from the record: {shown}", file=sys.stderr)


def record_code(run: Run, attempt: Attempt, code: Code) -> Code:
    """The `code` of start.json.

    Code that differs from the run's gets its bundles in the attempt's directory.
    """
    if code["commit"] == run.record["code"].get("commit"):
        return {"commit": code["commit"], "same": True}
    print(f"lab: the code differs from the recorded one; now {code['commit']}", file=sys.stderr)
    link_bundles(code, run.runs / STORE, attempt.dir)
    return code


def move_summary(run_dir: Path, previous_n: int) -> None:
    """Moves the summary of a run that had ended to its last attempt: the run is running again."""
    summary = run_dir / "summary.json"
    if summary.exists():
        os.replace(summary, run_dir / "attempts" / str(previous_n) / "summary.json")
