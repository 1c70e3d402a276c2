# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The processor cores this process may use."""

from __future__ import annotations

import os


def cores() -> int:
    """How many cores the affinity mask leaves to this process (a job's share, where os.cpu_count() is the
    whole node)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
