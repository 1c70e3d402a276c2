"""A function over many items in threads, results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ...machine.resources import cores

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_order(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    n_threads: int | None = None,
    ahead: int = 4,
) -> Iterator[Result]:
    """function(item) for each item, results in order.

    Args:
        n_threads: None: as many as this job has cores.
        ahead: how many items each thread may take before their results are asked for.
    """
    n_threads = n_threads or cores()
    pool = ThreadPoolExecutor(n_threads, "ahead")
    pending = deque()
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > ahead * n_threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
