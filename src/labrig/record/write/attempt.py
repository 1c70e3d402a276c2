"""An attempt: one stretch of a run between start and end, preemption or death.

Nodes but the first write what they have, and the first one compares. Each checkpoint notes the hash of
the metrics so far, so that an edit while the run lies dead is seen later.
"""

from __future__ import annotations

import hashlib
import math
import os
import platform
import resource
import sys
import time
import traceback
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...errors import LabError
from ...failure import message_of, place_of
from ...machine.gpu import energy_j, nvidia_driver, peak_gpu_bytes
from ...machine.secrets import hide_tokens
from ...project import this_project
from ..files.atomic import open_file, read_advisory, write_file
from ..files.checkpoint_files import n_bytes_of, remove
from ..files.checkpoint_hashes import checkpoint_hashes
from ..files.manifest import list_files, list_gone, write_listed
from ..files.metrics_file import last_metrics
from ..files.process import job_facts, process_facts
from ..files.schema import RaisedError
from ..read.attempt_files import further_nodes, n_gpus, read_attempts
from ..read.row_cache import summarise
from ..read.run import run_record
from ..read.status import ROWS, needless_weights, set_result_aside
from ..read.used import size_of_run
from .claim import is_claimed, is_superseded, withdraw_claim

# What torch says of this process: versions, flags, threads and GPUs.


