"""Runs `lab bench` in a process of its own, so that one bench does not change the next."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TextIO

from ..errors import Failed
from ..project import Project
from .result import BenchResult

OUT_OF_MEMORY = "out of memory"  # begins the message of a bench that did not fit


class OutOfMemory(Failed):
    """A bench does not fit into the memory of its device."""


@dataclass(frozen=True)
class BenchRunner:
    """Makes benches of `n_steps` steps, and prints a line about each to `progress`."""

    project: Project
    n_steps: int
    progress: TextIO

    def run(
        self, name: str, overrides: list[str], environment: dict[str, str] | None = None
    ) -> BenchResult:
        """One bench.

        Args:
            name: begins the line about it.
            overrides: its settings.
            environment: further variables of its process.

        Raises:
            OutOfMemory: it did not fit.
            Failed: anything else went wrong, with its message.
        """
        command = [sys.executable, "-m", "labrig", "bench"]
        command += [*overrides, f"--steps={self.n_steps}", "--json"]
        done = subprocess.run(
            command,
            cwd=self.project.root,
            env=os.environ | (environment or {}),
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            message = done.stderr.strip().rpartition("lab: ")[2]
            if message.startswith(OUT_OF_MEMORY):
                raise OutOfMemory(f"{name}: {message}")
            raise Failed(f"{name}: {message}")
        bench = BenchResult.from_json(json.loads(done.stdout.splitlines()[-1]))
        print(format_progress(name, bench), file=self.progress, flush=True)
        return bench


def format_progress(name: str, bench: BenchResult) -> str:
    measured = bench.measured
    line = f"{name:>12}{measured.samples_per_s:>12,.0f} samples/s"
    line += f"{1000 * measured.step_s.median:>10.2f} ms per step"
    line += f"{measured.shares['load']:>6.0%} load"
    if measured.memory_bytes.peak:
        line += f"{measured.memory_bytes.peak / 1e6:>9,.0f} MB"
    return line
