"""Ends a process with the one that started it, however that one ended."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from functools import cache
from typing import Any

# The pipes of a process that was killed close one after the other.
ALL_PIPES_CLOSE_S = 10


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

    tell = sys.excepthook

    def end_or_tell(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        # A thread of multiprocessing hands batches to the parent. Cut off in the middle, it would
        # print a traceback, in the time between the end of its pipe and that of the parent's.
        if isinstance(error, EOFError | ConnectionError):
            parent.join(ALL_PIPES_CLOSE_S)
            if not parent.is_alive():
                os._exit(1)
        tell(kind, error, trace)

    sys.excepthook = end_or_tell
    threading.Thread(target=wait_and_end, daemon=True).start()
