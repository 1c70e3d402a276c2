# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What a listing needs of a run: summary.json."""

from pathlib import Path

from .attempt_files import NONE, read_attempts
from .metrics_file import last_metrics


def summarise(record: dict, run_dir: Path) -> dict:
    """What a listing needs of a run; times and energy are over all attempts, failed ones too."""
    attempts = read_attempts(run_dir)
    first, last = (attempts or [NONE])[0], (attempts or [NONE])[-1]
    code, exception = record.get("code") or {}, last["end"].get("exception")
    taken = ("run_id", "trial", "parent", "created", "who", "why", "seed", "config_sha256")
    return {
        "schema": 1,
        **{key: record.get(key) for key in taken},
        "metrics": last["end"].get("metrics") or last_metrics(run_dir),
        "exception": exception and exception["line"],
        "code": {key: code.get(key) for key in ("commit", "tree", "branch", "dirty", "trial_tree")},
        "device": last["start"].get("device"),
        "started_unix_s": first["start"].get("started_unix_s"),
        "attempt_unix_s": last["start"].get("started_unix_s"),
        "ended_unix_s": last["end"].get("ended_unix_s"),
        **{key: total_of(attempts, key) for key in ("seconds", "gpu_seconds", "energy_j")},
        "n_attempts": len(attempts),
    }


def total_of(attempts: list[dict], key: str) -> float | None:
    """The sum over attempts; None when none measured it. One that never ended counts up to its last heartbeat."""
    values = [
        attempt["end"].get(key) if attempt["end"] else attempt["until_now"].get(key)
        for attempt in attempts
    ]
    known = [value for value in values if value is not None]
    return round(sum(known), 3) if known else None
