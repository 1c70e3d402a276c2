# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""An attempt: one stretch of a run between start and end, preemption or death; and what became of the run, worked out
from what its processes left behind."""

import os
import resource
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from ..project import LAB
from .environment import energy_j, peak_gpu_bytes, pid_space, pid_started, process, torch_facts, variables
from .files import read_json, sha256, write_json
from .metrics import last_metrics

EXIT_CODES = {"finished": 0, "failed": 1, "interrupted": 130}


class Attempt:
    """Made by `Run.begin`; `n` counts from 1, `dir` is attempts/<n>/."""

    def __init__(self, run_dir: Path, n: int) -> None:
        self.run_dir, self.n, self.dir = run_dir, n, run_dir / "attempts" / str(n)
        self.facts: dict = {}
        self.secrets: list[str] = []  # values that no record may show, not even in the text of an error

    def start(self, **facts: object) -> "Attempt":
        """Writes start.json; from now on the run counts as running while this process lives and beats."""
        self.started_unix_s, self.energy_j = time.time(), energy_j()
        started = {"attempt": self.n, "started_unix_s": round(self.started_unix_s, 3), "imported_from": LAB.parent}
        self.note(**started, **process(), variables=variables(), **facts)
        self.beat()
        return self

    def note(self, **facts: object) -> None:
        """Adds to start.json what is known only once torch is imported: device, precision, data."""
        self.facts |= torch_facts() | facts
        write_json(self.dir / "start.json", self.facts)
        if self.energy_j is None:
            self.energy_j = energy_j()

    def beat(self) -> None:
        """Says that this attempt lives; call it about every 30 s."""
        (self.dir / "heartbeat").touch()

    def end(
        self,
        status: str,
        metrics: dict[str, float] | None = None,
        exception: BaseException | None = None,
        signal: int | None = None,
        **measured: object,
    ) -> None:
        """Writes end.json and then summary.json, from which alone an ended run is listed.

        Args:
            status: finished, failed or interrupted.
            metrics: final values by name; those not given are the last ones in metrics.jsonl.
            signal: number of the signal that ended it.
            measured: further figures, which also replace the ones worked out here: `exit_code`; `gpu_seconds` (wall
                time times devices); `energy_j` (of this node's devices); `peak_memory_bytes`, `peak_gpu_bytes`.
        """
        now = time.time()
        seconds, energy_now_j = now - self.started_unix_s, energy_j()
        n_gpus = self.facts.get("world_size", 1) if self.facts.get("accelerator") in ("gpu", "cuda") else 0
        used_j = None if None in (energy_now_j, self.energy_j) else round(energy_now_j - self.energy_j, 1)
        end = {
            "status": status,
            "exit_code": EXIT_CODES[status],
            "signal": signal,
            "exception": exception and described(exception, self.secrets),
            "ended_unix_s": round(now, 3),
            "seconds": round(seconds, 3),
            "gpu_seconds": round(seconds * n_gpus, 3),
            "energy_j": used_j,
            "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "peak_gpu_bytes": peak_gpu_bytes(),
            "metrics": last_metrics(self.run_dir) | (metrics or {}),
            "files": {path.name: sha256(path) for path in self.run_dir.glob("metrics.jsonl")},
            "checkpoints": hashes((self.run_dir / "checkpoints").resolve()),
        }
        write_json(self.dir / "end.json", end | measured)
        record = read_json(self.run_dir / "run.json") or {}
        write_json(self.run_dir / "summary.json", summarise(record, self.run_dir) | {"status": status})


def write_node(run_dir: Path, n: int, node: int) -> None:
    """Another node's part of attempt `n`: its host and devices, as attempts/<n>/node-<node>.json."""
    write_json(run_dir / "attempts" / str(n) / f"node-{node}.json", process() | torch_facts())


def summarise(record: dict, run_dir: Path) -> dict:
    """What a listing needs of a run; times and energy are over all attempts, failed ones too."""
    attempts = read_attempts(run_dir)
    first, last = (attempts[0], attempts[-1]) if attempts else ({"start": {}}, {"start": {}, "end": {}})
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
        **{key: total(attempts, key) for key in ("seconds", "gpu_seconds", "energy_j")},
        "n_attempts": len(attempts),
    }


