# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""`lab runs cost`: hours, GPU-hours and energy of all runs."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable

from ..machine.terminal import printable
from ..project import Project
from .index import read_rows
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
        description="Hours, GPU-hours and energy of all runs, failed ones too.",
    ).parse_args(args)
    rows = read_rows(run_roots(project))
    print(f"{'':<{NAME_WIDTH}}{'runs':>7}{'hours':>10}{'GPU-hours':>11}{'kWh':>9}")
    for name, group_of in GROUPINGS.items():
        groups = defaultdict(list)
        for row in rows:
            groups[group_of(row)].append(row)
        print(f"by {name}")
        for group in sorted(groups):
            print(format_total(f"  {group}", groups[group]))
    print(format_total("all", rows))
    n_unmeasured = sum(1 for row in rows if row["gpu_seconds"] and row["energy_j"] is None)
    if n_unmeasured:
        print(f"kWh leaves out {n_unmeasured} runs whose GPUs do not report their energy")


def format_total(name: str, rows: list[Row]) -> str:
    """One line of the table: the sums over `rows`."""
    hours = sum_of(rows, "seconds") / HOUR_S
    gpu_hours = sum_of(rows, "gpu_seconds") / HOUR_S
    kwh = sum_of(rows, "energy_j") / KWH_J
    label = f"{printable(name)[:NAME_WIDTH]:<{NAME_WIDTH}}"
    return f"{label}{len(rows):>7}{hours:>10.2f}{gpu_hours:>11.2f}{kwh:>9.3f}"


def sum_of(rows: list[Row], key: str) -> float:
    # Older versions recorded negative times when the clock was set back.
    return sum(max(0, row[key] or 0) for row in rows)
