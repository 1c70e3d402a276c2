# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""A function over many items in threads, results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ..machine.cpu import cores

Item, Result = TypeVar("Item"), TypeVar("Result")


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], n_threads: int = 0, ahead: int = 4
) -> Iterator[Result]:
    """function(item) for each item, at most `ahead` per thread early; as many threads as there are cores for us."""
    n_threads = n_threads or cores()
    pool, started = ThreadPoolExecutor(n_threads, "ahead"), deque()
    try:
        for item in items:
            started.append(pool.submit(function, item))
            if len(started) > ahead * n_threads:
                yield started.popleft().result()
        while started:
            yield started.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
