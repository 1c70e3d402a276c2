"""The request to stop: a signal only sets a flag, and the program decides when it stops.

And the request for the stack of each thread, which is answered where a process stands still.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

# The time limit's, the user's own, the scheduler's: all mean the same.
PREEMPTION_SIGNALS = (signal.SIGUSR2, signal.SIGUSR1, signal.SIGTERM)
STACKS_SIGNAL = signal.SIGURG  # a process that does not listen to it ignores it
STACKS = "stack-{rank}.txt"  # in the directory of an attempt
LOOK_EVERY_S = 0.5  # for that directory
BRIEF_S = 0.05  # to open a file in one that is there


class StopRequest:
    """Remembers the first signal that asked this process to stop; `signum` is 0 until then."""

    def __init__(self) -> None:
        self.signum = 0
        self._previous: dict[int, Any] = {}

    def listen(self, *signums: int) -> list[int]:
        """Takes these signals over and returns those that were not listened to before. Main thread only."""
        new = [signum for signum in signums if signum not in self._previous]
        for signum in signums:
            self._previous.setdefault(signum, signal.signal(signum, self._remember))
        return new

    def ignore(self, *signums: int) -> None:
        """Gives these signals back to who had them before `listen`."""
        for signum in signums:
            if signum in self._previous:
                signal.signal(signum, self._previous.pop(signum))

    def is_listening(self) -> bool:
        return bool(self._previous)

    def _remember(self, signum: int, frame: FrameType | None) -> None:
        pressed_again = signum == signal.SIGINT and self.signum
        if pressed_again:  # a second Ctrl-C stops at once
            raise KeyboardInterrupt
        self.signum = self.signum or signum


STOP = StopRequest()


@contextmanager
def stacks_on_request(file: Path) -> Iterator[None]:
    """Meanwhile STACKS_SIGNAL appends the stacks of this process, also of one that hangs, to a file.

    C code of Python writes them. A file that nobody asked for is removed. Its directory is made by the
    first of several processes, for which the others need not wait.
    """
    stacks: list[int] = []
    over = threading.Event()

    def listen() -> None:
        while not stacks:
            try:
                flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW
                stacks.append(os.open(file, flags, 0o666))
                faulthandler.register(STACKS_SIGNAL, stacks[0])
            except FileNotFoundError:
                if over.wait(LOOK_EVERY_S):
                    return
            except OSError:  # a full disk matters elsewhere
                return

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    listener.join(BRIEF_S)
    try:
        yield
    finally:
        over.set()
        listener.join()
        if stacks:
            faulthandler.unregister(STACKS_SIGNAL)
            with suppress(OSError):
                if not os.fstat(stacks[0]).st_size:
                    file.unlink()
            os.close(stacks[0])
