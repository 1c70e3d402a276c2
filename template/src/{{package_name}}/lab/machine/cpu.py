# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Processor cores that belong to this job."""

from __future__ import annotations

import os


def cores() -> int:
    """How many cores the affinity mask leaves to this process: a job's share, not the whole node."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # macOS
