# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What every rank of `lab doctor --nodes` runs: does this node multiply right and fast, and exchange data fast?"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from .. import env
from ..machine.cpu import cores
from ..machine.gpu import gpus
from ..machine.ranks import discover
from ..project import Project
from ..record.run import Run

BURN_S, PAYLOAD_MB, REPEATS, PATIENCE_S = 10.0, 64, 5, 120


def multiply_check(device: Any) -> dict[str, float]:
    """Multiplies integers that float32 holds exactly, so that every order of summation has the one right result."""
    import torch

    size = 8192 if device.type == "cuda" else 512
    random = torch.Generator().manual_seed(0)
    left, right = (
        torch.randint(-8, 9, (size, size), generator=random).float().to(device) for _ in range(2)
    )
    probe = (
        torch.randint(1, 9, (size,), generator=random).double().to(device)
    )  # nowhere 0: it sees every entry
    expected = left.double() @ (right.double() @ probe)
    n_products, n_wrong, started_s = 0, 0, time.perf_counter()
    while time.perf_counter() - started_s < BURN_S:
        n_wrong += not torch.equal((left @ right).double() @ probe, expected)
        n_products += 1
    seconds = time.perf_counter() - started_s
    return {
        "n_products": n_products,
        "n_wrong": n_wrong,
        "gflops": 2 * size**3 * n_products / seconds / 1e9,
    }


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
    note(**multiply_check(device))
    celsius = {gpu.uuid: gpu.celsius for gpu in gpus()}.get(row.get("uuid"))
    note(celsius="-" if celsius is None else celsius)
    payload = torch.ones(PAYLOAD_MB * 250_000, pin_memory=on_gpu)
    there = torch.empty_like(payload, device=device)
    note(
        copy_GB_s=gigabytes_per_s(
            lambda: there.copy_(payload, non_blocking=True), PAYLOAD_MB * 10**6, finish
        )
    )
    if ranks.world_size > 1:
        backend, place = (
            "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
            f"tcp://{ranks.main_address}:{ranks.main_port}",
        )
        who = {"rank": ranks.rank, "world_size": ranks.world_size}
        torch.distributed.init_process_group(backend, place, timedelta(seconds=PATIENCE_S), **who)
        note(
            exchange_GB_s=gigabytes_per_s(
                lambda: torch.distributed.all_reduce(there), PAYLOAD_MB * 10**6, finish
            )
        )
        torch.distributed.destroy_process_group()
    note(done=True)
    if attempt:
        attempt.end("finished")


if __name__ == "__main__":
    main(Path(os.environ[env.RUN_DIR]))
