"""Waits until GPUs have done nothing for a long time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

CHECK_EVERY_S = 30
IDLE_MIN = 30  # minutes at 0 % on all of the GPUs


def wait_until_idle(
    is_running: Callable[[], bool],
    read_percents: Callable[[], Collection[int | None]],
    idle_min: float = IDLE_MIN,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> bool:
    """Whether the GPUs were idle for `idle_min` minutes; False when the work has ended before.

    Args:
        is_running: whether the work still runs.
        read_percents: the use of each GPU; None, or no answer, counts as busy.
    """
    last_busy_s = clock()
    while is_running():
        if set(read_percents()) != {0}:
            last_busy_s = clock()
        if clock() - last_busy_s >= idle_min * 60:
            return True
        sleep(CHECK_EVERY_S)
    return False
