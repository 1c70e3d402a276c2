"""Finds runs by the id that their scheduler gave to their job."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from .atomic import read_json

# 1234; of arrays 1234_0, 1234.1 and 1234[0]; without a scheduler 1234-56789
JOB_ID = re.compile(r"(\d+)(?:_\d+|\.\d+|\[\d+\]|-\d+)?")


def runs_of_job(directories: list[Path], word: str) -> list[Path]:
    """The directories of the runs whose job, or one of whose chunks, has the id `word`.

    The number of an array means all its runs. Nothing for a word that is no id of a scheduler.
    """
    if not JOB_ID.fullmatch(word):
        return []
    return [directory for directory in directories if has_job(directory, word)]


def has_job(run_dir: Path, word: str) -> bool:
    """Whether `word` is an id of the run's job, now or before it was sent again."""
    job: dict[str, Any] = (read_json(run_dir / "run.json") or {}).get("job") or {}
    ids = [str(job.get("id", "")), *job.get("chain", []), *job.get("earlier_ids", [])]
    return word in ids or word in map(number_of_array, ids)


def number_of_array(job_id: str) -> str | None:
    """1234 of 1234_0; None for the job of a single run."""
    match = JOB_ID.fullmatch(job_id)
    return match[1] if match and job_id[len(match[1]) :][:1] in ("_", ".", "[") else None
