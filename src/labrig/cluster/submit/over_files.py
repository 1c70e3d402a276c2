"""`lab submit --each`: an array of jobs that runs a command for each of many files."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import LabError
from ...machine.counted import counted
from ...project import Project
from ...record.read.each import PLACE, InputFile, Inputs, progress_of
from ...record.read.roots import run_roots
from ..watch.job_states import job_state_of
from .after import split_after
from .plan import Plan, plan_of, points_of, with_after


@dataclass(frozen=True)
class OverFiles:
    """Which files a command runs for.

    Args:
        patterns: as the shell's, ** for any depth; relative to the current directory.
        per_task: files of one task of the array.
    """

    patterns: list[str]
    per_task: int = 1


def plan_over_files(
    project: Project, overrides: list[str], command: list[str] | None, over_files: OverFiles
) -> Plan | None:
    """The plan of an array over the files that the command has not run for yet.

    Returns:
        None when no file is left.
    """
    overrides, after = split_after(overrides)
    check_words(overrides, command, over_files)
    assert command is not None  # which was just looked at
    points = points_of(project, overrides, command)
    if len(points) > 1:
        raise LabError(
            "--each takes one value of each setting. Call it once for each of the others."
        )
    files = find_files(over_files.patterns)
    waiting = files_to_submit(run_roots(project), command, files)
    batches = [
        waiting[start : start + over_files.per_task]
        for start in range(0, len(waiting), over_files.per_task)
    ]
    if not batches:
        return None
    plan = plan_of(project, points * len(batches), command)
    if plan.request.n_tasks > 1:
        raise LabError(
            "--each runs one process in each task. Leave out job.nodes and job.tasks_per_node; "
            "job.throttle says how many tasks may run at once."
        )
    plan = with_after(plan, after)
    return replace(plan, inputs=[Inputs(command, batch) for batch in batches])


def check_words(overrides: list[str], command: list[str] | None, over_files: OverFiles) -> None:
    """Looks at what was typed."""
    example = "lab submit --each 'raw/*.wav' job.gpus=0 -- python convert.py {}"
    if command is None:
        raise LabError(f"--each needs a command after --. For example: {example}")
    if not any(PLACE in word for word in command):
        raise LabError(
            f"the command has no {PLACE}, where the path of a file goes. For example: {example}"
        )
    if over_files.per_task < 1:
        raise LabError(f"--per-task is {over_files.per_task}, expected at least 1")
    files = [word for word in overrides if "=" not in word]
    if files:
        raise LabError(
            f"{files[0]!r} is not a setting. The shell has replaced the pattern of --each by the "
            f"names of the files. Put it in quotes: {example}"
        )


def find_files(patterns: list[str]) -> list[InputFile]:
    """The files that match, each once, sorted by their absolute paths."""
    paths: set[str] = set()
    for pattern in patterns:
        # A name may hold the signs of a pattern.
        matches = [pattern] if os.path.isfile(pattern) else glob.glob(pattern, recursive=True)
        files = {os.path.abspath(path) for path in matches if os.path.isfile(path)}
        if not files:
            raise LabError(
                f"--each {pattern!r} matches no file in {Path.cwd()}. To look: ls {pattern}"
            )
        paths |= files
    return [InputFile.of(path) for path in sorted(paths)]


def files_to_submit(
    roots: Sequence[Path], command: list[str], files: list[InputFile]
) -> list[InputFile]:
    """The files that the command has not run for, and that no job has yet; says how many have.

    A file that was changed since counts as another one.
    """
    progress = progress_of(roots, command, job_state_of())
    waiting = [file for file in files if file not in progress.done | progress.pending]
    n_done = len(progress.done & set(files))
    n_pending = len(progress.pending & set(files) - progress.done)
    if n_done or n_pending:
        rest = f"submitting the other {len(waiting)}" if waiting else "nothing to submit"
        print(
            f"lab: {n_done} of {counted(len(files), 'file')} done, "
            f"{n_pending} queued or running; {rest}",
            file=sys.stderr,
        )
    return waiting
