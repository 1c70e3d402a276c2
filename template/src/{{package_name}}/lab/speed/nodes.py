# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What every rank of `lab doctor --nodes` runs: where am I, do I multiply right and fast, how fast do I exchange data.

Each rank writes what it knows so far to <run_dir>/nodes/<rank>.json, so one that hangs or dies is known by its silence.
Started by a job script: python -m <package>.lab.speed.nodes
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from ..machine.node import cores
from ..machine.ranks import discover
from ..project import Project
from ..record.run import Run
from .gpus import gpus

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


if __name__ == "__main__":
    main(Path(os.environ["LAB_RUN_DIR"]))
