"""`lab runs cost`: hours, GPU-hours and energy of all runs, and money and CO2 with your prices."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...command_parser import CommandParser
from ...errors import LabError, nearest
from ...machine.text_formats import GB, HOUR_S, KWH_J, counted, printable
from ...machine.text_table import TextColumn, text_table
from ...project import Project, read_yaml, user_config
from ..files.schema import Row
from ..read.attempt_files import read_attempts
from ..read.fields import largest_of, total_of
from ..read.rows import read_rows
from ..read.run import run_roots

# What a GPU-hour and a kWh cost you: prices.yaml in your configuration directory (~/.config/lab).
#
#     unit: EUR
#     per_gpu_hour: {H100: 2.5, A100 80GB: 1.6, A100: 1.2, default: 1}
#     kg_co2_per_kwh: 0.056
#
# The list prices of clouds that are shipped (`--list NAME`) say when and where they were read:
# they change, and yours may differ.

LISTS = Path(__file__).parent / "prices"
KEYS = ("unit", "per_gpu_hour", "kg_co2_per_kwh", "read_on", "source")
EXAMPLE = "For example: per_gpu_hour: {H100: 2.5, A100: 1.2}"


@dataclass(frozen=True)
class Prices:
    """A user's prices, or the list of a cloud.

    Args:
        unit: a word to print above amounts: EUR, points.
        per_gpu_hour: words of a GPU's name -> amount; of several that fit, the longest counts.
            "default" is for all others.
        kg_co2_per_kwh: of the electricity that the GPUs use; None: not known.
        read_on: the day on which the prices were read at `source`.
    """

    file: Path
    unit: str
    per_gpu_hour: dict[str, float]
    kg_co2_per_kwh: float | None
    read_on: str | None = None
    source: str | None = None

    def of_gpu(self, device: str | None) -> float | None:
        """The price of an hour of a GPU; None when the file has none for it.

        Args:
            device: as the driver names it, "NVIDIA A100-SXM4-80GB"; None: not known.
        """
        fitting = [words for words in self.per_gpu_hour if has_words(device or "", words)]
        if not fitting:
            return self.per_gpu_hour.get("default")
        return self.per_gpu_hour[max(fitting, key=len)]


def has_words(device: str, words: str) -> bool:
    """Whether the name of a device has all of these words; A10 is no word of "A100"."""
    return all(
        re.search(rf"(?<![a-z0-9]){re.escape(word)}(?!\d)", device.casefold())
        for word in words.casefold().split()
    )


def prices_file() -> Path:
    return user_config() / "prices.yaml"


def read_prices() -> Prices | None:
    """The user's prices; None without a file."""
    file = prices_file()
    return parse_prices(file) if file.is_file() else None


def list_prices(name: str) -> Prices:
    """The list prices of a cloud, which are shipped."""
    names = sorted(path.stem for path in LISTS.glob("*.yaml"))
    if name not in names:
        raise LabError(
            f"no list of prices {name!r}{nearest(name, names)}. Lists: {', '.join(names)}"
        )
    return parse_prices(LISTS / f"{name}.yaml")


def parse_prices(file: Path) -> Prices:
    """ """
    values = read_yaml(file)
    for key in values:
        if key not in KEYS:
            raise LabError(
                f"{file}: {key} is no key{nearest(str(key), KEYS)}. Keys: {', '.join(KEYS)}"
            )
    per_gpu_hour = values.get("per_gpu_hour") or {}
    if not isinstance(per_gpu_hour, dict):
        raise LabError(f"{file}: per_gpu_hour is {per_gpu_hour!r}, not names of GPUs. {EXAMPLE}")
    factor = values.get("kg_co2_per_kwh")
    return Prices(
        file=file,
        unit=str(values.get("unit") or "cost"),
        per_gpu_hour={
            str(name): amount(file, f"per_gpu_hour.{name}", price)
            for name, price in per_gpu_hour.items()
        },
        kg_co2_per_kwh=None if factor is None else amount(file, "kg_co2_per_kwh", factor),
        read_on=str(values["read_on"]) if "read_on" in values else None,
        source=str(values["source"]) if "source" in values else None,
    )


def amount(file: Path, key: str, value: Any) -> float:
    """ """
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise LabError(f"{file}: {key} is {value!r}, but it must be a number from 0 on")
    return float(value)


