"""`lab runs cost`: hours, GPU-hours and energy of all runs, and money and CO2 with your prices."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable

from ..machine.counted import counted
from ..machine.terminal import printable
from ..project import Project
from .index import read_rows
from .prices import Prices, prices_file, read_prices
from .roots import run_roots
from .schema import Row

NAME_WIDTH = 24  # characters
HOUR_S = 3600
KWH_J = 3.6e6


def by_trial(row: Row) -> str:
    return row["trial"]


def by_person(row: Row) -> str:
    return row["who"] or "?"


def by_month(row: Row) -> str:
    return (row["created"] or "?")[:7]


GROUPINGS: dict[str, Callable[[Row], str]] = {
    "trial": by_trial,
    "person": by_person,
    "month": by_month,
}


def cost_command(project: Project, args: list[str]) -> None:
    argparse.ArgumentParser(
        prog="lab runs cost",
        description="Hours, GPU-hours and energy of all runs, failed ones too; money and CO2 with "
        f"the prices in {prices_file()}.",
    ).parse_args(args)
    prices = read_prices()
    rows = read_rows(run_roots(project))
    print(format_head(prices))
    for name, group_of in GROUPINGS.items():
        groups = defaultdict(list)
        for row in rows:
            groups[group_of(row)].append(row)
        print(f"by {name}")
        for group in sorted(groups):
            print(format_total(f"  {group}", groups[group], prices))
    print(format_total("all", rows, prices))
    n_unmeasured = sum(1 for row in rows if row["gpu_seconds"] and row["energy_j"] is None)
    if n_unmeasured:
        runs = counted(n_unmeasured, "run")
        print(f"kWh leaves out {runs}: not every GPU reports its energy")
    if prices:
        print_unpriced(rows, prices)


def format_head(prices: Prices | None) -> str:
    head = f"{'':<{NAME_WIDTH}}{'runs':>7}{'hours':>10}{'GPU-hours':>11}{'kWh':>9}"
    if prices is None:
        return head
    head += f"{printable(prices.unit)[:9]:>10}"
    return head if prices.kg_co2_per_kwh is None else f"{head}{'kg CO2':>9}"


def format_total(name: str, rows: list[Row], prices: Prices | None = None) -> str:
    """One line of the table: the sums over `rows`."""
    hours = sum_of(rows, "seconds") / HOUR_S
    gpu_hours = sum_of(rows, "gpu_seconds") / HOUR_S
    kwh = sum_of(rows, "energy_j") / KWH_J
    label = f"{printable(name)[:NAME_WIDTH]:<{NAME_WIDTH}}"
    line = f"{label}{len(rows):>7}{hours:>10.2f}{gpu_hours:>11.2f}{kwh:>9.3f}"
    if prices is None:
        return line
    line += f"{sum(cost_of(row, prices) for row in rows):>10.2f}"
    if prices.kg_co2_per_kwh is None:
        return line
    return f"{line}{kwh * prices.kg_co2_per_kwh:>9.3f}"


def cost_of(row: Row, prices: Prices) -> float:
    """What the GPU-hours of a run cost; 0 without a price of its GPU."""
    return gpu_hours_of(row) * (prices.of_gpu(row["device"]) or 0)


def gpu_hours_of(row: Row) -> float:
    return sum_of([row], "gpu_seconds") / HOUR_S


def print_unpriced(rows: list[Row], prices: Prices) -> None:
    """Says of which GPUs the file has no price."""
    unpriced: dict[str, float] = defaultdict(float)
    for row in rows:
        if prices.of_gpu(row["device"]) is None:
            unpriced[row["device"] or "GPUs without a name"] += gpu_hours_of(row)
    for device, gpu_hours in unpriced.items():
        if gpu_hours:
            print(
                f"{printable(prices.unit)} leaves out {gpu_hours:.2f} GPU-hours of"
                f" {printable(device)}: add its price, or default, to {prices.file}"
            )


def sum_of(rows: list[Row], key: str) -> float:
    # Older versions recorded negative times when the clock was set back.
    return sum(max(0, row[key] or 0) for row in rows)
