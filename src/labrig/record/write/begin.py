"""Begins the next attempt of a run: claims it, freezes the code, and compares both with the record."""

from __future__ import annotations

import sys

from ...errors import Refused
from ...machine.text_formats import and_more
from ...project import Project
from ..files.code_section import library_difference, same_code
from ..files.schema import Code
from ..freeze.bundle import STORE, link_bundles
from ..freeze.environment import (
    VariableChanges,
    environment_differences,
    other_variables,
    recorded_variables,
    variable_changes,
)
from ..freeze.frozen import check_frozen_directory, freeze_code
from ..read.attempt_files import last_attempt
from ..read.run import Run
from .attempt import Attempt
from .claim import claim_attempt, withdraw_claim
from .weights_place import require_own_place


def begin_attempt(run: Run, project: Project, env_policy: str = "warn", **facts: object) -> Attempt:
    """Starts the next attempt of `run`; the caller ends it with `Attempt.end`.

    A training is begun and ended by `recording.record_attempt`.

    Args:
        env_policy: see `prepare_attempt`.
        facts: for start.json, such as the overrides of this attempt.
    """
    attempt = prepare_attempt(run, project, env_policy)
    attempt.start(**facts)
    return attempt


def prepare_attempt(run: Run, project: Project, env_policy: str = "warn") -> Attempt:
    """The next attempt of `run`, claimed for this process, with its code frozen.

    `Attempt.start` makes it a part of the record, `withdraw_attempt` forgets it.

    Args:
        env_policy: what to do when the environment differs from the record, "warn" or "refuse".
    """
    check_frozen_directory()
    require_own_place(run.dir)
    differences = []
    if not run.code_now:  # else this process has just recorded its own environment
        differences = environment_differences(run.record["env"], run.packages, project.root)
    env_vars = run.record["env"].get("env_vars") or ()
    before = last_attempt(run.dir)
    changes = variable_changes(before.start if before else {}, project.root, env_vars)
    known = [f"variable {name}: {change}" for name, change in changes.numbers.items()]
    report_environment(differences + known, env_policy)
    report_other_variables(changes)
    attempt = Attempt(
        run.dir,
        claim_attempt(run.dir),
        environment_differences=differences + changes.lines,
        variables_changed=[*changes.numbers, *changes.others],
    )
    try:
        code = run.code_now or freeze_code(
            project,
            run.runs,
            run.trial,
            allow=run.record["allow"] or False,
            max_file_mb=run.record["max_file_mb"] or 10,
        )
        attempt.facts["code"] = record_code(run, attempt, code)
        recorded = recorded_variables(project.root, env_vars)
        attempt.facts["variables"] = recorded
        attempt.facts["other_variables"] = other_variables(project.root, recorded)
    except BaseException:
        withdraw_attempt(attempt)
        raise
    return attempt


def withdraw_attempt(attempt: Attempt) -> None:
    """Forgets an attempt that has not started: its run is as it was before."""
    withdraw_claim(attempt.run_dir, attempt.n)


def report_environment(differences: list[str], policy: str) -> None:
    """Prints how the environment differs from the record."""
    if not differences:
        return
    if policy == "refuse":
        raise Refused(
            "record.env=refuse, and the environment differs from the record: "
            + and_more(differences, 9, between="; ")
            + ".\nInstall what was recorded, or keep this environment: record.env=warn"
        )
    shown = and_more(differences, 3, between="; ")
    print(f"lab: the environment differs from the record: {shown}", file=sys.stderr)


def report_other_variables(changes: VariableChanges) -> None:
    """Names the variables that differ from the attempt before, and whose meaning is not known."""
    if changes.others:
        shown = ", ".join(changes.others)
        print(f"lab: variables that differ from the attempt before: {shown}", file=sys.stderr)


def record_code(run: Run, attempt: Attempt, code: Code) -> Code:
    """The `code` of start.json.

    Code that differs from the run's gets its bundles in the attempt's directory.
    """
    if same_code(code, run.record["code"]):
        same: Code = {"same": True}
        return same | {"commit": code["commit"]} if "commit" in code else same
    now = f"now {code.get('commit', 'not recorded')}"
    difference = library_difference(run.record["code"], code) or now
    print(f"lab: the code differs from the recorded one; {difference}", file=sys.stderr)
    link_bundles(code, run.runs / STORE, attempt.dir)
    return code
