"""Commands that must succeed, and the CPU seconds they take; for the other benchmarks."""

import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def run(command: Sequence[str | Path], folder: Path, **variables: str) -> str:
    """What a command printed in `folder`. It ends the benchmark when it fails.

    PYTHONPATH and the like are those of `variables` only: they are not the same for everybody.
    """
    usual = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=folder, env=usual | variables, capture_output=True, text=True, timeout=1800
    )
    if done.returncode:
        sys.exit(f"{command} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def cpu_s(command: Sequence[str | Path], folder: Path, **variables: str) -> tuple[float, str]:
    """User + system seconds of a command and its children, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    printed = run(command, folder, **variables)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, printed


def say(what: str, seconds: list[float], more: str = "") -> None:
    """Prints the median as a line."""
    print(f"{what:<60}{statistics.median(seconds):8.3f} s   {more}", flush=True)


def median_difference(a: list[float], b: list[float]) -> float:
    """Median over the rounds of a - b."""
    return statistics.median(x - y for x, y in zip(a, b, strict=True))
