"""What a GPU-hour and a kWh cost you: prices.yaml in your configuration directory (~/.config/lab).

    unit: EUR
    per_gpu_hour: {H100: 2.5, A100 80GB: 1.6, A100: 1.2, default: 1}
    kg_co2_per_kwh: 0.056

None are shipped: prices change, and differ between people.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import LabError, nearest
from ..project import read_yaml, user_config

KEYS = ("unit", "per_gpu_hour", "kg_co2_per_kwh")
EXAMPLE = "For example: per_gpu_hour: {H100: 2.5, A100: 1.2}"


@dataclass(frozen=True)
class Prices:
    """A user's prices.

    Args:
        unit: a word to print above amounts: EUR, points.
        per_gpu_hour: words of a GPU's name -> amount; of several that fit, the longest counts.
            "default" is for all others.
        kg_co2_per_kwh: of the electricity that the GPUs use; None: not known.
    """

    file: Path
    unit: str
    per_gpu_hour: dict[str, float]
    kg_co2_per_kwh: float | None

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
    """The user's prices; None without a file.

    Raises:
        LabError: a key or a value is not understood.
    """
    file = prices_file()
    if not file.is_file():
        return None
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
    )


def amount(file: Path, key: str, value: Any) -> float:
    """
    Raises:
        LabError: it is no number from 0 on.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise LabError(f"{file}: {key} is {value!r}, but it must be a number from 0 on")
    return float(value)