def torch_facts() -> dict[str, Any]:
    """Versions, flags, threads and GPUs (model and UUID) of this process.

    Empty until torch is imported.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    gpus = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version() if gpus else None,
        "driver": nvidia_driver(),
        "gpus": [{"model": gpu.name, "uuid": f"GPU-{gpu.uuid}"} for gpu in gpus],
        "threads": torch.get_num_threads(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "determinism": {
            "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "cudnn_deterministic": torch.backends.cudnn.deterministic,
            "float32_matmul_precision": torch.get_float32_matmul_precision(),
        },
    }


# Flags of Python that change what code does: -O leaves out asserts.
FLAGS = ("optimize", "dev_mode", "utf8_mode", "isolated", "no_site", "no_user_site")
LOGS = ("metrics.jsonl", "speed.jsonl")  # files that every attempt of a run appends to
EXIT_CODES = {"finished": 0, "trained": 1, "failed": 1, "interrupted": 130}
READ_IN_A_HURRY_BYTES = 1 << 30  # of checkpoints that others wrote, when an attempt is interrupted
TRACEBACK = "traceback.txt"  # in the directory of an attempt that failed
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
        self.started_unix_s = time.time()
        self.began_s = time.monotonic()  # a clock that nobody sets
        self.energy_at_start_j = energy_j()

    def start(self, **facts: object) -> None:
        """Writes start.json.

        The run counts as running while this process lives and touches the heartbeat.

        Raises:
            OSError: the disk is full; the run is as it was before.
        """
        if is_superseded(self.run_dir, self.n):
            raise LabError(
                f"another process has resumed {self.run_dir.name} meanwhile. "
                f"To see it: lab runs show {self.run_dir.name}"
            )
        try:
            for name in RESERVE:
                # Random, because some file systems store zeros without room.
                (self.dir / name).write_bytes(os.urandom(RESERVE_BYTES))
            set_result_aside(self.run_dir)
            list_files(self.run_dir, names_in(self.run_dir, [f"attempts/{self.n}/*.bundle"]))
            self.note(
                attempt=self.n,
                started_unix_s=round(self.started_unix_s, 3),
                imported_from=this_project().source,
                flags={name: n for name in FLAGS if (n := int(getattr(sys.flags, name)))},
                **process_facts(),
                **job_facts(),
                **facts,
            )
            self.touch_heartbeat()
        except OSError:
            withdraw_claim(self.run_dir, self.n)
            with suppress(OSError):
                list_gone(self.run_dir, f"attempts/{self.n}/")
            raise

    def note(self, **facts: object) -> None:
        """Adds to start.json what is known only once torch is imported: device, precision, data."""
        # What `note_attempt` wrote is newer than what this process remembers.
        written = read_advisory(self.dir / "start.json") or {}
        self.facts |= written | torch_facts() | facts
        write_listed(self.run_dir, f"attempts/{self.n}/start.json", self.facts)
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
        reason: RaisedError | None = None,
        signal: int | None = None,
        **measured: object,
    ) -> None:
        """Writes end.json and then summary.json, from which alone an ended run is listed.

        Args:
            status: finished, failed or interrupted; trained if the fit finished and its test did
                not.
            metrics: final values by name; those not given are the last ones in metrics.jsonl.
            reason: what is recorded in place of `exception`, where another process failed first.
            signal: number of the signal that ended it.
            measured: further entries, which also replace those computed here: `exit_code`;
                `gpu_seconds` (wall time times devices); `energy_j` (of this node's devices);
                `peak_memory_bytes`, `peak_gpu_bytes`.
        """
        if exception:
            write_traceback(self.dir / TRACEBACK, exception)
        seconds = self.seconds()
        needless = needless_weights(self.run_dir, status)
        folder = f"attempts/{self.n}"
        end: Any = {
            "status": status,
            "exit_code": EXIT_CODES[status],
            "signal": signal,
            "exception": reason or (describe_exception(exception) if exception else None),
            "ended_unix_s": round(time.time(), 3),
            "seconds": round(seconds, 3),
            "gpu_seconds": round(seconds * n_gpus(self.facts), 3),
            "energy_j": self.energy_used_j(),
            "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "peak_gpu_bytes": peak_gpu_bytes(),
            "metrics": last_metrics(self.run_dir) | (metrics or {}),
            "checkpoints": checkpoint_hashes(
                self.run_dir / "checkpoints",
                leave_out=needless,
                # What ends because it must has seconds, after which it is killed.
                may_read_bytes=READ_IN_A_HURRY_BYTES if status == "interrupted" else math.inf,
            ),
        }
        end_reserve, summary_reserve = (self.dir / name for name in RESERVE)
        end_reserve.unlink(missing_ok=True)
        to_go = [path for path in (summary_reserve, needless) if path and path.exists()]
        end["size_bytes"] = size_of_run(self.run_dir) - sum(map(n_bytes_of, to_go))
        written = [*LOGS, f"{folder}/*.yaml", f"{folder}/traceback*.txt"]
        list_files(self.run_dir, names_in(self.run_dir, written))
        write_listed(self.run_dir, f"{folder}/end.json", end | measured)
        if needless:
            remove(needless)
        record = run_record(self.run_dir)
        summary_reserve.unlink(missing_ok=True)
        write_listed(self.run_dir, "summary.json", summarise(record, self.run_dir))

    def energy_used_j(self) -> float | None:
        """Joules that the GPUs used since the start.

        None when they do not report them, or when this process sees GPUs that it does not use, whose
        energy would be counted too.
        """
        n_used = self.facts.get("devices") if n_gpus(self.facts) else 0
        if len(self.facts.get("gpus", [])) != n_used:
            return None
        now_j = energy_j()
        if now_j is None or self.energy_at_start_j is None:
            return None
        return round(now_j - self.energy_at_start_j, 1)


def note_attempt(run_dir: Path, n: int, **facts: object) -> None:
    """Adds to start.json of an attempt what a part of its training finds out; first rank only."""
    name = f"attempts/{n}/start.json"
    write_listed(run_dir, name, (read_advisory(run_dir / name) or {}) | facts)


def write_traceback(file: Path, exception: BaseException) -> None:
    """Writes the whole traceback, without secrets."""
    text = "".join(traceback.format_exception(exception))
    # On a full disk the record of the end matters more.
    with suppress(OSError):
        write_file(file, hide_tokens(text))


def describe_exception(exception: BaseException) -> RaisedError:
    """An exception as one line, and the line of the project's own code that led to it."""
    place = place_of(exception)
    return {
        "type": type(exception).__name__,
        "line": hide_tokens(message_of(exception).partition("\n")[0]),
        "place": hide_tokens(str(place)) if place else None,
    }


def names_in(run_dir: Path, patterns: list[str]) -> list[str]:
    """The files that match, by their path from the run directory; a pipe is none."""
    paths = [path for pattern in patterns for path in sorted(run_dir.glob(pattern))]
    return [str(path.relative_to(run_dir)) for path in paths if path.is_file()]


def write_node(run_dir: Path, n: int, node: int) -> None:
    """Writes another node's host and devices to attempts/<n>/node-<node>.json."""
    name = f"attempts/{n}/node-{node}.json"
    write_listed(run_dir, name, process_facts() | facts_of_node())


def facts_of_node() -> dict[str, Any]:
    return torch_facts() | {"python": platform.python_version()}


def compare_nodes(run_dir: Path, n: int) -> list[str]:
    """What other nodes have else than this, the first one; a line each, which start.json gets too."""
    here = facts_of_node()
    lines = []
    for there in further_nodes(run_dir / "attempts" / str(n)):
        lines += [
            f"node {there['host']} has {name} {there.get(name)}, {platform.node()} {here[name]}"
            for name in ("python", "torch", "cuda", "cudnn", "driver")
            if there.get(name) != here[name]
        ]
        models_here, models_there = gpu_models(here), gpu_models(there)
        if models_there != models_here:
            lines.append(
                f"node {there['host']} has {models_there or 'no GPU'}, {platform.node()} {models_here or 'none'}"
            )
    if lines:
        start = read_advisory(run_dir / f"attempts/{n}/start.json") or {}
        known = start.get("environment_differences", [])
        note_attempt(run_dir, n, environment_differences=known + lines)
    return lines


def gpu_models(facts: dict[str, Any]) -> str:
    """The models of a node's GPUs, as `4 x NVIDIA H100`."""
    counts = Counter(gpu["model"] for gpu in facts.get("gpus", []))
    return ", ".join(f"{n} x {model}" for model, n in sorted(counts.items()))


LOG = "metrics.jsonl"
READ_BYTES = 1 << 20


class RowsHash:
    """Writes how many bytes of metrics.jsonl there are, and their sha256; each byte is read once."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.n_bytes = 0
        self.digest = hashlib.sha256()

    def note(self, run_dir: Path, attempt: int) -> None:
        """To be called at each checkpoint, in the process that writes the record."""
        path = run_dir / LOG
        if path != self.path:
            self.path, self.n_bytes, self.digest = path, 0, hashlib.sha256()
        with suppress(OSError):  # no rows yet, or a full disk, which the next step reports
            with open_file(path) as file:
                file.seek(self.n_bytes)
                while part := file.read(READ_BYTES):
                    self.digest.update(part)
                    self.n_bytes += len(part)
            rows: Any = {"bytes": self.n_bytes, "sha256_of_rows": self.digest.hexdigest()}
            write_listed(run_dir, f"attempts/{attempt}/{ROWS}", rows)


def complete_record(run_dir: Path) -> list[str]:
    """Writes summary.json where the last attempt has ended without it; what was done, a line each.

    It holds nothing that the other files do not say.
    """
    path = run_dir / "summary.json"
    record = run_record(run_dir)
    attempts = read_attempts(run_dir)
    has_ended = bool(attempts) and bool(attempts[-1].end) and not attempts[-1].problems
    if not record or not has_ended or os.path.lexists(path) or is_claimed(run_dir):
        return []
    write_listed(run_dir, path.name, summarise(record, run_dir))
    return [f"{path} was missing; it was written from the attempts"]