def total(attempts: list[dict], key: str) -> float | None:
    """The sum over attempts; None when none measured it. One that never ended counts up to its last heartbeat."""
    values = [attempt["end"].get(key) if attempt["end"] else attempt["until_now"].get(key) for attempt in attempts]
    known = [value for value in values if value is not None]
    return round(sum(known), 3) if known else None


def read_attempts(run_dir: Path) -> list[dict]:
    """`{n, start, end, nodes, until_now}` of every attempt in order; what is missing is an empty dict."""
    found = []
    for n in attempt_numbers(run_dir):
        folder = run_dir / "attempts" / str(n)
        start, end = (read_json(folder / f"{name}.json") or {} for name in ("start", "end"))
        nodes = [read_json(path) for path in sorted(folder.glob("node-*.json"))]
        found.append({"n": n, "start": start, "end": end, "nodes": nodes, "until_now": {}})
        if start and not end and (folder / "heartbeat").exists():
            seconds = max(0.0, (folder / "heartbeat").stat().st_mtime - start["started_unix_s"])
            n_gpus = start.get("world_size", 1) if start.get("accelerator") in ("gpu", "cuda") else 0
            found[-1]["until_now"] = {"seconds": seconds, "gpu_seconds": seconds * n_gpus}
    return found


def attempt_numbers(run_dir: Path) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(run_dir / "attempts") if name.isdigit())
    except FileNotFoundError:
        return []


def described(exception: BaseException, secrets: list[str]) -> dict[str, str]:
    """An exception as one line and as its whole traceback, without the secrets."""
    line = traceback.format_exception_only(exception)[-1].strip().partition("\n")[0]
    text = "".join(traceback.format_exception(exception))
    for secret in secrets:
        line, text = line.replace(secret, "***"), text.replace(secret, "***")
    return {"type": type(exception).__name__, "line": line, "traceback": text[-10_000:]}


def hashes(checkpoints: Path) -> dict[str, dict]:
    """Size and sha256 of every checkpoint that is there."""
    files = sorted(checkpoints.glob("*.ckpt"))
    return {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in files}


STATES = ("queued", "running", "finished", "failed", "interrupted", "lost")
SILENT_S = 600  # without a heartbeat for so long, a process on another machine counts as dead

Scheduler = Callable[
    [dict], str | None
]  # a run's record -> its job is "queued", "running", "unknown"; None: it is over


def status(run_dir: Path, scheduler: Scheduler | None = None, record: dict | None = None) -> str:
    """One of STATES. `scheduler` answers for runs that have a job; without it their heartbeat counts alone."""
    summary = read_json(run_dir / "summary.json")
    preempted = summary and summary["status"] == "interrupted" and (run_dir / "requeue").exists()  # may be queued again
    if summary is not None and not preempted:
        return summary["status"]
    record = record or read_json(run_dir / "run.json") or {}
    job = record.get("job")
    says = scheduler(record) if scheduler and job else "unknown"
    scheduler = None if says == "unknown" else scheduler
    numbers = attempt_numbers(run_dir)
    folder = run_dir / "attempts" / str(numbers[-1]) if numbers else None
    end = read_json(folder / "end.json") if folder else None
    if scheduler and says:
        return says
    if preempted and job and not scheduler:
        return "queued"
    if end is not None:  # killed between end.json and summary.json
        return end["status"]
    start = read_json(folder / "start.json") if folder else None
    if start is None:
        if job:
            return "lost" if scheduler else "queued"
        return "running" if alive(record.get("process") or {}) else "lost"
    if job and scheduler:
        return "lost"  # the scheduler no longer knows it, and it never said how it ended
    living = alive(start)
    return "running" if living or (living is None and silence_s(folder) < SILENT_S) else "lost"


def alive(process: dict) -> bool | None:
    """Whether the process runs; None when its pid means nothing here (another machine, container or boot)."""
    if process.get("pid_space") != pid_space():
        return None
    return pid_started(process["pid"]) == process.get("pid_started")


def silence_s(folder: Path) -> float:
    """Seconds since the last heartbeat of the attempt in `folder`."""
    for name in ("heartbeat", "start.json"):
        try:
            return time.time() - os.stat(folder / name).st_mtime
        except FileNotFoundError:
            continue
    return float("inf")
