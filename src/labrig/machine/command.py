"""Runs a program of this machine that may be missing, and reads what it prints."""

from __future__ import annotations

import subprocess
from pathlib import Path


def output_of(
    *command: str | Path, timeout_s: float | None = None, failed_too: bool = False
) -> str | None:
    """What a program prints; None when it is not installed, fails, or takes too long.

    Args:
        failed_too: take what it prints also when its exit code is not 0.
    """
    try:
        done = subprocess.run(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if failed_too or done.returncode == 0 else None
