# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab doctor --nodes`: a short job in which every rank says where it is, multiplies with a known result, and exchanges
data; the node that computes wrong, slowly or not at all is named."""

from __future__ import annotations

import json
import os
import socket
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from ..errors import Failed
from ..machine.node import cores
from ..machine.ranks import Ranks, discover
from ..project import Project
from ..record.run import Run

BURN_S, EXCHANGE_MB, REPEATS = 10.0, 64, 5
SLOW = 0.7  # of the median speed
WAIT_S = 1800


def examine_nodes(project: Project, overrides: list[str]) -> int:
    """Sends the job, waits for it, prints its table; 1 when a node is bad.

    Raises:
        Failed: the job is not over within half an hour, or left no result.
    """
    from .status import live_jobs
    from .submit import prepare_nodes, submit_plan

    (sent,) = submit_plan(project, prepare_nodes(project, overrides), why="lab doctor --nodes", batch=False)
    print(f"job {sent.job_id}, log {sent.log}; waiting (Ctrl-C leaves the job alone)", flush=True)
    job = Run.open(Path(sent.run_dir)).record["job"]
    result, end_s = Path(sent.run_dir) / "nodes.json", time.monotonic() + WAIT_S
    while not result.exists():
        known = live_jobs()(job["scheduler"])
        if known is not None and job["id"] not in known and not result.exists():
            raise Failed(f"the job ended without a result; see {sent.log}")
        if time.monotonic() > end_s:
            raise Failed(f"the job is not over after {WAIT_S // 60} minutes; it stays queued: lab logs {sent.run_id}")
        time.sleep(2)
    found = json.loads(result.read_text(encoding="utf-8"))
    print("\n".join(table(found["ranks"])))
    for node, reasons in found["bad"].items():
        print(f"bad: {node}: {'; '.join(reasons)}")
    print(f"leave them out with: job.exclude={','.join(found['bad'])}" if found["bad"] else "all nodes compute alike")
    return int(bool(found["bad"]))


def table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [f"{'rank':>4}  {'host':<12}  {'device':<28}  cores  {'GFLOP/s':>9}  {'all-reduce GB/s':>15}  result"]
    for row in rows:
        correct = "same" if row["repeatable"] else "CHANGES"
        lines.append(
            f"{row['rank']:>4}  {row['host']:<12}  {row['device']:<28}  {row['cores']:>5}  {row['gflops']:>9.1f}  "
            f"{row['exchange_GB_s']:>15.2f}  {correct}"
        )
    return lines


def bad_nodes(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Hosts whose ranks computed something else than the others of the same device, changed their mind, or are slow."""
    bad: dict[str, list[str]] = {}
    for kind in {row["device"] for row in rows}:
        alike = [row for row in rows if row["device"] == kind]
        usual = statistics.mode(row["checksum"] for row in alike)
        median = statistics.median(row["gflops"] for row in alike)
        for row in alike:
            reasons = []
            if not row["repeatable"]:
                reasons.append(f"rank {row['rank']}: the same product gave different results")
            elif row["checksum"] != usual:
                reasons.append(f"rank {row['rank']}: another result than the other ranks")
            if row["gflops"] < SLOW * median:
                reasons.append(f"rank {row['rank']}: {row['gflops']:.1f} GFLOP/s where the median is {median:.1f}")
            if reasons:
                bad.setdefault(row["host"], []).extend(reasons)
    return bad


def examine(ranks: Ranks) -> dict[str, Any]:
    """This rank's facts and measurements."""
    import torch

    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", ranks.local_rank) if on_gpu else torch.device("cpu")
    size = 8192 if on_gpu else 512
    matrix = torch.randn(size, size, generator=torch.Generator().manual_seed(0)).to(device)
    checksums, n_products, started_s = set(), 0, time.perf_counter()
    while time.perf_counter() - started_s < BURN_S:
        checksums.add((matrix @ matrix).double().sum().item())
        n_products += 1
    gflops = 2 * size**3 * n_products / (time.perf_counter() - started_s) / 1e9
    exchange_GB_s = 0.0
    if ranks.world_size > 1:
        payload = torch.ones(EXCHANGE_MB * 250_000, device=device)
        torch.distributed.all_reduce(payload)
        if on_gpu:
            torch.cuda.synchronize()
        started_s = time.perf_counter()
        for _ in range(REPEATS):
            torch.distributed.all_reduce(payload)
        if on_gpu:
            torch.cuda.synchronize()
        exchange_GB_s = REPEATS * EXCHANGE_MB / 1000 / (time.perf_counter() - started_s)
    name = f"{torch.cuda.get_device_name(device)} {torch.cuda.get_device_properties(device).uuid}" if on_gpu else "cpu"
    return {
        "rank": ranks.rank,
        "host": socket.gethostname(),
        "device": name.partition(" GPU-")[0],
        "cores": cores(),
        "gflops": gflops,
        "exchange_GB_s": exchange_GB_s,
        "checksum": max(checksums),
        "repeatable": len(checksums) == 1,
    }


def main() -> int:
    import torch

    ranks = discover()
    rows: list[Any] = [None] * ranks.world_size
    if ranks.world_size > 1:
        place = f"tcp://{ranks.main_address}:{ranks.main_port}"
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        torch.distributed.init_process_group(backend, init_method=place, rank=ranks.rank, world_size=ranks.world_size)
    mine = examine(ranks)
    if ranks.world_size > 1:
        torch.distributed.all_gather_object(rows, mine)
        torch.distributed.destroy_process_group()
    else:
        rows = [mine]
    if ranks.rank == 0:
        target = Path(os.environ["LAB_RUN_DIR"]) / "nodes.json"
        aside = target.with_suffix(".tmp")
        aside.write_text(json.dumps({"ranks": rows, "bad": bad_nodes(rows)}, indent=1), encoding="utf-8")
        os.replace(aside, target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
