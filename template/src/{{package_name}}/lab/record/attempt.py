# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""An attempt: one stretch of a run between start and end, preemption or death."""

from __future__ import annotations

import os
import resource
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .environment import process, variables
from .files import read_json, sha256, write_json
from .metrics import last_metrics

if TYPE_CHECKING:
    from .run import Run

ENDS = ("finished", "failed", "interrupted")


class Attempt:
    """Made by `Run.begin`; `n` counts from 1, `dir` is attempts/<n>/."""

    def __init__(self, run: Run, n: int) -> None:
        self.run, self.n, self.dir = run, n, run.dir / "attempts" / str(n)

    def start(self, **facts: Any) -> Attempt:
        """Writes start.json; from now on the run counts as running while this process lives and beats."""
        self.started_unix_s = time.time()
        start = {
            "attempt": self.n,
            "started_unix_s": round(self.started_unix_s, 3),
            **process(),
            "variables": variables(),
        }
        self.facts = start | torch_facts() | facts
        write_json(self.dir / "start.json", self.facts)
        self.beat()
        return self

    def note(self, **facts: Any) -> None:
        """Adds facts that are known only later, such as device, world_size or the data's fingerprint, to
        start.json."""
        self.facts = self.facts | torch_facts() | facts
        write_json(self.dir / "start.json", self.facts)

    def note(self, **facts: Any) -> None:
        """Adds to start.json what is known only once torch is imported: device, precision, data."""
        self.facts |= torch_facts() | facts
        write_json(self.dir / "start.json", self.facts)

    def beat(self) -> None:
        """Says that this attempt lives; call it about every 30 s."""
        heartbeat = self.dir / "heartbeat"
        heartbeat.touch()

    def end(
        self,
        status: str,
        metrics: dict[str, float] | None = None,
        exception: BaseException | None = None,
        signal: int | None = None,
        **measured: Any,
    ) -> None:
        """Writes end.json and then summary.json, from which alone an ended run is listed.

        Args:
            status: finished, failed or interrupted.
            metrics: final values by name; those not given are the last ones in metrics.jsonl.
            signal: number of the signal that ended it.
            measured: further figures such as `energy_j`, `peak_gpu_bytes`, `exit_code`; `gpu_seconds` is
            worked out from
                `n_gpus` of the start when it is not given.
        """
        assert status in ENDS, status
        now = time.time()
        seconds = now - self.started_unix_s
        end = {
            "status": status,
            "ended_unix_s": round(now, 3),
            "seconds": round(seconds, 3),
            "exit_code": {"finished": 0, "failed": 1, "interrupted": 130}[status],
            "signal": signal,
            "exception": exception and described(exception),
            "metrics": last_metrics(self.run.dir) | (metrics or {}),
            "gpu_seconds": round(seconds * self.facts.get("n_gpus", 0), 3),
            "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "checkpoints": checkpoints(self.run.checkpoints),
        }
        write_json(self.dir / "end.json", end | measured)
        write_json(self.run.dir / "summary.json", summarise(self.run.record, self.run.dir))


def summarise(record: dict[str, Any], run_dir: Path) -> dict[str, Any]:
    """What a listing needs of an ended run; totals are over all attempts, failed ones too."""
    attempts = read_attempts(run_dir)
    ends = [attempt["end"] for attempt in attempts]
    last = ends[-1]
    code = record.get("code") or {}
    taken = ("run_id", "trial", "parent", "created", "who", "why", "seed", "config_sha256")
    return {
        "schema": 1,
        **{key: record.get(key) for key in taken},
        "status": last["status"],
        "metrics": last["metrics"],
        "exception": last["exception"] and last["exception"]["line"],
        "code": {key: code.get(key) for key in ("commit", "tree", "branch", "dirty", "trial_tree")},
        "device": attempts[-1]["start"].get("device"),
        "started_unix_s": attempts[0]["start"].get("started_unix_s"),
        "ended_unix_s": last["ended_unix_s"],
        "seconds": total(ends, "seconds"),
        "gpu_seconds": total(ends, "gpu_seconds"),
        "energy_j": total(ends, "energy_j"),
        "n_attempts": len(attempts),
    }


def total(ends: list[dict[str, Any]], key: str) -> float | None:
    """The sum over attempts; None when none measured it."""
    values = [end[key] for end in ends if end.get(key) is not None]
    return round(sum(values), 3) if values else None


def read_attempts(run_dir: Path) -> list[dict[str, Any]]:
    """`{"n", "start", "end", "nodes"}` of every attempt in order; a part that is missing is an empty dict."""
    found = []
    for n in attempt_numbers(run_dir):
        folder = Path(run_dir) / "attempts" / str(n)
        nodes = [read_json(path) for path in sorted(folder.glob("node-*.json"))]
        start, end = (read_json(folder / f"{name}.json") or {} for name in ("start", "end"))
        found.append({"n": n, "start": start, "end": end, "nodes": nodes})
    return found


def attempt_numbers(run_dir: Path) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(Path(run_dir) / "attempts") if name.isdigit())
    except FileNotFoundError:
        return []


def described(exception: BaseException) -> dict[str, str]:
    """An exception as one line and as its whole traceback."""
    line = "".join(traceback.format_exception_only(exception)).strip().splitlines()
    text = "".join(traceback.format_exception(exception))
    return {"type": type(exception).__name__, "line": line[0] if line else "", "traceback": text[-10_000:]}


def checkpoints(directory: Path) -> dict[str, dict[str, Any]]:
    """Size and sha256 of every checkpoint that is there."""
    files = sorted(directory.glob("*.ckpt")) if directory.is_dir() else []
    return {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in files}


def torch_facts() -> dict[str, Any]:
    """Versions, flags and devices of torch in this process; nothing when it has not been imported (it never
    is, here)."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version() if torch.version.cuda else None,
        "threads": torch.get_num_threads(),
        "determinism": {
            "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "cudnn_deterministic": torch.backends.cudnn.deterministic,
            "float32_matmul_precision": torch.get_float32_matmul_precision(),
        },
    }
