# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What nodes and their GPUs do: the emptiest GPUs, the guard of a job that does not use its own, and what every rank of
`lab doctor --nodes` runs: where am I, do I multiply right and fast, how fast do I exchange data.

Each rank writes what it knows so far to <run_dir>/nodes/<rank>.json, so one that hangs or dies is known by its silence.
Job scripts start it: python -m <package>.lab.speed.nodes; with the PID of the script, where there is no scheduler, the guard.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from ..errors import Refused
from ..machine.node import cores
from ..machine.ranks import discover
from ..project import Project
from ..record.run import Run

EVERY_S, IDLE_MIN = 30, 30  # the second: minutes at 0 % on all of the job's GPUs
BURN_S, PAYLOAD_MB, REPEATS, PATIENCE_S = 10.0, 64, 5, 120
SLOW = 0.7  # of the median of the ranks with the same device
COLUMNS = {  # key -> title, width, format of the value
    "rank": ("rank", ">4", ""),
    "host": ("host", "<12", ".12"),
    "device": ("device", "<18", ".18"),
    "cores": ("cores", ">5", ""),
    "celsius": ("°C", ">3", ""),
    "gflops": ("GFLOP/s", ">8", ".0f"),
    "copy_GB_s": ("copy", ">6", ".1f"),
    "exchange_GB_s": ("all-reduce", ">10", ".2f"),
}


