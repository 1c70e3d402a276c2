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


def sample_progress(description: str, samples: Iterable[Any]) -> tqdm:
    """The same samples, counted while they are read."""
    return tqdm(samples, description, unit=" samples", mininterval=1, leave=False, disable=None)
