"""`lab train -m`: the runs of a list of settings, one after the other on this machine."""

from __future__ import annotations

import argparse
import subprocess
import sys

from ..config.compose import compose
from ..config.overrides import sweep_points
from ..machine.counted import counted
from ..project import Project
from ..record.initial_weights import with_fixed_weights


def train_points(project: Project, options: argparse.Namespace) -> int:
    """Trains each point of the typed lists in a process of its own; stops at the first that fails.

    Returns:
        The exit code of the last process.

    Raises:
        LabError: a mistake in the settings of any point; nothing has been started then.
    """
    points = []
    for point in sweep_points(options.overrides):
        composition = compose(project, point)
        # Now: for a later point, @last would be the run of an earlier one.
        points.append(with_fixed_weights(composition, project, may_come=False).overrides)
    print(
        f"{counted(len(points), 'run')}, one after the other on this machine. "
        f"As one job array: lab submit {' '.join(options.overrides)}"
    )
    code = 0
    for n, point in enumerate(points, start=1):
        print(f"[{n}/{len(points)}] lab train {' '.join(point)}", flush=True)
        code = _train(point, options)
        if code != 0:
            print(f"stopped: run {n} of {len(points)} ended with exit code {code}", file=sys.stderr)
            break
    return code


def _train(point: list[str], options: argparse.Namespace) -> int:
    command = [sys.executable, "-m", "labrig", "train", *point]
    if options.why is not None:
        command += ["--why", options.why]
    if options.parent is not None:
        command += ["--parent", options.parent]
    if options.allow:
        command.append("--allow")
    with subprocess.Popen(command) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue  # the run got the same signal: it saves a checkpoint and ends
