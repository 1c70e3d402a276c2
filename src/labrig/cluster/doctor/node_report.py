"""What a rank of `lab doctor --nodes` measured, and which hosts are bad."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

SLOW = 0.7  # of the median of the ranks with the same device
OF_NCCL = "NCCL_"  # begins the names of variables that only a site's profile should set


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
