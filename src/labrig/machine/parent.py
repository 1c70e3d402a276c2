"""Ends a process with the one that started it, however that one ended."""

from __future__ import annotations

import multiprocessing
import os
import threading
from functools import cache


@cache  # one thread is enough
def end_with_parent() -> None:
    """From now on this process, which multiprocessing started, ends as soon as its parent is gone.

    A parent that is killed with -9 cannot end its workers. The pipe to it closes in any case. With
    the start method `forkserver` it is the pipe to the process that asked for this one, not to the
    server, which lives as long as its children.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait_and_end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait_and_end, daemon=True).start()