NAME_WIDTH = 24  # characters


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
    parser = CommandParser(
        prog="lab runs cost",
        description="Hours, GPU-hours and energy of all runs, failed ones too; money and CO2 with "
        f"the prices in {prices_file()}.",
    )
    parser.add_argument(
        "--list", metavar="NAME", help="the list prices of a cloud instead: aws, lambda, runpod"
    )
    name = parser.parse_args(args).list
    prices = list_prices(name) if name else read_prices()
    rows = read_rows(run_roots(project))
    head, of_all = cost_table({"all": rows}, prices)
    print(head)
    for name, group_of in GROUPINGS.items():
        groups = defaultdict(list)
        for row in rows:
            groups[group_of(row)].append(row)
        in_order = {f"  {group}": groups[group] for group in sorted(groups)}
        print("\n".join([f"by {name}", *cost_table(in_order, prices)[1:]]))
    print(of_all)
    unmeasured = [row for row in rows if row["gpu_seconds_unmeasured"]]
    if unmeasured:
        hours = sum_of(unmeasured, "gpu_seconds_unmeasured") / HOUR_S
        print(
            f"kWh leaves out {hours:.2f} GPU-hours of {counted(len(unmeasured), 'run')}: not every GPU "
            "reports its energy, and no attempt that was killed"
        )
    if prices:
        print_unpriced(rows, prices)
    if prices and prices.read_on:
        print(f"prices were read on {prices.read_on} at {prices.source}; yours may differ")


def cost_table(groups: dict[str, list[Row]], prices: Prices | None) -> list[str]:
    """The sums over each group of runs, below a line of titles. Every such table is as wide."""
    each = list(groups.values())
    kwh = [sum_of(rows, "energy_j") / KWH_J for rows in each]
    columns = [
        TextColumn("", [printable(name)[:NAME_WIDTH] for name in groups], NAME_WIDTH),
        numbers_column("runs", [len(rows) for rows in each], 0, 7),
        numbers_column("hours", [sum_of(rows, "seconds") / HOUR_S for rows in each], 2, 10),
        numbers_column("GPU-hours", [sum_of(rows, "gpu_seconds") / HOUR_S for rows in each], 2, 11),
        numbers_column("kWh", kwh, 3, 9),
    ]
    if prices:
        costs = [sum(cost_of(row, prices) for row in rows) for rows in each]
        columns.append(numbers_column(printable(prices.unit)[:9], costs, 2, 10))
    if prices and prices.kg_co2_per_kwh is not None:
        kg = [n * prices.kg_co2_per_kwh for n in kwh]
        columns.append(numbers_column("kg CO2", kg, 3, 9))
    return text_table(columns, gap="")


def numbers_column(title: str, numbers: Sequence[float], n_decimals: int, width: int) -> TextColumn:
    texts = [f"{number:.{n_decimals}f}" for number in numbers]
    return TextColumn(title, texts, width, on_right=True)


def cost_of(row: Row, prices: Prices) -> float:
    """What the GPU-hours of a run cost, each attempt by its GPU; 0 without a price of that."""
    by_gpu = row["gpu_seconds_by"].items()
    return sum(seconds / HOUR_S * (prices.of_gpu(gpu) or 0) for gpu, seconds in by_gpu)


def print_unpriced(rows: list[Row], prices: Prices) -> None:
    """Says of which GPUs the file has no price."""
    unpriced: dict[str, float] = defaultdict(float)
    for row in rows:
        for gpu, seconds in row["gpu_seconds_by"].items():
            if prices.of_gpu(gpu) is None:
                unpriced[gpu or "GPUs without a name"] += seconds / HOUR_S
    for gpu, gpu_hours in unpriced.items():
        print(
            f"{printable(prices.unit)} leaves out {gpu_hours:.2f} GPU-hours of"
            f" {printable(gpu)}: add its price, or default, to {prices.file}"
        )


def sum_of(rows: list[Row], key: str) -> float:
    return sum(row[key] or 0 for row in rows)


# What a run has cost, in one line: the last one that a training prints.


def cost_line(run_dir: Path) -> str:
    """Hours, GPU-hours, peak memory and kWh of a run, over all its attempts."""
    attempts = read_attempts(run_dir)
    hours = (total_of(attempts, "seconds") or 0) / HOUR_S
    gpu_hours = (total_of(attempts, "gpu_seconds") or 0) / HOUR_S
    energy_j = total_of(attempts, "energy_j")
    peak_memory_bytes = largest_of(attempts, "peak_memory_bytes") or 0
    peak_gpu_bytes = largest_of(attempts, "peak_gpu_bytes")
    parts = [
        f"{hours:.3f} h",
        f"{gpu_hours:.3f} GPU-hours",
        f"peak memory {peak_memory_bytes / GB:.2f} GB",
    ]
    if peak_gpu_bytes:
        parts.append(f"of a GPU {peak_gpu_bytes / GB:.2f} GB")
    parts.append("kWh not measured" if energy_j is None else f"{energy_j / KWH_J:.3f} kWh")
    of_attempts = f" of {len(attempts)} attempts" if len(attempts) > 1 else ""
    return f"cost{of_attempts}: {', '.join(parts)}"
