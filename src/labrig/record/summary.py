"""What a listing needs of a run: summary.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .attempt_files import AttemptFiles, read_attempts
from .changes import list_changes
from .metrics_file import last_metrics
from .outcome import deciding_attempt, status_at_end
from .schema import RunRecord, Summary
from .settings import recorded_settings

OF_RECORD = (
    "run_id",
    "trial",
    "parent",
    "order_unix_ms",
    "created",
    "who",
    "why",
    "seed",
    "config_sha256",
)
OF_WEIGHTS = ("source", "run", "checkpoint", "sha256")
OF_CODE = ("commit", "tree", "branch", "dirty", "package_tree", "trial_tree")


def summarise(record: RunRecord, run_dir: Path) -> Summary:
    """The summary of a run on which nobody works.

    Times and energy are over all attempts, failed ones too.
    """
    attempts = read_attempts(run_dir)
    first_start = attempts[0].start if attempts else {}
    last_start = attempts[-1].start if attempts else {}
    last_end = attempts[-1].end if attempts else {}
    deciding = deciding_attempt(attempts)
    deciding_end = deciding.end if deciding else {}
    exception = deciding_end.get("exception")
    code = record.get("code") or {}
    summary: Any = {
        "schema": 1,
        **{key: record.get(key) for key in OF_RECORD},
        "status": status_at_end(attempts),
        "attempt_status": last_end.get("status"),
        "metrics": deciding_end.get("metrics") or last_metrics(run_dir),
        "exception": exception["line"] if exception else None,
        "code": {key: code.get(key) for key in OF_CODE},
        "device": last_start.get("device"),
        "started_unix_s": first_start.get("started_unix_s"),
        "attempt_unix_s": last_start.get("started_unix_s"),
        "ended_unix_s": last_end.get("ended_unix_s"),
        "seconds": total_of(attempts, "seconds"),
        "gpu_seconds": total_of(attempts, "gpu_seconds"),
        "energy_j": total_of(attempts, "energy_j"),
        "n_attempts": len(attempts),
        "waited": waited_in_queue(record, attempts),
        "init_from": origin_of_weights(record, attempts),
        "changes": list_changes(record, attempts),
        "settings": recorded_settings(record, run_dir, attempts),
    }
    return summary


def waited_in_queue(record: RunRecord, attempts: list[AttemptFiles]) -> dict[str, Any] | None:
    """How long the job of a run waited until it first began, and where.

    None when it has not begun, or an older lab sent it. The clocks of two machines are compared, so
    it is never less than 0.
    """
    job = record.get("job") or {}
    began = attempts[0].start.get("job", {}) if attempts else {}
    if "submitted_unix_s" not in job or "started_unix_s" not in began:
        return None
    seconds = max(0.0, began["started_unix_s"] - job["submitted_unix_s"])
    return {"site": job["site"], "queue": job.get("queue") or "", "seconds": round(seconds)}


def origin_of_weights(record: RunRecord, attempts: list[AttemptFiles]) -> dict[str, Any] | None:
    """The weights that a run started from, in short; None when they were random."""
    loaded = [attempt.start["init_from"] for attempt in attempts if "init_from" in attempt.start]
    weights = loaded[-1] if loaded else record.get("init_from")
    return {key: weights.get(key) for key in OF_WEIGHTS} if weights else None


def total_of(attempts: list[AttemptFiles], key: str) -> float | None:
    """The sum of `key` over attempts; None when none measured it.

    An attempt that never ended counts up to its last heartbeat.
    """
    measured = [attempt.end or attempt.until_now for attempt in attempts]
    values = [figures[key] for figures in measured if figures.get(key) is not None]
    return round(sum(values), 3) if values else None
