"""Which runs `lab runs prune` never deletes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .atomic import read_json
from .attempt_files import last_attempt, read_attempts
from .find import BEST
from .index import RUN_ID, recorded_id
from .json_lines import read_lines
from .metrics_file import read_metrics
from .outcome import COUNT_FIRST
from .ranking import lower_is_better, rank_by_metric
from .schema import Row, RunRecord
from .status import JobStateOf, silence_s

JOB_IS_OVER_S = 30 * 86400  # of silence: no scheduler starts a job again after that


@dataclass(frozen=True)
class Protection:
    """What makes a run needed. `rows` are all runs, newest first."""

    rows: list[Row]
    trials: Path  # the trials' directories, whose pages may name runs
    n_best: int  # finished runs of each trial to keep
    metric: str  # what best means
    job_state_of: JobStateOf | None = None
    best_values: dict[str, float | None] = field(default_factory=dict)  # by run directory

    def is_needed(self, row: Row, by_rows: set[str]) -> bool:
        """Whether a run must stay. `by_rows` is what `needed_by_rows` returned."""
        return (
            row["run_dir"] in by_rows
            or finished_once(row)
            or self.has_best_checkpoint(row)
            or self.may_start_again(row)
        )

    def needed_by_rows(self) -> set[str]:
        """The directories of the runs that are needed, as far as rows and pages say."""
        pages = self.trials.glob("*/*.md")
        text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in pages)
        parents = {parent for row in self.rows for parent in self.parents_of(row)}
        parents |= {row["init_from"]["run"] for row in self.rows if row["init_from"]}
        needed = set()
        for row in self.rows:
            is_open = row["status"] in ("queued", "running")
            is_named = row["run_id"] in text or recorded_id(row) in text
            is_parent = bool({row["run_id"], recorded_id(row)} & parents)
            if row["tags"] or is_open or is_named or is_parent or row.get("is_copied"):
                needed.add(row["run_dir"])
        finished = [row for row in self.rows if row["status"] in COUNT_FIRST]
        for trial in {row["trial"] for row in finished}:
            of_trial = [row for row in finished if row["trial"] == trial]
            best = rank_by_metric(of_trial, self.metric)[: self.n_best]
            needed |= {row["run_dir"] for row in best}
        return needed

    def parents_of(self, row: Row) -> set[str]:
        """The ids that the parent of a run may mean; an older lab recorded the word as typed."""
        word = row["parent"]
        if not word or RUN_ID.fullmatch(word):
            return {word} if word else set()
        earlier = self.rows[self.rows.index(row) + 1 :]
        if word == "@last":
            parents = earlier[:1]
        elif word.startswith(BEST):
            finished = [other for other in earlier if other["status"] == "finished"]
            parents = rank_by_metric(finished, word.removeprefix(BEST))[:1]
        else:
            parents = [
                other
                for other in earlier
                if recorded_id(other).startswith(word) or was_tagged(other, word)
            ]
        return {recorded_id(parent) for parent in parents}

    def has_best_checkpoint(self, row: Row) -> bool:
        """Whether the best.ckpt of a run is the best of its trial, however the run ended."""
        best_of_run = self.best_value(row)
        if best_of_run is None:
            return False
        of_trial = [other for other in self.rows if other["trial"] == row["trial"]]
        values = [self.best_value(other) for other in of_trial]
        return best_of_run == max(value for value in values if value is not None)

    def best_value(self, row: Row) -> float | None:
        """See the function; a file is read once."""
        run_dir = row["run_dir"]
        if run_dir not in self.best_values:
            self.best_values[run_dir] = best_value(Path(run_dir), self.metric)
        return self.best_values[run_dir]

    def may_start_again(self, row: Row) -> bool:
        """Whether a run that seems lost has a job that its scheduler may start again."""
        record: RunRecord = read_json(Path(row["run_dir"], "run.json")) or {}
        if row["status"] != "lost" or not record.get("job"):
            return False
        attempt = last_attempt(Path(row["run_dir"]))
        if silence_s(Path(row["run_dir"]), attempt.n if attempt else 0) > JOB_IS_OVER_S:
            return False
        return self.job_state_of is None or self.job_state_of(record) is not None


def finished_once(row: Row) -> bool:
    """Whether a run finished, and a later attempt ended otherwise."""
    if row["status"] == "finished":
        return False
    attempts = read_attempts(Path(row["run_dir"]))
    return any(attempt.end.get("status") == "finished" for attempt in attempts)


def was_tagged(row: Row, word: str) -> bool:
    """Whether a run ever had a tag, which may have been removed since."""
    return any(
        entry.get("tag") == word for entry in read_lines(Path(row["run_dir"], "notes.jsonl"))
    )


def best_value(folder: Path, metric: str) -> float | None:
    """How good the best.ckpt of a run is, more is better; None when it has none.

    Args:
        metric: where the configuration does not say what chose it.
    """
    if not (folder / "checkpoints/best.ckpt").exists():
        return None
    chosen = checkpoint_settings(folder)
    metric = chosen.get("monitor") or metric
    lower = chosen["mode"] == "min" if "mode" in chosen else lower_is_better(metric)
    values = [row[metric] for row in read_metrics(folder) if is_finite(row.get(metric))]
    if not values:
        return None
    return -min(values) if lower else max(values)


def checkpoint_settings(folder: Path) -> dict[str, Any]:
    """What chose best.ckpt, from config.yaml; empty when it cannot be read."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast
    try:
        config = yaml.load((folder / "config.yaml").read_text(encoding="utf-8"), loader)
        return dict(config["checkpoint"])
    except (OSError, ValueError, LookupError, TypeError, yaml.YAMLError):
        return {}


def is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
