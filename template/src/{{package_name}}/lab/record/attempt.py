# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""An attempt: one stretch of a run between start and end, preemption or death."""

from __future__ import annotations

import os
import resource
import time
import traceback
from pathlib import Path
from typing import Any

from ..errors import LabError
from ..machine.gpu import energy_j, peak_gpu_bytes
from ..project import LAB
from .atomic import read_json, sha256, write_json
from .attempt_files import n_gpus
from .claim import is_superseded, withdraw_claim
from .environment import recorded_variables
from .metrics_file import last_metrics
from .outcome import needless_weights, set_result_aside
from .process import process_facts
from .schema import EndRecord, RaisedError
from .summary import summarise
from .torch_facts import torch_facts

EXIT_CODES = {"finished": 0, "trained": 1, "failed": 1, "interrupted": 130}
TRACEBACK_CHARACTERS = 10_000  # the end of it that is kept
# Two files that are deleted before the two last files of an attempt are written: so its end is
# recorded also when the disk or the quota is full.
RESERVE = (".reserve-1", ".reserve-2")
RESERVE_BYTES = 1 << 16  # of each


class Attempt:
    """The attempt that this process runs; `prepare_attempt` makes it.

    `n` counts from 1, `dir` is attempts/<n>/. It is claimed, and no part of the record before
    `start`.
    """

    def __init__(self, run_dir: Path, n: int, **facts: object) -> None:
        self.run_dir = run_dir
        self.n = n
        self.dir = run_dir / "attempts" / str(n)
        self.facts: dict[str, Any] = dict(facts)  # what start.json says
        self.secrets: list[str] = []  # values that no record may show, not even in an error
        self.started_unix_s = time.time()
        self.began_s = time.monotonic()  # a clock that nobody sets
        self.energy_at_start_j = energy_j()

    def start(self, **facts: object) -> None:
        """Writes start.json.

        The run counts as running while this process lives and touches the heartbeat.

        Raises:
            LabError: this process was silent for so long that another one has begun an attempt.
            OSError: the disk is full; the run is as it was before.
        """
        if is_superseded(self.run_dir, self.n):
            raise LabError(f"another process has resumed {self.run_dir.name} meanwhile")
        try:
            for name in RESERVE:
                # Random, because some file systems store zeros without room.
                (self.dir / name).write_bytes(os.urandom(RESERVE_BYTES))
            set_result_aside(self.run_dir)
            self.note(
                attempt=self.n,
                started_unix_s=round(self.started_unix_s, 3),
                imported_from=LAB.parent,
                **process_facts(),
                variables=recorded_variables(),
                **facts,
            )
            self.touch_heartbeat()
        except OSError:
            withdraw_claim(self.run_dir, self.n)
            raise

    def note(self, **facts: object) -> None:
        """Adds to start.json what is known only once torch is imported: device, precision, data."""
        self.facts |= torch_facts() | facts
        write_json(self.dir / "start.json", self.facts)
        if self.energy_at_start_j is None:
            self.energy_at_start_j = energy_j()

    def touch_heartbeat(self) -> None:
        """Shows that this attempt lives, and for how long; to be called about every 30 s."""
        file = os.open(self.dir / "heartbeat", os.O_CREAT | os.O_WRONLY, 0o666)
        try:
            # As many bytes as before: on a full disk, too, it needs no room.
            os.pwrite(file, b"%015.1f" % self.seconds(), 0)
        finally:
            os.close(file)

    def seconds(self) -> float:
        """How long this attempt has run."""
        return time.monotonic() - self.began_s

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
            status: finished, failed or interrupted; trained if the fit finished and its test did
                not.
            metrics: final values by name; those not given are the last ones in metrics.jsonl.
            signal: number of the signal that ended it.
            measured: further entries, which also replace those computed here: `exit_code`;
                `gpu_seconds` (wall time times devices); `energy_j` (of this node's devices);
                `peak_memory_bytes`, `peak_gpu_bytes`.
        """
        seconds = self.seconds()
        needless = needless_weights(self.run_dir, status)
        end: EndRecord = {
            "status": status,
            "exit_code": EXIT_CODES[status],
            "signal": signal,
            "exception": describe_exception(exception, self.secrets) if exception else None,
            "ended_unix_s": round(time.time(), 3),
            "seconds": round(seconds, 3),
            "gpu_seconds": round(seconds * n_gpus(self.facts), 3),
            "energy_j": self.energy_used_j(),
            "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "peak_gpu_bytes": peak_gpu_bytes(),
            "metrics": last_metrics(self.run_dir) | (metrics or {}),
            "files": {path.name: sha256(path) for path in self.run_dir.glob("metrics.jsonl")},
            "checkpoints": checkpoint_hashes(self.run_dir / "checkpoints", leave_out=needless),
        }
        end_reserve, summary_reserve = (self.dir / name for name in RESERVE)
        end_reserve.unlink(missing_ok=True)
        write_json(self.dir / "end.json", end | measured)
        if needless:
            needless.unlink()
        record = read_json(self.run_dir / "run.json") or {}
        summary_reserve.unlink(missing_ok=True)
        write_json(self.run_dir / "summary.json", summarise(record, self.run_dir))

    def energy_used_j(self) -> float | None:
        """Joules that the GPUs used since the start; None when they do not report them."""
        now_j = energy_j()
        if now_j is None or self.energy_at_start_j is None:
            return None
        return round(now_j - self.energy_at_start_j, 1)


def write_node(run_dir: Path, n: int, node: int) -> None:
    """Writes another node's host and devices to attempts/<n>/node-<node>.json."""
    write_json(run_dir / "attempts" / str(n) / f"node-{node}.json", process_facts() | torch_facts())


def describe_exception(exception: BaseException, secrets: list[str]) -> RaisedError:
    """An exception as one line and as its traceback, without the secrets."""
    line = traceback.format_exception_only(exception)[-1].strip().partition("\n")[0]
    text = "".join(traceback.format_exception(exception))
    for secret in secrets:
        line = line.replace(secret, "***")
        text = text.replace(secret, "***")
    return {
        "type": type(exception).__name__,
        "line": line,
        "traceback": text[-TRACEBACK_CHARACTERS:],
    }


def checkpoint_hashes(
    checkpoints: Path, leave_out: Path | None = None
) -> dict[str, dict[str, Any]]:
    """Size and sha256 of every checkpoint in a directory but `leave_out`."""
    files = [path for path in sorted(checkpoints.glob("*.ckpt")) if path != leave_out]
    return {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in files}