def gpus(*fields: str) -> list[list[str]]:
    """nvidia-smi's words for `fields` (nvidia-smi --help-query-gpu), a list per GPU; empty without a driver."""
    query = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(query, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows = [[word.strip() for word in line.split(",")] for line in said.splitlines()]
    return [row for row in rows if len(row) == len(fields)]


def emptiest(n: int, need_MB: int | None = None, asked: Callable = gpus) -> list[str]:
    """Indices of the n GPUs with the most free memory.

    Raises:
        Refused: there are fewer, or one of them has less free memory than `need_MB` (None: half of its own).
    """
    rows = asked("index", "memory.free", "memory.total")
    there = sorted(((index, int(free), int(total)) for index, free, total in rows), key=lambda gpu: -gpu[1])
    if len(there) < n:
        raise Refused(f"job.gpus={n}, but this machine has {len(there)} NVIDIA GPUs. Without one: job.gpus=0")
    for index, free_MB, total_MB in there[:n]:
        need = total_MB // 2 if need_MB is None else need_MB
        if free_MB < need:
            raise Refused(
                f"GPU {index} is the emptiest left, with {free_MB} of {total_MB} MB free; {need} MB are needed.\n"
                "Somebody works there: nvidia-smi. Wait for them, or insist: job.mem=0"
            )
    return [index for index, _, _ in there[:n]]


def guard(pid: int, mine: set[str], *, asked: Callable = gpus, clock=time.monotonic, sleep=time.sleep) -> bool:
    """Watches the GPUs with the indices `mine` while `pid` lives; True when it was asked to stop (SIGUSR2: it saves)."""
    busy_at_s = clock()
    while os.path.exists(f"/proc/{pid}"):
        if {percent for index, percent in asked("index", "utilization.gpu") if index in mine} != {"0"}:
            busy_at_s = clock()  # also when nobody can tell
        if clock() - busy_at_s >= IDLE_MIN * 60:
            print(f"GPU {', '.join(sorted(mine))} did nothing for {IDLE_MIN} minutes: asking the job to save and end.")
            print("Is its data loading stuck, or was it forgotten? lab logs RUN", flush=True)
            os.kill(pid, signal.SIGUSR2)
            return True
        sleep(EVERY_S)
    return False


# ---- lab doctor --nodes


def table(rows: list[dict[str, Any]]) -> str:
    """A line per rank in 80 columns; the last two are GB/s, `copy` to the GPU or, without one, within memory."""
    lines = ["  ".join(f"{title:{width}}" for title, width, _ in COLUMNS.values())]
    for row in rows:
        values = {key: format(row[key], form) if key in row else "-" for key, (_, _, form) in COLUMNS.items()}
        lines.append("  ".join(f"{values[key]:{width}}" for key, (_, width, _) in COLUMNS.items()))
    return "\n".join(lines)


def bad_nodes(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Hosts with a rank that computed wrong or slowly, shares its GPU, or did not get to the end; with the reasons."""
    bad: dict[str, list[str]] = {}
    measured = [row for row in rows if "gflops" in row]
    for row in rows:
        reasons = []
        if row not in measured:
            reasons.append("never got through its products")
        elif row["gflops"] < SLOW * (usual := usual_gflops(row["device"], measured)):
            reasons.append(f"{row['gflops']:.0f} GFLOP/s where the median is {usual:.0f}")
        elif "done" not in row and measured == rows:
            reasons.append("never came back from the all-reduce")
        if row.get("n_wrong"):
            reasons.append(f"{row['n_wrong']} of {row['n_products']} products were wrong")
        if any(row.get("uuid") and row["uuid"] == other.get("uuid") for other in rows if other is not row):
            reasons.append("another rank uses the same GPU")
        if reasons:
            bad.setdefault(row["host"], []).extend(f"rank {row['rank']}: {reason}" for reason in reasons)
    return bad


def usual_gflops(device: str, measured: list[dict[str, Any]]) -> float:
    return statistics.median(row["gflops"] for row in measured if row["device"] == device)


def burn(device: Any) -> dict[str, float]:
    """Multiplies integers that float32 holds exactly, so that every order of summation has the one right result."""
    import torch

    size = 8192 if device.type == "cuda" else 512
    random = torch.Generator().manual_seed(0)
    left, right = (torch.randint(-8, 9, (size, size), generator=random).float().to(device) for _ in range(2))
    probe = torch.randint(1, 9, (size,), generator=random).double().to(device)  # nowhere 0: it sees every entry
    expected = left.double() @ (right.double() @ probe)
    n_products, n_wrong, started_s = 0, 0, time.perf_counter()
    while time.perf_counter() - started_s < BURN_S:
        n_wrong += not torch.equal((left @ right).double() @ probe, expected)
        n_products += 1
    seconds = time.perf_counter() - started_s
    return {"n_products": n_products, "n_wrong": n_wrong, "gflops": 2 * size**3 * n_products / seconds / 1e9}


def gigabytes_per_s(work: Callable[[], Any], n_bytes: int, finish: Callable[[], None]) -> float:
    work()  # connections, pages and kernels are made the first time
    finish()
    started_s = time.perf_counter()
    for _ in range(REPEATS):
        work()
    finish()
    return REPEATS * n_bytes / 1e9 / (time.perf_counter() - started_s)


def main(run_dir: Path) -> None:
    ranks, row = discover(), {}

    def note(**facts: Any) -> None:
        row.update(facts)
        file = run_dir / "nodes" / f"{ranks.rank}.json"
        file.parent.mkdir(exist_ok=True)
        file.with_suffix(".tmp").write_text(json.dumps(row), encoding="utf-8")
        os.replace(file.with_suffix(".tmp"), file)

    attempt = Run.open(run_dir).begin(Project.find()) if ranks.rank == 0 else None
    note(rank=ranks.rank, host=socket.gethostname(), cores=cores())
    import torch

    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", ranks.local_rank) if on_gpu else torch.device("cpu")
    finish = torch.cuda.synchronize if on_gpu else lambda: None
    note(device="cpu")
    if on_gpu:
        torch.cuda.set_device(device)
        about = torch.cuda.get_device_properties(device)
        note(device=about.name.removeprefix("NVIDIA "), uuid=f"GPU-{about.uuid}")
    note(**burn(device))
    note(celsius=dict(gpus("uuid", "temperature.gpu")).get(row.get("uuid"), "-"))
    payload = torch.ones(PAYLOAD_MB * 250_000, pin_memory=on_gpu)
    there = torch.empty_like(payload, device=device)
    note(copy_GB_s=gigabytes_per_s(lambda: there.copy_(payload, non_blocking=True), PAYLOAD_MB * 10**6, finish))
    if ranks.world_size > 1:
        backend, place = "cpu:gloo,cuda:nccl" if on_gpu else "gloo", f"tcp://{ranks.main_address}:{ranks.main_port}"
        who = {"rank": ranks.rank, "world_size": ranks.world_size}
        torch.distributed.init_process_group(backend, place, timedelta(seconds=PATIENCE_S), **who)
        note(exchange_GB_s=gigabytes_per_s(lambda: torch.distributed.all_reduce(there), PAYLOAD_MB * 10**6, finish))
        torch.distributed.destroy_process_group()
    note(done=True)
    if attempt:
        attempt.end("finished")


if __name__ == "__main__" and len(sys.argv) > 1:
    guard(int(sys.argv[1]), set(os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")) - {""})
elif __name__ == "__main__":
    main(Path(os.environ["LAB_RUN_DIR"]))
