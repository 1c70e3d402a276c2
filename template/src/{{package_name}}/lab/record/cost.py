# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs cost`: hours, GPU-hours and energy of all runs."""

import argparse
from collections import defaultdict

from ..project import Project
from .index import rows

GROUPINGS = {
    "trial": lambda row: row["trial"],
    "person": lambda row: row["who"] or "?",
    "month": lambda row: (row["created"] or "?")[:7],
}


def cost_command(project: Project, args: list[str]) -> None:
    argparse.ArgumentParser(
        prog="lab runs cost",
        description="Hours, GPU-hours and energy of all runs, failed ones too.",
    ).parse_args(args)
    known = rows(project.paths["runs"])
    print(f"{'':<24}{'runs':>7}{'hours':>10}{'GPU-hours':>11}{'kWh':>9}")
    for name, key in GROUPINGS.items():
        groups = defaultdict(list)
        for row in known:
            groups[key(row)].append(row)
        print(f"by {name}")
        for group in sorted(groups):
            print(total_line(f"  {group}", groups[group]))
    print(total_line("all", known))
    unmeasured = sum(
        row.get("gpu_seconds", 0) not in (0, None) and row.get("energy_j") is None for row in known
    )
    if unmeasured:
        print(f"kWh leaves out {unmeasured} runs whose GPUs do not tell their energy")


def total_line(name: str, known: list[dict]) -> str:
    hours, gpu_hours, kwh = (
        sum(row.get(key) or 0 for row in known) / unit
        for key, unit in (("seconds", 3600), ("gpu_seconds", 3600), ("energy_j", 3.6e6))
    )
    return f"{name[:24]:<24}{len(known):>7}{hours:>10.2f}{gpu_hours:>11.2f}{kwh:>9.3f}"
