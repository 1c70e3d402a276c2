"""What every rank of `lab doctor --nodes` runs: measures how a node computes and exchanges data.

Its reports say which hosts are bad.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from ... import env
from ...machine.gpu import gpus
from ...machine.ranks import Ranks, discover
from ...machine.resources import cores
from ...project import this_project
from ...record.read.run import Run
from ...record.write.begin import begin_attempt

SLOW = 0.7  # of the median of the ranks with the same device
OF_NCCL = "NCCL_"  # begins the names of variables that only a site's profile should set
BURN_S = 10.0  # how long products are checked
PAYLOAD_MB = 64
REPEATS = 5
PATIENCE_S = 120  # for the other ranks


@dataclass(frozen=True)
class NodeReport:
    """One rank, filled in while it measures; None: not measured yet, or not there.

    Args:
        uuid: of its GPU.
        celsius: of its GPU.
        n_products, n_wrong: matrix products that were checked, and those that were wrong.
        copy_GB_s: to the GPU or, without one, within memory.
        exchange_GB_s: all-reduce among all ranks.
        n_gpus: that it sees, its own and those of other ranks.
        variables: its environment, as far as the site's profile names it, and what NCCL reads.
        done: whether it came to the end.
    """

    rank: int
    host: str
    cores: int | None = None
    device: str | None = None
    uuid: str | None = None
    n_products: int | None = None
    n_wrong: int | None = None
    gflops: float | None = None
    celsius: str | int | None = None
    copy_GB_s: float | None = None
    exchange_GB_s: float | None = None
    n_gpus: int | None = None
    variables: dict[str, str] = field(default_factory=dict)
    done: bool = False


@dataclass(frozen=True)
class NodeColumn:
    """A column of the table: a field of NodeReport, its title, its width, its format."""

    field: str
    title: str
    width: str
    value_format: str = ""


COLUMNS = (
    NodeColumn("rank", "rank", ">4"),
    NodeColumn("host", "host", "<12", ".12"),
    NodeColumn("device", "device", "<18", ".18"),
    NodeColumn("cores", "cores", ">5"),
    NodeColumn("celsius", "°C", ">3"),
    NodeColumn("gflops", "GFLOP/s", ">8", ".0f"),
    NodeColumn("copy_GB_s", "copy", ">6", ".1f"),
    NodeColumn("exchange_GB_s", "all-reduce", ">10", ".2f"),
)


def format_reports(reports: list[NodeReport]) -> str:
    """A line for each rank in 80 columns; the last two are GB/s."""
    title = "  ".join(f"{column.title:{column.width}}" for column in COLUMNS)
    return "\n".join([title, *map(_format_report, reports)])


def _format_report(report: NodeReport) -> str:
    return "  ".join(_format_cell(report, column) for column in COLUMNS)


def _format_cell(report: NodeReport, column: NodeColumn) -> str:
    value = getattr(report, column.field)
    text = "-" if value is None else format(value, column.value_format)
    return f"{text:{column.width}}"


def bad_nodes(reports: list[NodeReport]) -> dict[str, list[str]]:
    """Hosts on which something is wrong with a rank -> what."""
    bad: dict[str, list[str]] = {}
    for report in reports:
        for reason in _reasons(report, reports):
            bad.setdefault(report.host, []).append(f"rank {report.rank}: {reason}")
    return bad


def _reasons(report: NodeReport, reports: list[NodeReport]) -> list[str]:
    """What is wrong with one rank among all."""
    reasons = []
    measured = [other for other in reports if other.gflops is not None]
    if report.gflops is None:
        reasons.append("did not finish its products")
    else:
        median = _median_gflops(report.device, measured)
        if report.gflops < SLOW * median:
            reasons.append(f"{report.gflops:.0f} GFLOP/s, but the median is {median:.0f}")
        elif not report.done and len(measured) == len(reports):
            # where another rank did not even multiply, this one waits for it
            reasons.append("did not come back from the all-reduce")
    if report.n_wrong:
        reasons.append(f"{report.n_wrong} of {report.n_products} products were wrong")
    others = [other for other in reports if other is not report]
    if report.uuid and report.uuid in [other.uuid for other in others]:
        reasons.append("another rank uses the same GPU")
    return reasons


def _median_gflops(device: str | None, measured: list[NodeReport]) -> float:
    of_device = [report.gflops for report in measured if report.device == device]
    return statistics.median(gflops for gflops in of_device if gflops is not None)


def main(run_dir: Path) -> None:
    """Measures one thing after the other. A rank that hangs leaves the report of those before."""
    ranks = discover()
    run = Run.open(run_dir)
    attempt = begin_attempt(run, this_project()) if ranks.rank == 0 else None
    of_site = run.config["site"]["env"]
    report = NodeReport(
        rank=ranks.rank,
        host=os.environ.get("SLURMD_NODENAME") or socket.gethostname(),  # as job.exclude names it
        cores=cores(),
        variables={
            name: value
            for name, value in os.environ.items()
            if name in of_site or name.startswith(OF_NCCL)
        },
    )
    write_report(run_dir, report)
    for measure in (identify_device, check_products, read_temperature, time_copy, time_exchange):
        report = measure(ranks, report)
        write_report(run_dir, report)
    write_report(run_dir, replace(report, done=True))
    if attempt:
        attempt.end("finished")


def write_report(run_dir: Path, report: NodeReport) -> None:
    """Replaces nodes/<rank>.json in one step."""
    file = run_dir / "nodes" / f"{report.rank}.json"
    file.parent.mkdir(exist_ok=True)
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(asdict(report)), encoding="utf-8")
    os.replace(temporary, file)


def device_of(ranks: Ranks) -> Any:
    """The torch device of this rank: its GPU, or the CPU."""
    import torch

    if torch.cuda.is_available():
        return torch.device("cuda", ranks.local_rank)
    return torch.device("cpu")


def identify_device(ranks: Ranks, report: NodeReport) -> NodeReport:
    import torch

    device = device_of(ranks)
    if device.type == "cpu":
        return replace(report, device="cpu")
    torch.cuda.set_device(device)
    properties = torch.cuda.get_device_properties(device)
    name = properties.name.removeprefix("NVIDIA ")
    n_gpus = torch.cuda.device_count()
    return replace(report, device=name, uuid=f"GPU-{properties.uuid}", n_gpus=n_gpus)


def check_products(ranks: Ranks, report: NodeReport) -> NodeReport:
    products = multiply_check(device_of(ranks))
    return replace(
        report,
        n_products=products.n_products,
        n_wrong=products.n_wrong,
        gflops=products.gflops,
    )


@dataclass(frozen=True)
class Products:
    """How many matrix products were checked, how many were wrong, and how fast they were."""

    n_products: int
    n_wrong: int
    gflops: float


def multiply_check(device: Any) -> Products:
    """Multiplies matrices for BURN_S and counts the products that are wrong.

    They hold integers that float32 represents exactly, so that the result does not depend on the
    order of summation.
    """
    import torch

    size = 8192 if device.type == "cuda" else 512
    random = torch.Generator().manual_seed(0)
    left = torch.randint(-8, 9, (size, size), generator=random).float().to(device)
    right = torch.randint(-8, 9, (size, size), generator=random).float().to(device)
    # nowhere 0, so that a wrong entry of the product always changes product @ probe
    probe = torch.randint(1, 9, (size,), generator=random).double().to(device)
    expected = left.double() @ (right.double() @ probe)
    n_products = 0
    n_wrong = 0
    started_s = time.perf_counter()
    while time.perf_counter() - started_s < BURN_S:
        product = left @ right
        if not torch.equal(product.double() @ probe, expected):
            n_wrong += 1
        n_products += 1
    seconds = time.perf_counter() - started_s
    gflops = 2 * size**3 * n_products / seconds / 1e9
    return Products(n_products, n_wrong, gflops)


@dataclass(frozen=True)
class DeviceSpeed:
    """How fast a device multiplies, and how fast data get to it and back."""

    tflops: float
    to_device_GB_s: float
    from_device_GB_s: float


def device_speed(device: Any) -> DeviceSpeed:
    """Measures products of the fastest format that a training uses, and copies of pinned memory."""
    import torch

    on_gpu = device.type == "cuda"
    size = 8192 if on_gpu else 512
    matrix = torch.ones(size, size, device=device, dtype=torch.half if on_gpu else torch.float)
    seconds = seconds_of(lambda: matrix @ matrix, device)
    host = torch.ones(PAYLOAD_MB * 250_000, pin_memory=on_gpu)
    there = torch.empty_like(host, device=device)
    return DeviceSpeed(
        tflops=2 * size**3 / seconds / 1e12,
        to_device_GB_s=gigabytes_per_s(lambda: there.copy_(host, non_blocking=True), device),
        from_device_GB_s=gigabytes_per_s(lambda: host.copy_(there, non_blocking=True), device),
    )


def read_temperature(ranks: Ranks, report: NodeReport) -> NodeReport:
    """Of the GPU, which is hot from the products."""
    celsius_of = {gpu.uuid: gpu.celsius for gpu in gpus()}
    celsius = celsius_of.get(report.uuid) if report.uuid else None
    return replace(report, celsius=celsius)


def time_copy(ranks: Ranks, report: NodeReport) -> NodeReport:
    """From pinned memory to the GPU; without one, within memory."""
    import torch

    device = device_of(ranks)
    source = torch.ones(PAYLOAD_MB * 250_000, pin_memory=device.type == "cuda")
    target = torch.empty_like(source, device=device)
    speed = gigabytes_per_s(lambda: target.copy_(source, non_blocking=True), device)
    return replace(report, copy_GB_s=speed)


def time_exchange(ranks: Ranks, report: NodeReport) -> NodeReport:
    """The all-reduce of all ranks."""
    import torch

    if ranks.world_size == 1:
        return report
    device = device_of(ranks)
    payload = torch.ones(PAYLOAD_MB * 250_000, device=device)
    torch.distributed.init_process_group(
        "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
        init_method=f"tcp://{ranks.main_address}:{ranks.main_port}",
        timeout=timedelta(seconds=PATIENCE_S),
        rank=ranks.rank,
        world_size=ranks.world_size,
    )
    speed = gigabytes_per_s(lambda: torch.distributed.all_reduce(payload), device)
    torch.distributed.destroy_process_group()
    return replace(report, exchange_GB_s=speed)


def gigabytes_per_s(work: Callable[[], Any], device: Any) -> float:
    """How fast `work` moves PAYLOAD_MB."""
    return PAYLOAD_MB / 1e3 / seconds_of(work, device)


def seconds_of(work: Callable[[], Any], device: Any) -> float:
    """What `work` takes once, on average."""
    work()  # the first time makes connections, pages and kernels
    wait_for(device)
    started_s = time.perf_counter()
    for _ in range(REPEATS):
        work()
    wait_for(device)
    return (time.perf_counter() - started_s) / REPEATS


def wait_for(device: Any) -> None:
    """Waits until the device has done what it was given."""
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main(Path(os.environ[env.RUN_DIR]))
