"""Writes the generated demand of ten regions, day by day: python make_demand.py FILE.csv"""

import csv
import sys
from datetime import date, timedelta
from pathlib import Path

import numpy as np

N_REGIONS = 10
N_DAYS = 1827
FIRST = date(2020, 1, 1)


def region(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Demand in MW and temperature in °C, (N_DAYS,) each: season, week, weather that stays for some days."""
    rng = np.random.default_rng(seed)
    day = np.arange(N_DAYS)
    season = np.cos(2 * np.pi * day / 365.25)
    weather = np.zeros(N_DAYS)
    for n in range(1, N_DAYS):
        weather[n] = 0.8 * weather[n - 1] + rng.normal(0, 2)
    temperature = 12 - 9 * season + weather
    size = rng.uniform(200, 900)
    week = np.where(day % 7 >= 5, -0.12, 0)
    demand = size * (1 + week + 0.018 * (18 - temperature) + rng.normal(0, 0.015, N_DAYS))
    return demand, temperature


def main(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(["region", "day", "demand", "temperature"])
        for number in range(N_REGIONS):
            for n, (demand, temperature) in enumerate(zip(*region(number), strict=True)):
                day = FIRST + timedelta(days=n)
                writer.writerow([f"region {number}", day, f"{demand:.2f}", f"{temperature:.2f}"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
