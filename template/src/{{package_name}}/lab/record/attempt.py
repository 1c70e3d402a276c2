# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""An attempt: one stretch of a run between start and end, preemption or death."""

import resource
import time
import traceback
from pathlib import Path

from ..machine.gpu import energy_j, peak_gpu_bytes
from ..project import LAB
from .atomic import read_json, sha256, write_json
from .attempt_files import n_gpus
from .environment import torch_facts, variables
from .metrics_file import last_metrics
from .process import process_facts
from .summary import summarise

EXIT_CODES = {"finished": 0, "failed": 1, "interrupted": 130}


class Attempt:
    """Made by `Run.begin`; `n` counts from 1, `dir` is attempts/<n>/."""

    def __init__(self, run_dir: Path, n: int) -> None:
        self.run_dir, self.n, self.dir = run_dir, n, run_dir / "attempts" / str(n)
        self.facts: dict = {}
        self.secrets: list[
            str
        ] = []  # values that no record may show, not even in the text of an error

    def start(self, **facts: object) -> "Attempt":
        """Writes start.json; from now on the run counts as running while this process lives and beats."""
        self.started_unix_s, self.energy_j = time.time(), energy_j()
        started = {
            "attempt": self.n,
            "started_unix_s": round(self.started_unix_s, 3),
            "imported_from": LAB.parent,
        }
        self.note(**started, **process_facts(), variables=variables(), **facts)
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
        used_j = (
            None
            if None in (energy_now_j, self.energy_j)
            else round(energy_now_j - self.energy_j, 1)
        )
        end = {
            "status": status,
            "exit_code": EXIT_CODES[status],
            "signal": signal,
            "exception": exception and described(exception, self.secrets),
            "ended_unix_s": round(now, 3),
            "seconds": round(seconds, 3),
            "gpu_seconds": round(seconds * n_gpus(self.facts), 3),
            "energy_j": used_j,
            "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "peak_gpu_bytes": peak_gpu_bytes(),
            "metrics": last_metrics(self.run_dir) | (metrics or {}),
            "files": {path.name: sha256(path) for path in self.run_dir.glob("metrics.jsonl")},
            "checkpoints": checkpoint_hashes((self.run_dir / "checkpoints").resolve()),
        }
        write_json(self.dir / "end.json", end | measured)
        record = read_json(self.run_dir / "run.json") or {}
        write_json(
            self.run_dir / "summary.json", summarise(record, self.run_dir) | {"status": status}
        )


def write_node(run_dir: Path, n: int, node: int) -> None:
    """Another node's part of attempt `n`: its host and devices, as attempts/<n>/node-<node>.json."""
    write_json(run_dir / "attempts" / str(n) / f"node-{node}.json", process_facts() | torch_facts())


def described(exception: BaseException, secrets: list[str]) -> dict[str, str]:
    """An exception as one line and as its whole traceback, without the secrets."""
    line = traceback.format_exception_only(exception)[-1].strip().partition("\n")[0]
    text = "".join(traceback.format_exception(exception))
    for secret in secrets:
        line, text = line.replace(secret, "***"), text.replace(secret, "***")
    return {"type": type(exception).__name__, "line": line, "traceback": text[-10_000:]}


def checkpoint_hashes(checkpoints: Path) -> dict[str, dict]:
    """Size and sha256 of every checkpoint that is there."""
    files = sorted(checkpoints.glob("*.ckpt"))
    return {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in files}
