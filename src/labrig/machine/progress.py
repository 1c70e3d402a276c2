"""Progress bars: only in a terminal, and gone when the work is done."""

from collections.abc import Iterable
from typing import Any

from tqdm import tqdm


def byte_progress(description: str, n_bytes: int | None) -> tqdm:
    """A bar that appears once the work has taken a second; call its `update(bytes)`."""
    return tqdm(
        desc=description,
        total=n_bytes,
        unit="B",
        unit_scale=True,
        delay=1,
        leave=False,
        disable=None,
    )


def count_progress(description: str, items: Iterable[Any], unit: str) -> Iterable[Any]:
    """The same items, counted while they are worked on."""
    return tqdm(items, description, unit=f" {unit}s", mininterval=1, leave=False, disable=None)
